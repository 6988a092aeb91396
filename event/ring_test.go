package event_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/turnstile-go/turnstile/event"
)

// weights returns what tells apart the records of these tests.
func weights(records []event.Record) []int64 {
	var ws []int64
	for _, r := range records {
		ws = append(ws, r.Weight)
	}
	return ws
}

func TestRingKeepsTheLast(t *testing.T) {
	for n := 1; n <= 4; n++ {
		r := event.NewRing(n)
		l := r.Listener()
		var all []int64
		for weight := range int64(11) {
			want := all[max(0, len(all)-n):]
			if got := weights(r.Records()); !slices.Equal(got, want) {
				t.Errorf("ring of %d after %d events: %v, want %v", n, len(all), got, want)
			}
			l.Permitted(t.Context(), event.Permitted{Weight: weight})
			all = append(all, weight)
		}
	}
}

func TestRingKeepsEveryKindOfEvent(t *testing.T) {
	r := event.NewRing(10)
	l := r.Listener()
	var want []event.Kind
	for _, hook := range hooks {
		hook.call(l)
		want = append(want, hook.kind)
	}
	var got []event.Kind
	for _, rec := range r.Records() {
		got = append(got, rec.Kind)
	}
	if !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

func TestRingRecordsAreTheCallers(t *testing.T) {
	r := event.NewRing(2)
	l := r.Listener()
	for weight := range int64(3) {
		l.Permitted(t.Context(), event.Permitted{Weight: weight})
	}
	records := r.Records()
	records[0].Weight = 99
	_ = append(records, event.Record{Weight: 98})
	if got, want := weights(r.Records()), []int64{1, 2}; !slices.Equal(got, want) {
		t.Errorf("after the caller changed its slice: %v, want %v", got, want)
	}
	l.Permitted(t.Context(), event.Permitted{Weight: 3})
	if got, want := weights(records), []int64{99, 2}; !slices.Equal(got, want) {
		t.Errorf("after another event, the caller's slice is %v, want %v", got, want)
	}
}

// Events of two goroutines come as they like, those of each in order.
func TestRingIsSafeForConcurrentUse(t *testing.T) {
	const n, each = 64, 2000
	r := event.NewRing(n)
	l := r.Listener()
	var tellers sync.WaitGroup
	for i := range int64(2) {
		tellers.Go(func() {
			for j := range int64(each) {
				l.Rejected(t.Context(), event.Rejected{MaxConcurrent: i, Weight: j})
			}
		})
	}
	check := func() {
		next := [2]int64{-1, -1}
		for _, rec := range r.Records() {
			if i := rec.MaxConcurrent; rec.Weight != next[i] && next[i] >= 0 {
				t.Errorf("record %d of goroutine %d comes where its %d should", rec.Weight, i, next[i])
			}
			next[rec.MaxConcurrent] = rec.Weight + 1
		}
	}
	for range 500 {
		check()
	}
	tellers.Wait()
	check()
	if got := len(r.Records()); got != n {
		t.Errorf("%d records, want %d", got, n)
	}
}

func TestRingAndStreamRefuseNoRoom(t *testing.T) {
	for what, f := range map[string]func(){
		"event: ring of 0 records, want at least 1":    func() { event.NewRing(0) },
		"event: ring of -1 records, want at least 1":   func() { event.NewRing(-1) },
		"event: stream of 0 records, want at least 1":  func() { event.NewStream(0) },
		"event: stream of -7 records, want at least 1": func() { event.NewStream(-7) },
	} {
		if got := watch(f); got.panicked != what {
			t.Errorf("ended with %+v, want the panic %q", got, what)
		}
	}
}

// TestReadyListenersAllocateNothing pins what their comments say; Slog's is in a
// test of its own.
func TestReadyListenersAllocateNothing(t *testing.T) {
	ctx := t.Context()
	for name, l := range map[string]event.Listener{
		"Counters":    event.NewCounters().Listener(),
		"Ring":        event.NewRing(3).Listener(),
		"Stream":      event.NewStream(1000).Listener(),
		"full Stream": event.NewStream(1).Listener(),
	} {
		allocs := testing.AllocsPerRun(100, func() {
			l.Permitted(ctx, event.Permitted{Time: midnight, Name: "db", Weight: 1})
			l.Rejected(ctx, event.Rejected{Time: midnight, Name: "db", Weight: 1, Reason: event.Full})
			l.Canceled(ctx, event.Canceled{Time: midnight, Name: "db", Weight: 1, Err: context.Canceled})
			l.Finished(ctx, event.Finished{Time: midnight, Name: "db", Weight: 1, Outcome: event.OK})
			l.Released(ctx, event.Released{Time: midnight, Name: "db", Weight: 1, Err: context.Canceled})
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations for five events, want 0", name, allocs)
		}
	}
}
