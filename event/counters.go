package event

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"
)

// Counters count what a bulkhead tells: give [Counters.Listener] to its Config
// or to Subscribe. Counting allocates nothing and takes no lock, but when
// [Counters.FullSince] changes. Listening to several bulkheads, Counters count
// them all together.
//
// The zero value is ready to use. Counters are safe for concurrent use and must
// not be copied after first use.
type Counters struct {
	permitted tally
	rejected  [Closed + 1]tally
	canceled  tally
	finished  [Panicked + 1]tally
	released  tally

	// full is all that an event looks at while it has nothing to change, which
	// is nearly always. mu guards since, and every change of full.
	full  atomic.Bool
	mu    sync.Mutex
	since time.Time
}

// tally is a [Tally] that goes up.
type tally struct{ calls, weight atomic.Int64 }

func (t *tally) add(weight int64) {
	t.calls.Add(1)
	t.weight.Add(weight)
}

func (t *tally) load() Tally { return Tally{t.calls.Load(), t.weight.Load()} }

// NewCounters returns Counters that have counted nothing.
func NewCounters() *Counters { return new(Counters) }

// Listener returns the listener that counts.
func (c *Counters) Listener() Listener {
	return Listener{
		Permitted: func(_ context.Context, e Permitted) {
			c.permitted.add(e.Weight)
			if e.Waited == 0 {
				c.setFull(false, time.Time{})
			}
		},
		Rejected: func(_ context.Context, e Rejected) {
			c.rejected[known(e.Reason, Closed)].add(e.Weight)
			switch e.Reason {
			case Full, TimedOut, QueueFull:
				c.setFull(true, e.Time)
			}
		},
		Canceled: func(_ context.Context, e Canceled) { c.canceled.add(e.Weight) },
		Finished: func(_ context.Context, e Finished) { c.finished[known(e.Outcome, Panicked)].add(e.Weight) },
		Released: func(_ context.Context, e Released) { c.released.add(e.Weight) },
	}
}

// known returns v, or 0 if v is above last.
func known[E Reason | Outcome](v, last E) E {
	if v > last {
		return 0
	}
	return v
}

func (c *Counters) setFull(full bool, since time.Time) {
	if c.full.Load() == full {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full.Load() != full {
		c.full.Store(full)
		c.since = since
	}
}

// FullSince returns the Time of the first call that was rejected for lack of
// room, by [Full], [TimedOut] or [QueueFull], since a call last got in without
// waiting, and whether there was one. It goes by the order in which events are
// told, so with calls of different weights, or from different callers at the
// same moment, it may be a little early or late.
func (c *Counters) FullSince() (since time.Time, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.full.Load()
}

// Snapshot returns the counts. Each is exact, but they are read one after
// another while calls go on: what adds up at rest may be off by the calls that
// come and go in between. A call is never seen to have ended but not to have
// been permitted.
func (c *Counters) Snapshot() Counts {
	var s Counts
	// Ends before starts, or more calls could seem to have ended than started.
	for i := range c.finished {
		s.Finished[i] = c.finished[i].load()
	}
	s.Released = c.released.load()
	s.Permitted = c.permitted.load()
	for i := range c.rejected {
		s.Rejected[i] = c.rejected[i].load()
	}
	s.Canceled = c.canceled.load()
	return s
}

// String returns the counts as a JSON object, with rejections by reason,
// finished calls by outcome, and "full_since", which is null or a time. It makes
// *Counters an expvar.Var:
//
//	expvar.Publish("payments", counters)
func (c *Counters) String() string {
	s := c.Snapshot()
	counts := struct {
		Permitted Tally            `json:"permitted"`
		Rejected  map[string]Tally `json:"rejected"`
		Canceled  Tally            `json:"canceled"`
		Finished  map[string]Tally `json:"finished"`
		Released  Tally            `json:"released"`
		FullSince *string          `json:"full_since"`
	}{
		Permitted: s.Permitted,
		Rejected:  map[string]Tally{},
		Canceled:  s.Canceled,
		Finished:  map[string]Tally{},
		Released:  s.Released,
	}
	for r := Full; r <= Closed; r++ {
		counts.Rejected[r.String()] = s.Rejected[r]
	}
	for o := OK; o <= Panicked; o++ {
		counts.Finished[o.String()] = s.Finished[o]
	}
	if since, full := c.FullSince(); full {
		// A string, for a Clock may give times that package time refuses to
		// encode as JSON.
		text := since.Format(time.RFC3339Nano)
		counts.FullSince = &text
	}
	out, _ := json.Marshal(counts) // numbers and strings cannot fail
	return string(out)
}

// Tally is a number of calls and the sum of their weights.
type Tally struct {
	Calls  int64 `json:"calls"`
	Weight int64 `json:"weight"`
}

func (t Tally) plus(u Tally) Tally { return Tally{t.Calls + u.Calls, t.Weight + u.Weight} }

func (t Tally) minus(u Tally) Tally { return Tally{t.Calls - u.Calls, t.Weight - u.Weight} }

// Counts are what [Counters] have counted so far: how often each event was told,
// and the weight of those calls. The arrays are indexed by a [Reason] and an
// [Outcome]; at 0 is what has none that is known, which a bulkhead never tells.
type Counts struct {
	Permitted Tally
	Rejected  [Closed + 1]Tally
	Canceled  Tally
	Finished  [Panicked + 1]Tally
	Released  Tally
}

// Calls returns all calls: those permitted, rejected and canceled.
func (c Counts) Calls() Tally {
	sum := c.Permitted.plus(c.Canceled)
	for _, t := range c.Rejected {
		sum = sum.plus(t)
	}
	return sum
}

// Running returns the calls that are permitted and have not ended; the weight
// of these is the permits in flight.
func (c Counts) Running() Tally {
	left := c.Permitted.minus(c.Released)
	for _, t := range c.Finished {
		left = left.minus(t)
	}
	return left
}
