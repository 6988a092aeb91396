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
	// mu is released. It has room for it, so telling never blocks.
	ready chan struct{}

	// spell is the busy spell that ready was made in, and may be used in.
	spell uint64
}

type (
	waiter  = waitq.Waiter[request]
	waiters = waitq.Queue[request]
)

// chunk is the most waiters that are decided in one hold of mu: some tens of
// microseconds, whether ten wait or a million.
const chunk = 256

// acquireSlow takes permits under mu or waits for them.
func (s *Weighted) acquireSlow(ctx context.Context, n int64, maxWait time.Duration) error {
	done := ctx.Done()
	due, timed := deadline(maxWait)
	s.lock()
	if ended(done) {
		// It ended while we waited for mu, perhaps before a Release that we
		// would now profit from.
		s.unlock()
		return ctx.Err()
	}
	if granted, err := s.admitLocked(n, maxWait); granted || err != nil {
		s.unlock()
		return err
	}
	w := s.takeLocked()
	w.Weight = n
	w.Value.done = done
	ready := w.Value.ready
	s.queue.Push(w)
	if timed {
		s.setDeadlineLocked(w, due, maxWait)
	}
	s.unlock()

	if !await(ready, done) {
		s.lock()
		if w.Outcome() == waitq.Waiting {
			// Withdraw. Whoever fits now that w is gone must go at once: no
			// Release may ever come.
			s.queue.Decide(w, waitq.Canceled)
			s.grantAndUnlock()
		} else {
			s.unlock()
			<-ready // decided a moment earlier: the token is on its way
		}
	}
	outcome := w.Outcome()
	s.retire(w)
	switch outcome {
	case waitq.Granted:
		if ended(done) {
			s.Release(n)
			return ctx.Err()
		}
		return nil
	case waitq.Canceled:
		return ctx.Err()
	default:
		return refusals[outcome]
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

// refusals are the errors of the outcomes that have one of their own.
var refusals = [...]error{
	waitq.Expired: ErrTimeout,
	waitq.Evicted: ErrExceedsLimit,
	waitq.Closed:  ErrClosed,
}

// tryAcquireSlow is TryAcquire when only mu knows.
func (s *Weighted) tryAcquireSlow(n int64) bool {
	s.lock()
	granted, _ := s.admitLocked(n, 0)
	s.unlock()
	return granted
}

// releaseSlow is Release when somebody may wait for the permits, or when there
// seem to be too many of them.
func (s *Weighted) releaseSlow(n int64) {
	s.lock()
	if n > s.inUseLocked() {
		s.unlock()
		panic(overRelease)
	}
	s.avail += n
	s.grantAndUnlock()
}

// admitLocked decides a new request as far as it can be decided at once: it is
// granted, or refused with an error, or, with neither, must wait.
func (s *Weighted) admitLocked(n int64, maxWait time.Duration) (granted bool, err error) {
	switch {
	case s.closed:
		return false, ErrClosed
	case n > s.heaviestAllowed():
		return false, ErrExceedsLimit
	case n <= s.avail && s.queue.Len() == 0:
		// No barging: free permits that somebody waits for are not free.
		s.avail -= n
		return true, nil
	case maxWait <= 0:
		return false, ErrTimeout
	case s.maxWaiters > 0 && s.queue.Len() >= s.maxWaiters:
		return false, ErrQueueFull
	}
	return false, nil
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
// mu and tells those it decided. Whatever adds permits or takes a waiter away
// ends in it.
func (s *Weighted) grantAndUnlock() {
	var out batch
	for s.grantLocked(&out) {
		s.tellAndRelock(&out)
	}
	s.unlock()
	out.tell()
}

// grantLocked decides the front of the queue: up to a chunk of waiters, and it
// reports whether it stopped for that reason.
//
// No barging: it stops at the first waiter that does not fit, even if some
// behind it would, or a stream of light requests would starve a heavy one.
func (s *Weighted) grantLocked(out *batch) (more bool) {
	for !s.closed && out.Len() < chunk {
		w := s.queue.Head()
		switch {
		case w == nil:
			return false
		case ended(w.Value.done):
			s.decide(w, waitq.Canceled, out)
		case w.Weight > s.heaviestAllowed():
			// A SetLimit is on its way to it, chunk by chunk.
			s.decide(w, waitq.Evicted, out)
		case w.Weight <= s.avail:
			s.avail -= w.Weight
			s.decide(w, waitq.Granted, out)
		default:
			return false
		}
	}
	return !s.closed
}

// decide ends w's wait and puts it among those to be told.
func (s *Weighted) decide(w *waiter, o waitq.Outcome, out *batch) {
	s.queue.Decide(w, o)
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

// batch is a list of decided waiters to be told, once mu is released.
type batch struct{ waitq.Batch[request] }

func (b *batch) tell() {
	for w := b.Pop(); w != nil; w = b.Pop() {
		w.Value.ready <- struct{}{}
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
