package semaphore

// Stats is what a semaphore is doing at one moment.
type Stats struct {
	Limit     int64 // permits in circulation
	InUse     int64 // permits in flight: granted and not released
	Available int64 // max(0, Limit − InUse)
	Waiting   int   // requests that wait
	Closed    bool
}

// Stats returns one consistent snapshot. InUse is above Limit while
// [Weighted.SetLimit] has left a debt. Permits granted to a waiter that has
// not run yet are in use.
func (s *Weighted) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	avail := s.state.Load()
	if avail < 0 {
		avail = s.avail
	}
	limit := s.limit.Load()
	return Stats{
		Limit:     limit,
		InUse:     limit - avail,
		Available: max(0, avail),
		Waiting:   s.queue.Len(),
		Closed:    s.closed,
	}
}
