package semaphore

import "github.com/turnstile-go/turnstile/internal/waitq"

// SetLimit changes the number of permits in circulation, and returns without
// waiting for anybody.
//
// A higher limit serves waiters at once, in order. A lower one revokes
// nothing: if more is in flight than the new limit, the semaphore is in debt,
// and nothing is granted until what is in flight and the request fit together
// into the limit. Waiters heavier than the new limit fail with
// [ErrExceedsLimit], except that a limit of 0 is a pause, in which everything
// that does not fit waits.
//
// The present limit again changes nothing. It panics if limit < 0. On a closed
// semaphore it is accepted, and the semaphore stays closed.
func (s *Weighted) SetLimit(limit int64) {
	if limit < 0 {
		panic("semaphore: negative limit")
	}
	s.lock()
	if limit == s.limit.Load() {
		s.unlock()
		return
	}
	// Shrink debt: avail goes below 0 by as much as is in flight beyond the
	// new limit, and each release pays off before it can be granted again.
	// Taking the surplus by acquiring it, as some do, would wait for holders.
	s.avail = limit - s.inUseLocked()
	s.limit.Store(limit)
	var out batch
	if limit > 0 && s.queue.Heaviest() > limit {
		s.evictLocked(&out)
	}
	s.grantAndUnlock(&out, handOff)
}

// evictLocked ends the wait of every request that can no longer be granted. It
// lets go of mu between chunks, and holds it on return, with the last chunk
// still to be told: over a short queue, SetLimit is one step. A limit changed by
// another in the meantime counts from the next waiter on.
func (s *Weighted) evictLocked(out *batch) {
	var walk waitq.Walk[request]
	s.queue.Begin(&walk)
	for {
		budget := chunk
		for {
			w := walk.Above(s.heaviestAllowed(), &budget)
			if w == nil {
				break
			}
			s.decide(w, waitq.Evicted, out)
		}
		if walk.AtEnd() {
			s.queue.End(&walk)
			return
		}
		s.tellAndRelock(out)
	}
}
