package semaphore

import "sync"

// A busy spell is the time that the queue is not empty. Within it, waiters and
// their channels are used again, and waiting allocates nothing; between spells
// waiters go through parkedPool, and leave their channels behind.

// parkedPool holds waiters without channels.
var parkedPool = sync.Pool{New: func() any { return new(parked) }}

// takeLocked returns a waiter to be pushed, whose channel is empty.
func (s *Weighted) takeLocked() *parked {
	w := s.spare.Pop()
	if w == nil {
		w = parkedPool.Get().(*parked)
	}
	s.busy = true
	if spell := s.spell.Load(); w.Value.ready == nil || w.Spell != spell {
		w.Value.ready = make(chan struct{}, 2)
		w.Spell = spell
	}
	return w
}

// retire makes w, whose channel is empty, available to other waits. It takes no
// lock; so the spell may end between its look at it and its push. The next
// takeLocked sees that by the number in w.
func (s *Weighted) retire(w *parked) {
	ready := w.Value.ready
	w.Waiter = waiter{} // keep no context alive
	if s.spell.Load() != w.Spell {
		parkedPool.Put(w)
		return
	}
	w.Value.ready = ready
	s.spare.Push(w)
}

// endSpellLocked is called when the queue has become empty.
func (s *Weighted) endSpellLocked() {
	s.busy = false
	s.spell.Add(1)
	s.spare.Clear()
}
