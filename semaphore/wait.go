package semaphore

import (
	"context"
	"math"
	"runtime"
	"time"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// request is what a waiter keeps for the semaphore.
type request struct {
	// done is the context's Done channel: the grant loop may look at that, but
	// not call ctx.Err, which is user code.
	done <-chan struct{}

	// ready gets one token when somebody else has decided the request, after
	// mu is released, and (Unfair) one each time the waiter is woken to compete,
	// of which it takes one before it can get another. It has room for both, so
	// telling never blocks. That of an asynchronous request is closed instead.
	ready chan struct{}

	// pending is the asynchronous request that the waiter is part of, or nil.
	pending *Pending

	// since is when an Unfair semaphore queued the request.
	since int64
}

type (
	waiter  = waitq.Waiter[request]
	waiters = waitq.Queue[request]
	parked  = waitq.Parked[request]
)

// chunk is the most waiters that are decided in one hold of mu: some tens of
// microseconds, whether ten wait or a million.
const chunk = 256

// acquireSlow takes permits under mu or waits for them.
func (s *Weighted) acquireSlow(ctx context.Context, n int64, maxWait time.Duration) error {
	done, now := ctx.Done(), s.now(maxWait)
	if decided, err := s.lockAndAdmit(ctx, done, n, maxWait, now); decided {
		return err
	}
	w := s.takeLocked()
	w.Weight = n
	w.Value.done = done
	s.pushLocked(&w.Waiter, maxWait, now)
	s.unlock()
	// Park until w is decided: by somebody else, or in endWait. This is not a
	// function of its own (await is inlined), for when a parked goroutine wakes its
	// stack is cold, and each frame costs a cache line or two.
	var outcome waitq.Outcome
	if told := await(w.Value.ready, done); told && !s.unfair {
		outcome = w.Outcome()
	} else {
		outcome = s.endWait(&w.Waiter, told)
	}
	s.retire(w)
	switch outcome {
	case waitq.Granted:
		if ended(done) {
			s.Release(n)
			return errOf(ctx)
		}
		return nil
	case waitq.Canceled:
		return errOf(ctx)
	default:
		return refusals[outcome]
	}
}

// endWait is for a waiter that was not simply told its outcome: its context has
// ended, or, Unfair, it may have been woken to see whether its permits are there,
// and parks again if not. told says whether w was sent a token, and took it. The
// channel of w is empty on return.
func (s *Weighted) endWait(w *waiter, told bool) waitq.Outcome {
	ready, done := w.Value.ready, w.Value.done
	for {
		s.lock()
		owed := 0 // tokens that are sent, or about to be
		if w.Woken {
			owed++
		}
		if told {
			owed--
		}
		switch {
		case w.Outcome() != waitq.Waiting:
			owed++ // the decider's
			s.unlock()
		case ended(done):
			// Withdraw. Whoever fits now that w is gone must go at once: no
			// Release may ever come.
			s.queue.Decide(w, waitq.Canceled)
			s.grantAndUnlock(new(batch), handOff)
		default:
			if !s.takeTurnAndUnlock(w) {
				told = await(ready, done)
				continue
			}
		}
		for range owed {
			<-ready
		}
		return w.Outcome()
	}
}

// await waits for a token from ready, and reports whether one came before done
// was closed.
func await(ready, done <-chan struct{}) bool {
	if done == nil {
		<-ready // a receive costs half of what a select does
		return true
	}
	select {
	case <-ready:
		return true
	case <-done:
		return false
	}
}

// refusals are the errors of the outcomes that have one of their own. Canceled
// has that of the context, if it was the context, and this otherwise.
var refusals = [...]error{
	waitq.Canceled: context.Canceled,
	waitq.Expired:  ErrTimeout,
	waitq.Evicted:  ErrExceedsLimit,
	waitq.Closed:   ErrClosed,
}

// tryAcquireSlow is TryAcquire when only mu knows.
func (s *Weighted) tryAcquireSlow(n int64) bool {
	now := s.now(0)
	s.lockAndServe(now)
	granted, _ := s.admitLocked(n, 0, now)
	s.unlock()
	return granted
}

// releaseSlow is Release when somebody may wait for the permits, or when there
// seem to be too many of them.
func (s *Weighted) releaseSlow(n int64) {
	now := s.now(0)
	s.lock()
	if n > s.inUseLocked() {
		s.unlock()
		panic(overRelease)
	}
	s.avail += n
	s.grantAndUnlock(new(batch), now)
}

// lockAndAdmit takes mu and decides a request as far as it can be decided at
// once. If it must wait instead, mu is still held on return.
func (s *Weighted) lockAndAdmit(ctx context.Context, done <-chan struct{}, n int64, maxWait time.Duration, now int64) (decided bool, err error) {
	s.lockAndServe(now)
	if ended(done) {
		// It ended while we waited for mu, perhaps before a Release that we
		// would now profit from.
		s.unlock()
		return true, errOf(ctx)
	}
	granted, err := s.admitLocked(n, maxWait, now)
	if granted || err != nil {
		s.unlock()
		return true, err
	}
	return false, nil
}

// admitLocked decides a new request as far as it can be decided at once: it is
// granted, or refused with an error, or, with neither, must wait.
func (s *Weighted) admitLocked(n int64, maxWait time.Duration, now int64) (granted bool, err error) {
	switch {
	case s.closed:
		return false, ErrClosed
	case n > s.heaviestAllowed():
		return false, ErrExceedsLimit
	case n <= s.avail && (s.queue.Len() == 0 || s.young(s.queue.Head(), now)):
		// No barging, if not Unfair: free permits that somebody waits for are
		// not free.
		s.avail -= n
		return true, nil
	case maxWait <= 0:
		return false, ErrTimeout
	case s.maxWaiters > 0 && s.queue.Len() >= s.maxWaiters:
		return false, ErrQueueFull
	}
	return false, nil
}

// pushLocked puts w, of a request made now, into the queue.
func (s *Weighted) pushLocked(w *waiter, maxWait time.Duration, now int64) {
	w.Value.since = now
	s.queue.Push(w)
	// A deadline beyond the end of the clock, in 292 years, is none.
	if due := now + int64(maxWait); maxWait != Forever && due > now {
		s.setDeadlineLocked(w, due, maxWait)
	}
}

// heaviestAllowed is the weight above which a request is impossible. At a limit
// of 0 none is: the semaphore is paused, and what does not fit waits.
func (s *Weighted) heaviestAllowed() int64 {
	if limit := s.limit.Load(); limit > 0 {
		return limit
	}
	return math.MaxInt64
}

// grantAndUnlock serves the front of the queue as far as permits go, releases
// mu and tells those it decided, after those that out holds already. Delivery:
// whatever adds permits or takes a waiter away ends in it, so nobody waits for
// what is there.
func (s *Weighted) grantAndUnlock(out *batch, now int64) {
	for s.grantLocked(out, now) {
		s.tellAndRelock(out)
	}
	s.publishLocked()
	if out.Len() == 1 && !s.unfair {
		out.tellParked()
	}
	s.mu.Unlock()
	out.tell()
}

// grantLocked decides the front of the queue: up to a chunk of waiters, and it
// reports whether it stopped for that reason. With Unfair, blocking waiters
// that are young by the time of now are not granted but woken.
//
// No barging: it stops at the first waiter that does not fit, even if some
// behind it would, or a stream of light requests would starve a heavy one.
func (s *Weighted) grantLocked(out *batch, now int64) (more bool) {
	for decided := out.Len(); !s.closed && decided < chunk; decided++ {
		w := s.queue.Head()
		switch {
		case w == nil:
			return false
		case ended(w.Value.done):
			if w.Value.pending == nil {
				s.decide(w, waitq.Canceled, out)
			} else {
				// Its group, which runs on a goroutine of its own, asks the
				// context for the error and tells.
				s.queue.Decide(w, waitq.Canceled)
			}
		case w.Weight > s.heaviestAllowed():
			// A SetLimit is on its way to it, chunk by chunk.
			s.decide(w, waitq.Evicted, out)
		case w.Weight > s.avail:
			return false
		case s.young(w, now) && w.Value.pending == nil:
			s.wakeLocked(w, out)
			return false
		default:
			s.avail -= w.Weight
			s.decide(w, waitq.Granted, out)
		}
	}
	return !s.closed
}

// decide ends w's wait and puts it among those to be told.
func (s *Weighted) decide(w *waiter, o waitq.Outcome, out *batch) {
	s.queue.Decide(w, o)
	if p := w.Value.pending; p != nil {
		p.leaveLocked(refusals[o], out)
	}
	out.Push(w)
}

// tellAndRelock lets go of mu between two chunks of a long piece of work.
func (s *Weighted) tellAndRelock(out *batch) {
	s.unlock()
	out.tell()
	// Without this, mu would be taken again before those who wait for it have
	// had time to wake, for a millisecond, until it hands itself over.
	runtime.Gosched()
	s.lock()
}

// batch is what is left to do once mu is released: waiters to be told, one to
// be woken, and groups that have lost their last member, to be withdrawn from
// their contexts.
type batch struct {
	waitq.Batch[request]
	woken chan<- struct{}
	stops []func() bool
}

// tellParked tells the first, if it is a parked goroutine; mu may still be held.
// A releaser serves one such, as a rule, and to tell it under mu is quicker: told
// after it, the woken one and whoever releases next run into each other, and into
// the scheduler's locks, which took a fifth of the time on two processors. A woken
// waiter of an Unfair semaphore would run into mu itself.
func (b *batch) tellParked() {
	if w := b.First(); w.Value.pending == nil {
		b.Pop()
		w.Value.ready <- struct{}{}
	}
}

func (b *batch) empty() bool { return b.Len() == 0 && b.woken == nil && b.stops == nil }

func (b *batch) tell() {
	for w := b.Pop(); w != nil; w = b.Pop() {
		if p := w.Value.pending; p != nil {
			p.tell()
		} else {
			w.Value.ready <- struct{}{}
		}
	}
	if b.woken != nil {
		b.woken <- struct{}{}
		b.woken = nil
	}
	if b.stops != nil {
		go stopAll(b.stops)
		b.stops = nil
	}
}

// ended reports whether a context with this Done channel is done.
func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
