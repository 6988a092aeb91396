package semaphore

import "sync"

// A busy spell is the time that the queue is not empty. Within it, waiters and
// their channels are used again, and waiting allocates nothing; between spells
// waiters go through waiterPool, and leave their channels behind.

// waiterPool holds waiters without channels.
var waiterPool = sync.Pool{New: func() any { return new(waiter) }}

// takeLocked returns a waiter to be pushed, whose channel is empty.
func (s *Weighted) takeLocked() *waiter {
	w := s.spare.Pop()
	if w == nil {
		w = waiterPool.Get().(*waiter)
	}
	s.busy = true
	if spell := s.spell.Load(); w.Value.ready == nil || w.Value.spell != spell {
		w.Value.ready = make(chan struct{}, 2)
		w.Value.spell = spell
	}
	return w
}

// retire makes w, whose channel is empty, available to other waits. It takes no
// lock; so the spell may end between its look at it and its push. The next
// takeLocked sees that by the number in w.
func (s *Weighted) retire(w *waiter) {
	request := request{ready: w.Value.ready, spell: w.Value.spell} // keep no context alive
	*w = waiter{Value: request}
	if s.spell.Load() == w.Value.spell {
		s.spare.Push(w)
		return
	}
	w.Value.ready = nil
	waiterPool.Put(w)
}

// endSpellLocked is called when the queue has become empty.
func (s *Weighted) endSpellLocked() {
	s.busy = false
	s.spell.Add(1)
	s.spare.Clear()
}
