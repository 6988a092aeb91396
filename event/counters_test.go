package event_test

import (
	"context"
	"encoding/json"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnstile-go/turnstile/event"
)

func TestCountersCountEachEventWhereItBelongs(t *testing.T) {
	c := event.NewCounters()
	l := c.Listener()
	ctx := t.Context()
	var want event.Counts
	// A weight of its own for each, so that no two can be mistaken.
	weight := int64(1)
	next := func() int64 { weight *= 2; return weight }
	tally := func(calls int64) event.Tally { return event.Tally{Calls: calls, Weight: calls * weight} }

	for range 3 {
		l.Permitted(ctx, event.Permitted{Weight: weight})
	}
	want.Permitted = tally(3)
	for r := event.Full; r <= event.Closed; r++ {
		l.Rejected(ctx, event.Rejected{Weight: next(), Reason: r})
		want.Rejected[r] = tally(1)
	}
	l.Canceled(ctx, event.Canceled{Weight: next()})
	want.Canceled = tally(1)
	for o := event.OK; o <= event.Panicked; o++ {
		l.Finished(ctx, event.Finished{Weight: next(), Outcome: o})
		want.Finished[o] = tally(1)
	}
	l.Released(ctx, event.Released{Weight: next()})
	want.Released = tally(1)

	if diff := cmp.Diff(want, c.Snapshot()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}

	// No bulkhead tells these, but a panic would be no answer either.
	l.Rejected(ctx, event.Rejected{Weight: next()})
	l.Rejected(ctx, event.Rejected{Weight: weight, Reason: event.Closed + 1})
	want.Rejected[0] = tally(2)
	l.Finished(ctx, event.Finished{Weight: next()})
	l.Finished(ctx, event.Finished{Weight: weight, Outcome: 255})
	want.Finished[0] = tally(2)
	if diff := cmp.Diff(want, c.Snapshot()); diff != "" {
		t.Errorf("with unknown reasons and outcomes, counts (-want +got):\n%s", diff)
	}
}

func TestCountsAddUp(t *testing.T) {
	c := event.Counts{
		Permitted: event.Tally{Calls: 100, Weight: 1000},
		Rejected:  [...]event.Tally{{1, 2}, {10, 20}, {100, 200}, {1000, 2000}, {10000, 20000}, {100000, 200000}},
		Canceled:  event.Tally{Calls: 1000000, Weight: 2000000},
		Finished:  [...]event.Tally{{1, 1}, {2, 20}, {3, 30}, {4, 40}},
		Released:  event.Tally{Calls: 5, Weight: 50},
	}
	if got, want := c.Calls(), (event.Tally{Calls: 1111211, Weight: 2223222}); got != want {
		t.Errorf("Calls() = %+v, want %+v", got, want)
	}
	if got, want := c.Running(), (event.Tally{Calls: 85, Weight: 859}); got != want {
		t.Errorf("Running() = %+v, want %+v", got, want)
	}
}

func TestCountersListenToWhatTheyCount(t *testing.T) {
	l := event.NewCounters().Listener()
	if l.LimitChanged != nil {
		t.Error("Counters listen to LimitChanged, of which they count nothing")
	}
	v := reflect.ValueOf(l)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "LimitChanged" && v.Field(i).IsNil() {
			t.Errorf("Counters do not listen to %s", name)
		}
	}
}

func TestFullSince(t *testing.T) {
	const s = time.Second
	rejected := func(at time.Duration, r event.Reason) func(event.Listener) {
		return func(l event.Listener) {
			l.Rejected(context.Background(), event.Rejected{Time: midnight.Add(at), Reason: r})
		}
	}
	permitted := func(waited time.Duration) func(event.Listener) {
		return func(l event.Listener) {
			l.Permitted(context.Background(), event.Permitted{Time: midnight, Waited: waited})
		}
	}
	other := func(l event.Listener) {
		l.Canceled(context.Background(), event.Canceled{Time: midnight})
		l.Finished(context.Background(), event.Finished{Time: midnight})
		l.Released(context.Background(), event.Released{Time: midnight})
	}
	type step = func(event.Listener)
	tests := []struct {
		reason string
		steps  []step
		full   bool
		since  time.Duration
	}{
		{reason: "nothing has happened"},
		{"full", []step{rejected(s, event.Full)}, true, s},
		{"timed out", []step{rejected(s, event.TimedOut)}, true, s},
		{"queue full", []step{rejected(s, event.QueueFull)}, true, s},
		{"a call that is too heavy says nothing about room", []step{rejected(s, event.TooHeavy)}, false, 0},
		{"nor does a bulkhead that is closed", []step{rejected(s, event.Closed)}, false, 0},
		{"the first counts", []step{rejected(s, event.TimedOut), rejected(2*s, event.Full)}, true, s},
		{"who gets in without waiting ends it", []step{rejected(s, event.Full), permitted(0)}, false, 0},
		{"who has waited does not", []step{rejected(s, event.Full), permitted(1)}, true, s},
		{"nothing else does", []step{rejected(s, event.Full), other, rejected(2*s, event.Closed)}, true, s},
		{"and then anew", []step{rejected(s, event.Full), permitted(0), permitted(0), rejected(5*s, event.Full), rejected(6*s, event.Full)}, true, 5 * s},
		{"the clock went back", []step{rejected(5*s, event.Full), permitted(0), rejected(s, event.Full)}, true, s},
	}
	for _, tt := range tests {
		c := new(event.Counters) // the zero value will do
		l := c.Listener()
		for _, step := range tt.steps {
			step(l)
		}
		var want time.Time
		if tt.full {
			want = midnight.Add(tt.since)
		}
		if since, full := c.FullSince(); full != tt.full || !since.Equal(want) {
			t.Errorf("%s: FullSince() = %v, %v, want %v, %v", tt.reason, since, full, want, tt.full)
		}
	}
}

func TestFullSinceTheBeginningOfTime(t *testing.T) {
	c := event.NewCounters()
	c.Listener().Rejected(t.Context(), event.Rejected{Reason: event.Full})
	if since, full := c.FullSince(); !full || !since.IsZero() {
		t.Errorf("FullSince() = %v, %v, want the zero time, true", since, full)
	}
}

// Of two first rejections at the same moment, one counts, for whoever looks.
func TestFullSinceIsOneTime(t *testing.T) {
	const rounds = 20_000
	c := event.NewCounters()
	l := c.Listener()
	var arrived atomic.Int64
	meet := func(n int64) { // of both, for the nth time
		arrived.Add(1)
		for arrived.Load() < 2*n {
			runtime.Gosched()
		}
	}
	var seen [2][rounds]time.Time
	var both sync.WaitGroup
	for i := range seen {
		both.Go(func() {
			for n := range int64(rounds) {
				l.Permitted(t.Context(), event.Permitted{})
				meet(2*n + 1)
				l.Rejected(t.Context(), event.Rejected{Time: midnight.Add(time.Duration(i)), Reason: event.Full})
				seen[i][n], _ = c.FullSince()
				meet(2*n + 2)
			}
		})
	}
	both.Wait()
	for n := range seen[0] {
		if seen[0][n] != seen[1][n] {
			t.Fatalf("round %d: full since %v for one and since %v for the other", n, seen[0][n], seen[1][n])
		}
	}
}

func TestCountersStringIsJSON(t *testing.T) {
	c := event.NewCounters()
	l := c.Listener()
	ctx := t.Context()
	l.Permitted(ctx, event.Permitted{Weight: 3})
	l.Finished(ctx, event.Finished{Weight: 3, Outcome: event.Failed})
	l.Rejected(ctx, event.Rejected{Weight: 2, Reason: event.TooHeavy})
	const zero = `{"calls":0,"weight":0}`
	const want = `{"permitted":{"calls":1,"weight":3},` +
		`"rejected":{"closed":` + zero + `,"full":` + zero + `,"queue_full":` + zero +
		`,"timed_out":` + zero + `,"too_heavy":{"calls":1,"weight":2}},` +
		`"canceled":` + zero + `,` +
		`"finished":{"failed":{"calls":1,"weight":3},"ok":` + zero + `,"panicked":` + zero + `},` +
		`"released":` + zero + `,"full_since":null}`
	if diff := cmp.Diff(want, c.String()); diff != "" {
		t.Errorf("String() (-want +got):\n%s", diff)
	}

	l.Rejected(ctx, event.Rejected{Time: midnight, Weight: 1, Reason: event.Full})
	want2 := strings.Replace(want, "null", `"2026-07-01T00:00:00Z"`, 1)
	want2 = strings.Replace(want2, `"full":`+zero, `"full":{"calls":1,"weight":1}`, 1)
	if diff := cmp.Diff(want2, c.String()); diff != "" {
		t.Errorf("when full, String() (-want +got):\n%s", diff)
	}
}

// Package time has no JSON for a year of five digits.
func TestCountersStringIsJSONInAnyYear(t *testing.T) {
	c := event.NewCounters()
	at := time.Date(12026, 7, 1, 0, 0, 0, 0, time.UTC)
	c.Listener().Rejected(t.Context(), event.Rejected{Time: at, Reason: event.Full})
	var got struct {
		FullSince string `json:"full_since"`
	}
	if err := json.Unmarshal([]byte(c.String()), &got); err != nil || got.FullSince != "12026-07-01T00:00:00Z" {
		t.Errorf("String() = %s (%v), want full_since in the year 12026", c, err)
	}
}

// A reader that looks while calls go on never sees more ends than starts.
func TestCountersNeverSeeMoreEndsThanStarts(t *testing.T) {
	c := event.NewCounters()
	l := c.Listener()
	stop := make(chan struct{})
	var workers sync.WaitGroup
	for i := range 2 {
		workers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				l.Permitted(t.Context(), event.Permitted{Weight: 2})
				if (n+i)%2 == 0 {
					l.Finished(t.Context(), event.Finished{Weight: 2, Outcome: event.OK})
				} else {
					l.Released(t.Context(), event.Released{Weight: 2})
				}
			}
		})
	}
	workers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			l.Rejected(t.Context(), event.Rejected{Reason: event.Full, Time: midnight})
		}
	})
	for range 10_000 {
		if since, full := c.FullSince(); full != since.Equal(midnight) {
			t.Errorf("FullSince() = %v, %v, want %v if full", since, full, midnight)
			break
		}
		if r := c.Snapshot().Running(); r.Calls < 0 || r.Weight < 0 {
			t.Errorf("%d calls of weight %d run, want at least none", r.Calls, r.Weight)
			break
		}
	}
	close(stop)
	workers.Wait()
	if r := c.Snapshot().Running(); r != (event.Tally{}) {
		t.Errorf("at rest, %+v run, want none", r)
	}
}
