package bulkhead

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// asyncCall is the part of an asynchronous call that knows no result type: how
// it obtains its permits and is canceled.
//
//	          begin (its own goroutine)         conclude
//	queued ─────────────────────────────▶ begun ────────▶ over
//	   │ withdraw (any goroutine)                    ▲
//	   └─────────────────────────────▶ canceled ─────┘
//
// Whoever moves state away from queued owns the permits, if they are granted.
type asyncCall struct {
	core    *core
	weight  int64
	maxWait time.Duration
	ctx     context.Context // for whoever moves state on

	// pending is the semaphore's request, if the call came to wait, which it did
	// at queuedAt. Only withdraw uses pending: begin may run before it is set.
	pending  *semaphore.Pending
	queuedAt time.Duration // since epoch
	waited   bool

	state atomic.Uint32
}

// States of an asyncCall.
const (
	queued uint32 = iota
	begun
	canceled
)

// epoch is an arbitrary time to measure from. Only differences count: in a
// testing/synctest bubble the clock may stand before it.
var epoch = time.Now()

// prepare sets up a call through h.
func (a *asyncCall) prepare(ctx context.Context, h handle) {
	a.core, a.weight, a.maxWait, a.ctx = h.core, h.weight, h.wait(), ctx
}

// waits reports whether the call queues for permits that the semaphore did not
// grant at once, for the reason err.
func (a *asyncCall) waits(err error) bool {
	return err == semaphore.ErrTimeout && a.maxWait > 0
}

// queue has decided called with the outcome, on a goroutine of its own.
func (a *asyncCall) queue(decided func(error)) {
	a.waited, a.queuedAt = true, time.Since(epoch)
	a.pending = a.core.sem.AcquireFunc(a.ctx, a.weight, a.maxWait, decided)
}

// begin claims the call for its own goroutine, and reports whether it could:
// not if it was canceled. err is the semaphore's.
func (a *asyncCall) begin(err error) (c call, ctx context.Context, ok bool) {
	if !a.state.CompareAndSwap(queued, begun) {
		return call{}, nil, false
	}
	c, ctx = a.call(err)
	return c, ctx, true
}

// call returns the call as it is told to listeners, those of now, who will hear
// of it until its end; and its context, which a call that is kept forgets.
func (a *asyncCall) call(err error) (c call, ctx context.Context) {
	c = call{core: a.core, weight: a.weight, listener: a.core.listener.Load()}
	if a.waited && err != semaphore.ErrQueueFull {
		c.waited = time.Since(epoch) - a.queuedAt
	}
	ctx, a.ctx = a.ctx, nil
	return c, ctx
}

// withdraw ends the call if it has neither begun nor been refused, and reports
// whether it did; then nothing is held any more.
func (a *asyncCall) withdraw() bool {
	if a.pending != nil {
		if err := a.pending.Err(); err != nil && err != semaphore.ErrPending {
			return false // refused, and about to be told so
		}
	}
	if !a.state.CompareAndSwap(queued, canceled) {
		return false
	}
	if a.pending == nil || !a.pending.Cancel() && a.pending.Err() == nil {
		a.core.sem.Release(a.weight) // it was granted, and about to begin
	}
	return true
}

// promise is an asynchronous call and, once it is over, its outcome.
type promise[T any] struct {
	asyncCall

	// out is nil until the call is over or somebody waits for it. A million may
	// be queued, and few waited for.
	out atomic.Pointer[outcome[T]]
}

// outcome is how an asynchronous call ended, with a value and an error, or with
// a panic; once over is closed.
type outcome[T any] struct {
	over     chan struct{}
	value    T
	err      error
	panicked *PanicError
}

// closed is the over of calls that nobody waited for.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// wait returns a channel that is closed once the call is over.
func (p *promise[T]) wait() <-chan struct{} {
	if out := p.out.Load(); out != nil {
		return out.over
	}
	p.out.CompareAndSwap(nil, &outcome[T]{over: make(chan struct{})})
	return p.out.Load().over
}

// outcome returns how the call ended, or nil if it is not over.
func (p *promise[T]) outcome() *outcome[T] {
	out := p.out.Load()
	if out == nil {
		return nil
	}
	select {
	case <-out.over:
		return out
	default:
		return nil
	}
}

// conclude has work fill in the outcome, and ends the call, whether or not work
// returns: nothing it does ends the process.
func (p *promise[T]) conclude(work func(*outcome[T])) {
	end := p.out.Load()
	awaited := end != nil
	if !awaited {
		end = &outcome[T]{over: closed}
	}
	end.err = ErrGoexit // unless work says otherwise
	defer func() {
		if v := recover(); v != nil {
			end.panicked = &PanicError{Value: v, Stack: debug.Stack()}
		}
		if !awaited {
			if p.out.CompareAndSwap(nil, end) {
				return
			}
			out := p.out.Load() // somebody has come to wait
			out.value, out.err, out.panicked = end.value, end.err, end.panicked
			end = out
		}
		close(end.over)
	}()
	work(end)
}

// settle concludes a call that has no goroutine of its own: here, or on one made
// for its listeners if there are any.
func (p *promise[T]) settle(c *call, work func(*outcome[T])) {
	if c.listener == nil {
		p.conclude(work)
	} else {
		go p.conclude(work)
	}
}

// refuse ends a call that is none, for lack of a function or a weight.
func (p *promise[T]) refuse(err error) {
	p.state.Store(begun)
	p.conclude(func(out *outcome[T]) { out.err = err })
}

// get returns what the call returned, or panics as it did.
func (o *outcome[T]) get() (T, error) {
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.value, o.err
}

// cancel withdraws the call for the given reason, and cause if there is one,
// and returns its error; or nil if it has begun or is over.
func (p *promise[T]) cancel(reason, cause error) error {
	if !p.withdraw() {
		return nil
	}
	c, ctx := p.call(reason)
	err := c.newCanceled(reason, cause)
	p.settle(&c, func(out *outcome[T]) {
		c.tellCanceled(ctx, reason)
		out.err = err
	})
	return err
}
