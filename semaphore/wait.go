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
	// mu is released. It has room for it, so telling never blocks. (That of an
	// asynchronous request is closed instead.)
	ready chan struct{}

	// spell is the busy spell that ready was made in, and may be used in.
	spell uint64

	// pending is the asynchronous request that the waiter is part of, or nil.
	pending *Pending
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
	if decided, err := s.lockAndAdmit(ctx, done, n, maxWait); decided {
		return err
	}
	w := s.takeLocked()
	w.Weight = n
	w.Value.done = done
	ready := w.Value.ready
	s.pushLocked(w, maxWait, due, timed)
	s.unlock()

	if !await(ready, done) {
		s.lock()
		if w.Outcome() == waitq.Waiting {
			// Withdraw. Whoever fits now that w is gone must go at once: no
			// Release may ever come.
			s.queue.Decide(w, waitq.Canceled)
			s.grantAndUnlock(new(batch))
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
			return errOf(ctx)
		}
		return nil
	case waitq.Canceled:
		return errOf(ctx)
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
	s.grantAndUnlock(new(batch))
}

// lockAndAdmit takes mu and decides a request as far as it can be decided at
// once. If it must wait instead, mu is still held on return.
func (s *Weighted) lockAndAdmit(ctx context.Context, done <-chan struct{}, n int64, maxWait time.Duration) (decided bool, err error) {
	s.lock()
	if ended(done) {
		// It ended while we waited for mu, perhaps before a Release that we
		// would now profit from.
		s.unlock()
		return true, errOf(ctx)
	}
	granted, err := s.admitLocked(n, maxWait)
	if granted || err != nil {
		s.unlock()
		return true, err
	}
	return false, nil
}

// pushLocked puts w, of which all but its deadline is set, into the queue.
func (s *Weighted) pushLocked(w *waiter, maxWait time.Duration, due int64, timed bool) {
	s.queue.Push(w)
	if timed {
		s.setDeadlineLocked(w, due, maxWait)
	}
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
// mu and tells those it decided, after those that out holds already. Whatever
// adds permits or takes a waiter away ends in it.
func (s *Weighted) grantAndUnlock(out *batch) {
	for s.grantLocked(out) {
		s.tellAndRelock(out)
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

// batch is what is left to do once mu is released: waiters to be told, and
// groups, which have lost their last member, to be withdrawn from their
// contexts.
type batch struct {
	waitq.Batch[request]
	emptied *group
}

func (b *batch) tell() {
	for w := b.Pop(); w != nil; w = b.Pop() {
		if p := w.Value.pending; p != nil {
			p.tell()
		} else {
			w.Value.ready <- struct{}{}
		}
	}
	if b.emptied != nil {
		go stopAll(b.emptied)
		b.emptied = nil
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
