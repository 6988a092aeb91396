package bulkhead

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/semaphore"
)

// handle is what a bulkhead and each of its handles are: the shared core, and
// how calls made through it ask for their permits. It is small and a value, so
// a handle that is used at once costs no allocation.
type handle struct {
	core   *core
	weight int64

	// maxWait replaces the configured one if ownWait is set.
	maxWait time.Duration
	ownWait bool
}

func (h handle) weighing(n int64) handle {
	h.weight = n
	return h
}

func (h handle) waiting(d time.Duration) handle {
	h.maxWait, h.ownWait = d, true
	return h
}

// wait returns how long a call that starts now may wait.
func (h handle) wait() time.Duration {
	if h.ownWait {
		return h.maxWait
	}
	return h.core.settings.Load().cfg.MaxWait
}

// misused reports whether no call through the handle can be made.
func (h handle) misused() bool { return h.weight < 1 || h.maxWait < 0 }

// misuse returns the error of such a call.
func (h handle) misuse() error {
	if h.weight < 1 {
		return fmt.Errorf("bulkhead %q: weight is %d, want at least 1", h.core.name, h.weight)
	}
	return fmt.Errorf("bulkhead %q: wait is %v, must not be negative", h.core.name, h.maxWait)
}

// nilFunc returns the error for a call without a function.
func (h handle) nilFunc() error {
	return fmt.Errorf("bulkhead %q: function is nil", h.core.name)
}

// call is one call, from its start to its end.
type call struct {
	core   *core
	weight int64
	waited time.Duration

	// listener is who listened when the call started, and hears of it until
	// its end: so what each listener counts adds up. nil means nobody, and
	// then granted is not set.
	listener *event.Listener
	granted  time.Time
}

// start obtains the permits for a call through h. On an error the call is over:
// it holds nothing, and the event is told.
func (c *call) start(ctx context.Context, h handle) error {
	if h.misused() {
		return h.misuse()
	}
	c.core, c.weight, c.listener = h.core, h.weight, h.core.listener.Load()
	// First without waiting: a call that does not wait pays for no look at the
	// clock, and has waited exactly 0.
	if err := c.core.sem.AcquireWithin(ctx, c.weight, 0); err != nil {
		maxWait := h.wait()
		if err == semaphore.ErrTimeout && maxWait > 0 {
			err = c.wait(ctx, maxWait)
		}
		if err != nil {
			return c.refused(ctx, err, maxWait)
		}
	}
	c.noteGrant()
	return nil
}

// noteGrant notes when the permits were granted, if that will be told.
func (c *call) noteGrant() {
	if c.listener != nil {
		c.granted = time.Now()
	}
}

// wait obtains the permits for a call that may wait for them, and notes how
// long it did.
func (c *call) wait(ctx context.Context, maxWait time.Duration) error {
	queued := time.Now()
	err := c.core.sem.AcquireWithin(ctx, c.weight, maxWait)
	if err != semaphore.ErrQueueFull {
		c.waited = time.Since(queued)
	}
	return err
}

// refused tells that the call did not get its permits, and returns the error
// for the caller. err is the semaphore's.
func (c *call) refused(ctx context.Context, err error, maxWait time.Duration) error {
	var reason event.Reason
	switch err {
	case semaphore.ErrTimeout:
		reason = event.Full
		if maxWait > 0 {
			reason = event.TimedOut
		}
	case semaphore.ErrQueueFull:
		reason = event.QueueFull
	case semaphore.ErrExceedsLimit:
		reason = event.TooHeavy
	case semaphore.ErrClosed:
		reason = event.Closed
	default: // the context's
		return c.canceled(ctx, err)
	}
	s := c.core.settings.Load()
	if c.listener != nil && c.listener.Rejected != nil {
		c.listener.Rejected(ctx, event.Rejected{
			Time:          c.core.stamp(time.Now()),
			Name:          c.core.name,
			Weight:        c.weight,
			MaxConcurrent: s.cfg.MaxConcurrent,
			MaxWait:       maxWait,
			Waited:        c.waited,
			Reason:        reason,
		})
	}
	return s.rejection(reason, c.weight, maxWait, c.waited)
}

// canceled is refused for a call whose context ended.
func (c *call) canceled(ctx context.Context, err error) error {
	c.tellCanceled(ctx, err)
	return c.newCanceled(err, context.Cause(ctx))
}

func (c *call) newCanceled(err, cause error) *CanceledError {
	return &CanceledError{Name: c.core.name, Err: err, Waited: c.waited, cause: cause}
}

func (c *call) tellCanceled(ctx context.Context, err error) {
	if c.listener != nil && c.listener.Canceled != nil {
		c.listener.Canceled(ctx, event.Canceled{
			Time:   c.core.stamp(time.Now()),
			Name:   c.core.name,
			Weight: c.weight,
			Waited: c.waited,
			Err:    err,
		})
	}
}

// permitted tells that the call has its permits. If a listener panics or calls
// Goexit, the call ends here: the permits go back and Released is told, while
// the panic goes on.
func (c *call) permitted(ctx context.Context) {
	told := false
	defer func() {
		if !told {
			c.core.sem.Release(c.weight)
			c.aside(func(c *call) { c.released(ctx, nil) })
		}
	}()
	c.tellPermitted(ctx)
	told = true
}

func (c *call) tellPermitted(ctx context.Context) {
	if c.listener.Permitted == nil {
		return
	}
	c.listener.Permitted(ctx, event.Permitted{
		Time:   c.core.stamp(c.granted),
		Name:   c.core.name,
		Weight: c.weight,
		Active: c.core.sem.Stats().InUse,
		Waited: c.waited,
	})
}

// endedInQueue returns the error of ctx if it is done, and then the permits are
// back. It is for a call that was granted them before it had a goroutine.
func (c *call) endedInQueue(ctx context.Context) (err error) {
	goOn := false
	defer func() {
		if !goOn { // even if ctx panics
			c.core.sem.Release(c.weight)
		}
	}()
	err = ctx.Err()
	goOn = err == nil
	return err
}

// end gives the permits back, then tells how the call ended. err is what the
// function returned; if it did not return, it panicked or called Goexit, which
// is on its way: it is not recovered, so that a crash shows where it came from.
func (c *call) end(ctx context.Context, returned bool, err error) {
	c.core.sem.Release(c.weight)
	c.tellEnd(ctx, returned, err)
}

// tellEnd is end for a call whose permits are back.
func (c *call) tellEnd(ctx context.Context, returned bool, err error) {
	switch {
	case c.listener == nil:
	case !returned:
		c.aside(func(c *call) { c.finished(ctx, event.Panicked, nil) })
	case err == nil:
		c.finished(ctx, event.OK, nil)
	case c.endedBy(ctx, err):
		c.released(ctx, err)
	default:
		c.finished(ctx, event.Failed, err)
	}
}

// endedBy reports whether err is what the end of ctx made of the call: ctx is
// done, and err matches its error or its cause. If a method of either panics,
// the call is told as failed while the panic goes on.
func (c *call) endedBy(ctx context.Context, err error) bool {
	known := false
	defer func() {
		if !known {
			c.aside(func(c *call) { c.finished(ctx, event.Failed, err) })
		}
	}()
	ended := ctx.Err()
	canceled := ended != nil && (errors.Is(err, ended) || errors.Is(err, context.Cause(ctx)))
	known = true
	return canceled
}

// errOf returns the error of a context that is done. Some other error than nil
// must come of it, whatever the context says: nil would mean success.
func errOf(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}

func (c *call) finished(ctx context.Context, outcome event.Outcome, err error) {
	if c.listener.Finished == nil {
		return
	}
	now := time.Now()
	c.listener.Finished(ctx, event.Finished{
		Time:    c.core.stamp(now),
		Name:    c.core.name,
		Weight:  c.weight,
		Active:  c.core.sem.Stats().InUse,
		Elapsed: now.Sub(c.granted),
		Outcome: outcome,
		Err:     err,
	})
}

func (c *call) released(ctx context.Context, err error) {
	if c.listener.Released == nil {
		return
	}
	now := time.Now()
	c.listener.Released(ctx, event.Released{
		Time:    c.core.stamp(now),
		Name:    c.core.name,
		Weight:  c.weight,
		Active:  c.core.sem.Stats().InUse,
		Elapsed: now.Sub(c.granted),
		Err:     err,
	})
}

// aside tells an event while a panic or Goexit is on its way through this
// goroutine, on one of its own, which is waited for. Here, a listener's Goexit
// would replace that panic without a trace, and nothing can stop a Goexit.
func (c *call) aside(tell func(*call)) {
	d := *c // c stays on its caller's stack
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }() // the first one counts
		tell(&d)
	}()
	<-done
}
