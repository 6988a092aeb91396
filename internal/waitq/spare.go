package waitq

import "sync/atomic"

// Spare is a list of waiters to be used again, last in, first out. Push may be
// called from anywhere, without the mutex; Pop only with it. So a waiter that
// wakes can put itself back without waiting for a mutex that the semaphore's
// busiest moments fight over.
//
// One popper at a time is also why the plain compare-and-swap of Pop is right:
// only another popper could take the top away, and put it back with another
// next, between its load and its swap. The zero value is an empty list.
type Spare[T any] struct {
	top atomic.Pointer[Waiter[T]]
}

// Push puts w, which nobody else refers to any more, on top.
func (s *Spare[T]) Push(w *Waiter[T]) {
	for {
		w.next = s.top.Load()
		if s.top.CompareAndSwap(w.next, w) {
			return
		}
	}
}

// Pop takes the top off, or returns nil.
func (s *Spare[T]) Pop() *Waiter[T] {
	for {
		w := s.top.Load()
		if w == nil {
			return nil
		}
		if s.top.CompareAndSwap(w, w.next) {
			w.next = nil
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
