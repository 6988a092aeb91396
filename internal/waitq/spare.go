package waitq

import "sync/atomic"

// Parked is the waiter of a parked goroutine, which is used again by another.
type Parked[T any] struct {
	Waiter[T]

	// Spell is the semaphore's own: the busy spell it may be used in as it is.
	Spell uint64

	under *Parked[T] // in a Spare
}

// Spare is a list of waiters to be used again, last in, first out. Push may be
// called from anywhere, without the mutex; Pop only with it. So a waiter that
// wakes can put itself back without waiting for a mutex that the semaphore's
// busiest moments fight over.
//
// One popper at a time is also why the plain compare-and-swap of Pop is right:
// only another popper could take the top away, and put it back on another one,
// between its load and its swap. The zero value is an empty list.
type Spare[T any] struct {
	top atomic.Pointer[Parked[T]]
}

// Push puts w, which nobody else refers to any more, on top.
func (s *Spare[T]) Push(w *Parked[T]) {
	for {
		w.under = s.top.Load()
		if s.top.CompareAndSwap(w.under, w) {
			return
		}
	}
}

// Pop takes the top off, or returns nil.
func (s *Spare[T]) Pop() *Parked[T] {
	for {
		w := s.top.Load()
		if w == nil {
			return nil
		}
		if s.top.CompareAndSwap(w, w.under) {
			w.under = nil
			return w
		}
	}
}

// Clear lets go of all of them. It may be called with the mutex only.
func (s *Spare[T]) Clear() {
	if s.top.Load() != nil {
		s.top.Store(nil)
	}
}
