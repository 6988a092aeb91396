package semaphore

import (
	"context"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// Close makes every waiter, and every later request, fail with [ErrClosed].
// Permits in flight stay valid, and their holders release them as usual; to
// wait for that, use [Weighted.Drain]. Closing again does nothing, and nothing
// reopens a closed semaphore.
func (s *Weighted) Close() {
	s.lock()
	s.closed = true
	for {
		var out batch
		for w := s.queue.Head(); w != nil && out.Len() < chunk; w = s.queue.Head() {
			s.decide(w, waitq.Closed, &out)
		}
		if s.queue.Len() == 0 {
			s.unlock()
			out.tell()
			return
		}
		s.tellAndRelock(&out)
	}
}

// Drain waits for the first moment at which nothing is in flight, and returns
// nil; if that is now, it does so even if ctx is done. If ctx is done first, it
// returns ctx.Err(). A permit granted to a waiter that has not run yet is in
// flight, and one that passes from a Release to a waiter never left.
//
// While others acquire, it promises nothing about the moment after its return.
// Once [Weighted.Close] has been called, nothing will ever be in flight again.
func (s *Weighted) Drain(ctx context.Context) error {
	done := ctx.Done()
	s.lock()
	if s.inUseLocked() == 0 {
		s.unlock()
		return nil
	}
	if s.idle == nil {
		s.idle = make(chan struct{})
	}
	idle := s.idle
	s.drainers++
	s.unlock() // publishes slow, if open: from here on every release takes mu

	select {
	case <-idle:
		return nil
	case <-done:
	}
	s.lock()
	if ended(idle) {
		s.unlock()
		return nil
	}
	if s.drainers--; s.drainers == 0 {
		s.idle = nil
	}
	s.unlock()
	return errOf(ctx)
}
