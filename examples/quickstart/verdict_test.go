package main

import (
	"testing"

	"github.com/turnstile-go/turnstile/event"
)

// kept returns a report of a run in which every promise was kept.
func kept() report {
	answers := func(n map[answer]int) []answer {
		var all []answer
		for a, count := range n {
			for range count {
				all = append(all, a)
			}
		}
		return all
	}
	timedOut := answer{kind: rejected, detail: "timed_out"}
	queueFull := answer{kind: rejected, detail: "queue_full"}

	cfg := standard
	cfg.burst.clients, cfg.waiters.clients, cfg.timeouts = 100, 20, 2
	r := report{config: cfg}
	r.without = figures{
		answers: answers(map[answer]int{{kind: served}: 10, {kind: gaveUp}: 90}),
		lookups: 100, calls: 100, highest: 95,
	}
	// Of the three who gave up, one call ran, one waited, and one had been
	// served too late.
	r.with = figures{
		answers: answers(map[answer]int{{kind: served}: 50, timedOut: 30, queueFull: 17, {kind: gaveUp}: 3}),
		lookups: 100, calls: 52, highest: 8, left: 8,
		events: events{
			permitted: 52, finished: 51, released: 1, canceled: 1,
			rejected: map[event.Reason]int{event.TimedOut: 30, event.QueueFull: 17},
		},
	}
	for range cfg.timeouts {
		r.timeouts = append(r.timeouts, figures{
			answers: answers(map[answer]int{timedOut: 20}),
			lookups: 20, left: 8,
			events: events{rejected: map[event.Reason]int{event.TimedOut: 20}},
		})
	}
	return r
}

func TestVerdictIsGoodWhenEveryPromiseIsKept(t *testing.T) {
	r := kept()
	if err := r.verdict(); err != nil {
		t.Errorf("verdict = %q, want nil", err)
	}
}

func TestVerdictNamesTheBrokenPromise(t *testing.T) {
	// change replaces n answers of a kind.
	change := func(f *figures, n int, from kind, to answer) {
		for i, a := range f.answers {
			if n > 0 && a.kind == from {
				f.answers[i] = to
				n--
			}
		}
	}
	for _, tc := range []struct {
		broken func(*report)
		want   string
	}{
		{
			func(r *report) { r.with.highest = 9 },
			"with a bulkhead: the downstream saw 9 calls at once, more than 8",
		},
		{
			func(r *report) { r.without.highest = 8 },
			"without a bulkhead: the downstream saw only 8 calls at once, which shows nothing",
		},
		{
			func(r *report) { r.with.left = 7 },
			"with a bulkhead: 7 permits left, want 8",
		},
		{
			func(r *report) { r.with.left = 9 },
			"with a bulkhead: 9 permits left, want 8",
		},
		{
			func(r *report) { r.timeouts[1].left = 7 },
			"timing out, 2 of 2: 7 permits left, want 8",
		},
		{
			func(r *report) { r.timeouts = r.timeouts[:1] },
			"1 bursts timed out, want 2",
		},
		{
			func(r *report) { change(&r.timeouts[0], 1, rejected, answer{kind: gaveUp}) },
			"timing out, 1 of 2: 19 of 20 requests timed out",
		},
		{
			func(r *report) {
				change(&r.timeouts[0], 1, rejected, answer{kind: rejected, detail: "full"})
				r.timeouts[0].events.rejected[event.TimedOut]--
				r.timeouts[0].events.rejected[event.Full]++
			},
			"timing out, 1 of 2: 19 of 20 requests timed out",
		},
		{
			func(r *report) {
				change(&r.without, 2, gaveUp, answer{kind: wrong, detail: `item 7: status 200, "1"`})
			},
			`without a bulkhead: wrong answer: item 7: status 200, "1"`,
		},
		{
			func(r *report) {
				change(&r.with, 1, gaveUp, answer{kind: wrong, detail: `item 7: status 200, "1"`})
			},
			`with a bulkhead: wrong answer: item 7: status 200, "1"`,
		},
		{
			func(r *report) { r.without.answers = r.without.answers[:99] },
			"without a bulkhead: 99 answers for 100 clients",
		},
		{
			func(r *report) {
				f := &r.timeouts[0]
				f.answers, f.lookups, f.events.rejected[event.TimedOut] = f.answers[:19], 19, 19
			},
			"timing out, 1 of 2: 19 answers for 20 clients",
		},
		{
			func(r *report) {
				change(&r.with, 50, served, answer{kind: rejected, detail: "queue_full"})
				r.with.events = events{
					canceled: 3,
					rejected: map[event.Reason]int{event.TimedOut: 30, event.QueueFull: 67},
				}
				r.with.calls = 0
			},
			"with a bulkhead: nobody was served",
		},
		{
			func(r *report) { r.with.lookups = 101 },
			"with a bulkhead: 101 calls, but events tell of 100",
		},
		{
			func(r *report) { r.with.calls = 53 },
			"with a bulkhead: 53 calls ran, but 52 were permitted",
		},
		{
			func(r *report) { r.with.events.released = 0 },
			"with a bulkhead: 52 calls permitted, but 51 finished and 0 released",
		},
		{
			func(r *report) { r.with.events.finished, r.with.events.released = 49, 3 },
			"with a bulkhead: clients saw 50 calls served, but events tell of 49",
		},
		{
			func(r *report) {
				r.with.events.finished, r.with.events.permitted, r.with.calls = 54, 55, 55
				r.with.lookups = 103
			},
			"with a bulkhead: clients saw 50 calls served, but events tell of 54",
		},
		{
			func(r *report) {
				r.with.events.rejected[event.QueueFull] = 16
				r.with.events.canceled++
			},
			"with a bulkhead: clients saw 17 calls rejected as queue_full, but events tell of 16",
		},
		{
			func(r *report) {
				r.with.events.rejected[event.Closed] = 4
				r.with.lookups += 4
			},
			"with a bulkhead: clients saw 0 calls rejected as closed, but events tell of 4",
		},
	} {
		r := kept()
		tc.broken(&r)
		err := r.verdict()
		if want := "broken promise: " + tc.want; err == nil || err.Error() != want {
			t.Errorf("verdict = %v, want %s", err, want)
		}
	}
}
