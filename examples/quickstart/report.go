package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/event"
)

// report is all that the program found out.
type report struct {
	config        config
	without, with figures
	timeouts      []figures
}

// figures is what one load came to.
type figures struct {
	answers []answer
	took    time.Duration // from the first request to the last answer
	lookups int           // requests that the service set out to answer
	calls   int           // those that reached the downstream
	highest int64         // the most that were there at once

	// With a bulkhead:
	events events // what it told
	left   int64  // permits that could be acquired when all was over
}

// latencies returns what the answers of the kind took, in ascending order.
func (f figures) latencies(k kind) []time.Duration {
	var all []time.Duration
	for _, a := range f.answers {
		if a.kind == k {
			all = append(all, a.took)
		}
	}
	slices.Sort(all)
	return all
}

// count returns how many answers are of the kind.
func (f figures) count(k kind) int { return len(f.latencies(k)) }

// rejections returns how many clients were told that they are rejected for the
// reason.
func (f figures) rejections(reason event.Reason) int {
	n := 0
	for _, a := range f.answers {
		if a.kind == rejected && a.detail == reason.String() {
			n++
		}
	}
	return n
}

// goodput returns how many right answers came in time, per second.
func (f figures) goodput() float64 { return float64(f.count(served)) / f.took.Seconds() }

// printScene says what is about to happen.
func (r report) printScene(w io.Writer) {
	c := r.config
	fmt.Fprintf(w, `A service on loopback asks a downstream that serves %d calls at once, in %v
each, and gets slower with every call beyond. Within %v, %d clients send it
one request each; they give up after %v.

  without   every request goes straight on to the downstream
  with      a bulkhead lets %d at once go on, %d more wait for up to %v,
            and it rejects the others

`, c.capacity, c.service, c.burst.spread, c.burst.clients, c.burst.patience,
		c.bulkhead.MaxConcurrent, c.bulkhead.MaxQueue, c.bulkhead.MaxWait)
}

// printBursts prints what became of the burst without and with the bulkhead.
func (r report) printBursts(w io.Writer) {
	row := func(name string, cell func(figures) any) {
		fmt.Fprintf(w, "  %-34s %10v %10v\n", name, cell(r.without), cell(r.with))
	}
	space := func() { fmt.Fprintln(w) }

	fmt.Fprintf(w, "  %-34s %10s %10s\n", "", "without", "with")
	row("requests", func(f figures) any { return len(f.answers) })
	row("permitted", func(f figures) any { return f.calls })
	for _, reason := range r.reasons() {
		name := strings.ReplaceAll(reason.String(), "_", " ")
		row("rejected, "+name, func(f figures) any { return f.rejections(reason) })
	}
	space()
	row("served", func(f figures) any { return f.count(served) })
	row(fmt.Sprintf("gave up after %v", r.config.burst.patience), func(f figures) any { return f.count(gaveUp) })
	row("goodput, served per second", func(f figures) any { return math.Round(f.goodput()) })
	space()
	row("latency of the served, p50", func(f figures) any { return quantile(f.latencies(served), 0.50) })
	row("                       p99", func(f figures) any { return quantile(f.latencies(served), 0.99) })
	row("latency of the rejected, p50", func(f figures) any { return quantile(f.latencies(rejected), 0.50) })
	row("                         p99", func(f figures) any { return quantile(f.latencies(rejected), 0.99) })
	space()
	row("highest concurrency downstream", func(f figures) any { return f.highest })
	space()
}

// reasons returns the reasons for which the bulkhead, as it is used here, may
// reject a call, and those for which it did.
func (r report) reasons() []event.Reason {
	var all []event.Reason
	for reason := event.Full; reason <= event.Closed; reason++ {
		if reason == event.TimedOut || reason == event.QueueFull || r.with.rejections(reason) > 0 {
			all = append(all, reason)
		}
	}
	return all
}

// printTimeouts prints what became of the bursts that timed out.
func (r report) printTimeouts(w io.Writer) {
	c := r.config
	fmt.Fprintf(w, `Then, %d times: all %d permits are taken while %d requests wait for %v and
time out. Once the permits are back, how many can be acquired?

`, c.timeouts, c.bulkhead.MaxConcurrent, c.waiters.clients, c.bulkhead.MaxWait)
	row := func(name string, cell func(i int) any) {
		fmt.Fprintf(w, "  %-26s", name)
		for i := range r.timeouts {
			fmt.Fprintf(w, " %5v", cell(i))
		}
		fmt.Fprintln(w)
	}
	row("burst", func(i int) any { return i + 1 })
	row("timed out", func(i int) any { return r.timeouts[i].rejections(event.TimedOut) })
	row("permits left", func(i int) any { return r.timeouts[i].left })
	fmt.Fprintln(w)
}

// printKept says what verdict found.
func (r report) printKept(w io.Writer) {
	fmt.Fprintf(w, `Every promise was kept: at most %d calls at once, no wrong answer, events that
account for every call, and no permit lost.
`, r.config.capacity)
}

// quantile returns the smallest of the sorted durations that a share of q does
// not exceed, for print.
func quantile(sorted []time.Duration, q float64) string {
	if len(sorted) == 0 {
		return "-"
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	ms := float64(sorted[max(0, i)]) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
