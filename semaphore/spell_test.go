package semaphore

import "testing"

// A waiter may look at the number of the spell, and put itself away only when
// the next spell has begun, perhaps in another synctest bubble. Its channel must
// not be used again, though the waiter may.
func TestWaiterPutAwayTooLateGetsANewChannel(t *testing.T) {
	s := NewWeighted(1)
	take := func() *parked {
		s.lock()
		defer s.unlock() // the queue is empty, so this ends the spell
		return s.takeLocked()
	}
	w := take()
	old := w.Value.ready
	s.spare.Push(w) // what retire does if it looked before the end of the spell
	again := take()
	if again != w {
		t.Error("the waiter was not used again")
	}
	if again.Value.ready == old {
		t.Error("its channel is one of a spell that is over")
	}

	w = again
	s.retire(w) // it sees that the spell is over
	if s.spare.Pop() != nil {
		t.Error("a waiter of a spell that is over is kept for the next")
	}
	if w.Value.ready != nil {
		t.Error("a waiter went to the pool with its channel")
	}
}

// Within a spell, waiters and channels are used again.
func TestWaiterPutAwayInTimeKeepsItsChannel(t *testing.T) {
	s := NewWeighted(1)
	s.lock()
	defer s.unlock()
	w := s.takeLocked()
	ready := w.Value.ready
	s.retire(w)
	if again := s.takeLocked(); again != w || again.Value.ready != ready {
		t.Error("neither waiter nor channel is used again while the queue is busy")
	}
}
