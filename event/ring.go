package event

import (
	"context"
	"fmt"
	"sync"
)

// Ring keeps the last events, for a look at what has just happened: give
// [Ring.Listener] to a bulkhead's Config or to Subscribe, or to several. It is
// made by [NewRing] and safe for concurrent use. Keeping an event allocates
// nothing; the errors of the events kept stay reachable.
type Ring struct {
	mu      sync.Mutex
	records []Record // as many as are kept; the next goes to told modulo that
	told    uint64   // events so far
}

// NewRing returns a ring that keeps the last n events, and has the memory for
// them from the start. It panics if n < 1.
func NewRing(n int) *Ring {
	if n < 1 {
		panic(fmt.Sprintf("event: ring of %d records, want at least 1", n))
	}
	return &Ring{records: make([]Record, n)}
}

// Listener returns the listener that keeps every event.
func (r *Ring) Listener() Listener {
	return All(func(_ context.Context, rec Record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.records[r.told%uint64(len(r.records))] = rec
		r.told++
	})
}

// Records returns the events kept, in the order in which they were told. The
// slice is the caller's.
func (r *Ring) Records() []Record {
	records := make([]Record, 0, len(r.records)) // before locking: callers wait for mu
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.told % uint64(len(r.records))
	if r.told >= uint64(len(r.records)) {
		records = append(records, r.records[next:]...)
	}
	return append(records, r.records[:next]...)
}
