package semaphore

// The state word is everything a fast path needs. Layout:
//
//	free >= 0  exactly the permits free: nobody waits, no debt, open
//	shut       somebody waits, or debt, or closed: a try fails, a release
//	           takes mu
//	slow       only mu knows: a slow operation is under way, or Drain waits on
//	           an open semaphore and must see every release, or (Unfair)
//	           somebody waits whom newcomers may pass
//
// While it is negative, the signed truth is avail, under mu. Only holders of mu
// make it negative, and only they make it non-negative again; fast paths move
// it among the numbers >= 0, each time by one compare-and-swap.
//
// One word decides both "are there permits" and "does somebody wait", so no
// fast path can overtake a waiter that queued after its load: its swap fails.
// And the free count, not the count in use, is the word: an acquirer that had
// loaded a limit of 10 and then swapped a count in use would succeed after
// SetLimit(5) has returned.
//
// proptest/promela/semaphore.pml is the checked model of this protocol.
const (
	shut int64 = -1
	slow int64 = -2
)

// lock takes mu and, with it, the truth: until unlock no fast path succeeds.
func (s *Weighted) lock() {
	s.mu.Lock()
	if s.state.Load() >= 0 {
		s.avail = s.state.Swap(slow)
	}
}

// unlock settles what hangs on the outcome of a slow operation, publishes the
// state word and releases mu.
func (s *Weighted) unlock() {
	s.publishLocked()
	s.mu.Unlock()
}

// publishLocked is unlock but for its last step: fast paths run again, so the
// truth is no longer ours. Whoever was decided under mu is told after it: told
// before, a waiter could run and find the word still shut although its own
// grant had left permits free and the queue empty.
func (s *Weighted) publishLocked() {
	if s.idle != nil && s.inUseLocked() == 0 {
		close(s.idle)
		s.idle, s.drainers = nil, 0
	}
	if s.busy && s.queue.Len() == 0 {
		s.endSpellLocked()
	}
	if s.timer != nil {
		s.dropTimerLocked()
	}
	word := s.avail
	switch waits := s.queue.Len() > 0; {
	case !s.closed && (s.idle != nil || waits && s.unfair):
		word = slow
	case s.closed || waits || s.avail < 0:
		word = shut
	}
	if s.state.Load() != word {
		s.state.Store(word)
	}
}

// inUseLocked returns the permits in flight, between lock and unlock.
func (s *Weighted) inUseLocked() int64 { return s.limit.Load() - s.avail }
