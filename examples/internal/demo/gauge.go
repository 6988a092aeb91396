package demo

import "sync/atomic"

// Gauge counts how many are inside at once, on the side of whatever a bulkhead
// protects. Its zero value is ready for use.
type Gauge struct{ inside, highest atomic.Int64 }

// Enter counts one in.
func (g *Gauge) Enter() {
	inside := g.inside.Add(1)
	for seen := g.highest.Load(); inside > seen; seen = g.highest.Load() {
		g.highest.CompareAndSwap(seen, inside)
	}
}

// Leave counts one out.
func (g *Gauge) Leave() { g.inside.Add(-1) }

// Inside returns how many are inside.
func (g *Gauge) Inside() int64 { return g.inside.Load() }

// Highest returns the most that were inside at once.
func (g *Gauge) Highest() int64 { return g.highest.Load() }
