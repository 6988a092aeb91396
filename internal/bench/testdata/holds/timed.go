package semaphore

import (
	"slices"
	"sync"
	"time"
)

// timedMutex is a sync.Mutex that notes how long it is held. It stands in for
// the one in Weighted.
type timedMutex struct {
	mu    sync.Mutex
	since time.Time
}

// held is what StartHolds made room for. It serves one Weighted at a time,
// whose lock guards it.
var held []time.Duration

// StartHolds begins to note holds, up to so many.
func StartHolds(most int) { held = make([]time.Duration, 0, most) }

// StopHolds returns the holds noted, the longest last.
func StopHolds() []time.Duration {
	all := held
	held = nil
	slices.Sort(all)
	return all
}

func (m *timedMutex) Lock() {
	m.mu.Lock()
	m.since = time.Now()
}

func (m *timedMutex) Unlock() {
	if d := time.Since(m.since); len(held) < cap(held) {
		held = append(held, d)
	}
	m.mu.Unlock()
}
