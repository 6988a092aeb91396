package main

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// point is what one guard came to under one load.
type point struct {
	guard    string
	load     load
	counts   map[kind]int // of the requests that were due in the window
	goodput  float64      // right answers that came in the window, in time, per second
	latency  [2]float64   // ms from due to the right answer: p50 and p99
	refusal  [2]float64   // ms from due to being refused: p50 and p99
	lateness float64      // ms by which requests were sent late: p99
	failure  string       // the detail of one that failed
	service  figures
	cpu      float64 // share of all processors that the clients and the service used
}

// newPoint counts. Requests are counted by when they were due: so each of those
// offered in the window is counted once, whatever became of it and when.
func newPoint(guard string, l load, answers []answer) point {
	p := point{guard: guard, load: l, counts: map[kind]int{}}
	end := l.warmUp + l.window
	took := map[kind][]float64{}
	var late []float64
	inTime := 0
	for _, a := range answers {
		if at := a.due + a.took; a.kind == isServed && at >= l.warmUp && at < end {
			inTime++
		}
		if a.due < l.warmUp || a.due >= end {
			continue
		}
		p.counts[a.kind]++
		took[a.kind] = append(took[a.kind], ms(a.took))
		late = append(late, ms(a.late))
		if a.kind == failed {
			p.failure = a.detail
		}
	}
	p.goodput = float64(inTime) / l.window.Seconds()
	p.latency = [2]float64{quantile(took[isServed], 0.50), quantile(took[isServed], 0.99)}
	p.refusal = [2]float64{quantile(took[isRefused], 0.50), quantile(took[isRefused], 0.99)}
	p.lateness = quantile(late, 0.99)
	return p
}

// offered returns how many requests were due in the window.
func (p point) offered() int {
	n := 0
	for _, count := range p.counts {
		n += count
	}
	return n
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// quantile returns the smallest of the numbers that a share of q does not exceed,
// and NaN if there are none. It sorts them.
func quantile(x []float64, q float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	slices.Sort(x)
	return x[max(0, int(math.Ceil(q*float64(len(x))))-1)]
}

// columns are the names of what cells returns.
var columns = []string{
	"guard", "load", "offered_per_s", "offered", "served", "refused", "gave_up", "failed", "goodput_per_s",
	"served_p50_ms", "served_p99_ms", "refused_p50_ms", "refused_p99_ms", "sent_late_p99_ms",
	"highest_downstream", "peak_MB", "peak_goroutines", "cpu_share",
}

// cells returns the row of the point, in a study of a downstream that does so
// many calls a second.
func (p point) cells(capacity float64) []any {
	return []any{
		p.guard, p.load.rate / capacity, p.load.rate, p.offered(),
		p.counts[isServed], p.counts[isRefused], p.counts[gaveUp], p.counts[failed], p.goodput,
		p.latency[0], p.latency[1], p.refusal[0], p.refusal[1], p.lateness,
		p.service.Downstream.Highest, float64(p.service.Peak.Bytes) / 1e6, p.service.Peak.Goroutines, p.cpu,
	}
}

func (p point) String() string {
	return fmt.Sprintf("%s, %.0f/s: %d offered, %d served, %d refused, %d gave up, %d failed; goodput %.0f/s, p99 %.0f ms; CPU %.0f%%",
		p.guard, p.load.rate, p.offered(), p.counts[isServed], p.counts[isRefused], p.counts[gaveUp], p.counts[failed],
		p.goodput, p.latency[1], 100*p.cpu)
}
