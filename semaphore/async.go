package semaphore

import (
	"context"
	"time"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// Pending is an asynchronous request, made by [Weighted.AcquireAsync] or
// [Weighted.AcquireFunc]. It is safe for concurrent use.
type Pending struct {
	w   waiter // Value.ready is the channel of Done, once that was asked for
	sem *Weighted

	// f is what AcquireFunc was given, until it is called or never will be. It
	// belongs to whoever decides the request.
	f func(error)

	// group is that of the request's Done channel, while the request is in it.
	group      *group
	next, prev *Pending

	// end is the request's context until it has ended, and then what Err
	// returns: nil or an error. They share a field because a million requests
	// may be queued. Written under sem.mu.
	end any
}

// AcquireAsync asks for n permits without waiting for them: it takes its place
// in the queue, if it must, before it returns. Requests of AcquireAsync,
// [Weighted.AcquireFunc] and [Weighted.Acquire] wait in one queue, in the order
// of the calls. A queued request costs some 150 bytes and no goroutine, except
// that a ctx which is not built on package context costs one per Done channel.
//
// What ends the wait is as for [Weighted.AcquireWithin], and
// [Pending.Cancel] besides; [Pending.Done] and [Pending.Err] tell. Once
// granted, the caller owns n permits, whether or not ctx ends afterwards, and
// returns them with [Weighted.Release].
//
// It panics if n < 0 or ctx is nil. To be called with the outcome instead of
// waiting for it, use [Weighted.AcquireFunc].
//
// A request must be decided before its testing/synctest bubble ends.
func (s *Weighted) AcquireAsync(ctx context.Context, n int64, maxWait time.Duration) *Pending {
	return s.acquireAsync(ctx, n, maxWait, nil)
}

// AcquireFunc is [Weighted.AcquireAsync] that calls f once with the outcome: nil
// when granted, and then f owns the n permits; else the error, and f holds
// nothing. If the request is withdrawn by [Pending.Cancel] or [Pending.Wait], f
// is never called. Otherwise the Pending only observes.
//
// Like that of context.AfterFunc, the call is in a goroutine of its own, even
// if the outcome is known at once. f may use the semaphore as it likes.
//
// It panics if n < 0, or if ctx or f is nil.
func (s *Weighted) AcquireFunc(ctx context.Context, n int64, maxWait time.Duration, f func(error)) *Pending {
	if f == nil {
		panic("semaphore: nil func")
	}
	return s.acquireAsync(ctx, n, maxWait, f)
}

func (s *Weighted) acquireAsync(ctx context.Context, n int64, maxWait time.Duration, f func(error)) *Pending {
	p := &Pending{sem: s, f: f}
	err := s.AcquireWithin(ctx, n, 0)
	if err == ErrTimeout && maxWait > 0 {
		p.enqueue(ctx, n, maxWait)
	} else {
		p.settle(err)
	}
	return p
}

// enqueue puts p into the queue, unless it can be settled now after all.
func (p *Pending) enqueue(ctx context.Context, n int64, maxWait time.Duration) {
	s, done := p.sem, ctx.Done()
	owner := p.f == nil // whether a grant is the caller's, or that of f
	now := s.now(maxWait)
	if decided, err := s.lockAndAdmit(ctx, done, n, maxWait, now); decided {
		p.settle(err)
		return
	}
	p.w.Weight = n
	p.w.Value = request{done: done, pending: p}
	p.end = ctx
	s.pushLocked(&p.w, maxWait, now)
	var unarmed *group
	if done != nil {
		unarmed = s.joinLocked(p, done)
	}
	s.unlock()
	if unarmed != nil {
		unarmed.arm(ctx, p, owner)
	}
}

// settle gives p, which was not queued and which nobody else knows yet, its
// outcome.
func (p *Pending) settle(err error) {
	if err == nil {
		p.w.Settle(waitq.Granted)
	} else {
		p.w.Settle(waitq.Refused)
		p.end = err
	}
	p.tell()
}

// leaveLocked takes p, just decided, out of its group and sets what Err returns.
func (p *Pending) leaveLocked(end any, out *batch) {
	p.end = end
	p.w.Value.done = nil
	if g := p.group; g != nil {
		if stop := g.removeLocked(p); stop != nil {
			out.stops = append(out.stops, stop)
		}
	}
}

// tell announces the outcome. It runs after mu is released, and once.
func (p *Pending) tell() {
	if done := p.w.Value.ready; done != nil {
		close(done)
	}
	if f := p.f; f != nil {
		p.f = nil
		err, _ := p.end.(error)
		// Not several calls in one goroutine, as one of them may block or end
		// it; and never on this one, which belongs to a releaser, or a timer.
		go f(err)
	}
}

// Done returns a channel that is closed once the request is decided. It is made
// on first use, and always the same until then.
func (p *Pending) Done() <-chan struct{} {
	p.sem.mu.Lock()
	defer p.sem.mu.Unlock()
	if p.w.Value.ready == nil {
		if p.w.Outcome() != waitq.Waiting {
			return closed
		}
		p.w.Value.ready = make(chan struct{})
	}
	return p.w.Value.ready
}

// closed is the Done of requests that were decided before anybody asked.
var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err returns [ErrPending] until the request is decided. Then it returns nil if
// it was granted, and otherwise why it was not: ctx.Err(), [ErrTimeout],
// [ErrQueueFull], [ErrExceedsLimit], [ErrClosed], or context.Canceled if it was
// withdrawn by [Pending.Cancel] or [Pending.Wait].
func (p *Pending) Err() error {
	p.sem.mu.Lock()
	outcome, grouped, end := p.w.Outcome(), p.group != nil, p.end
	p.sem.mu.Unlock()
	switch {
	case outcome == waitq.Waiting:
		return ErrPending
	case grouped:
		// The grant loop found its context done; the group is about to note
		// the error. We may ask for it: this is the caller's goroutine.
		return errOf(end.(context.Context))
	}
	err, _ := end.(error)
	return err
}

// granted reports whether the request has been granted.
func (p *Pending) granted() bool {
	p.sem.mu.Lock()
	defer p.sem.mu.Unlock()
	return p.w.Outcome() == waitq.Granted
}

// Cancel withdraws the request if it is not decided yet, and reports whether it
// did. If so, nothing is held and f, of [Weighted.AcquireFunc], is never called.
// If not, and the request was granted, the permits are the caller's, or f's, as
// if Cancel had not been called.
func (p *Pending) Cancel() bool {
	s := p.sem
	s.lock()
	if p.w.Outcome() != waitq.Waiting {
		s.unlock()
		return false
	}
	p.f = nil
	var out batch
	s.decide(&p.w, waitq.Canceled, &out)
	s.grantAndUnlock(&out, handOff)
	return true
}

// Wait waits until the request is decided and returns its outcome, as
// [Pending.Err] does, even if ctx is done. If ctx ends first, Wait withdraws the
// request, as Cancel, and returns ctx.Err(); if it is decided in that moment,
// Wait returns the outcome all the same, and with nil the permits are held. It
// panics if ctx is nil. Several goroutines may wait.
func (p *Pending) Wait(ctx context.Context) error {
	done := ctx.Done()
	if err := p.Err(); err != ErrPending {
		return err
	}
	select {
	case <-p.Done():
	case <-done:
		if p.Cancel() {
			return errOf(ctx)
		}
	}
	return p.Err()
}
