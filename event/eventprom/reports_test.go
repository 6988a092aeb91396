package eventprom_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event/eventprom"
)

// A gauge of waiting calls went down while the calls were still waiting:
// https://github.com/helidon-io/helidon/issues/11430. Here each leaves the queue
// in another way, and the scrapes follow.
func TestWaitingCallsAreThoseThatWait(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 3, MaxWait: bulkhead.Forever})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	expect := func(when string, waiting, active, permitted, canceled, tooHeavy, closed float64) {
		t.Helper()
		got := samples(t, url)
		for key, want := range map[string]float64{
			"waiting_calls{db}":                  waiting,
			"active_permits{db}":                 active,
			"permitted_calls_total{db}":          permitted,
			"canceled_calls_total{db}":           canceled,
			"rejected_calls_total{db,too_heavy}": tooHeavy,
			"rejected_calls_total{db,closed}":    closed,
		} {
			if got[key] != want {
				t.Errorf("%s: %s = %v, want %v", when, key, got[key], want)
			}
		}
	}

	held, err := b.Weighing(3).Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first, second := b.AcquireAsync(ctx), b.AcquireAsync(ctx)
	heavy, last := b.Weighing(3).AcquireAsync(ctx), b.Weighing(2).AcquireAsync(ctx)
	expect("queued", 4, 3, 1, 0, 0, 0)

	if !second.Cancel() {
		t.Fatal("the second one could not be canceled")
	}
	<-second.Done()
	expect("one canceled", 3, 3, 1, 1, 0, 0)

	if err := b.SetMaxConcurrent(2); err != nil {
		t.Fatal(err)
	}
	<-heavy.Done()
	expect("one rejected", 2, 3, 1, 1, 1, 0)

	held.Complete(nil)
	permit, err := first.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	expect("one granted", 1, 1, 2, 1, 1, 0)

	b.Close()
	<-last.Done()
	expect("closed", 0, 1, 2, 1, 1, 1)
	permit.Complete(errors.New("boom"))
	expect("at rest", 0, 0, 2, 1, 1, 1)
}

// One counter was for a full queue and for a limit that was reached, and whoever
// looked at it turned the wrong knob: https://github.com/envoyproxy/envoy/issues/44164
// and https://github.com/envoyproxy/envoy/issues/36771. A failed attempt counted
// as use, too: https://github.com/mperham/connection_pool/pull/167.
func TestEveryRefusalHasASeriesOfItsOwn(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, MaxWait: time.Millisecond, MaxQueue: 1})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	held, err := b.Weighing(2).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queued := func() *bulkhead.PendingPermit { return b.Waiting(bulkhead.Forever).AcquireAsync(t.Context()) }
	withdraw := func(p *bulkhead.PendingPermit) { p.Cancel(); <-p.Done() }
	nop := func(context.Context) error { return nil }
	refuse := func(b *bulkhead.Bulkhead[int]) { b.Run(t.Context(), nop) }
	for _, tt := range []struct {
		reason string
		refuse func()
		counts []string // the series that go up by 1, and all others stay
	}{
		{"full", func() { refuse(b.Waiting(0)) }, []string{"rejected_calls_total{db,full}"}},
		{"timed out", func() { refuse(b) }, []string{"rejected_calls_total{db,timed_out}"}},
		{"withdrawn", func() { withdraw(queued()) }, []string{"canceled_calls_total{db}"}},
		{
			"canceled", func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				b.Waiting(bulkhead.Forever).Run(ctx, nop)
			},
			[]string{"canceled_calls_total{db}"},
		},
		{
			"queue full", func() { p := queued(); refuse(b); withdraw(p) },
			[]string{"rejected_calls_total{db,queue_full}", "canceled_calls_total{db}"},
		},
		{"too heavy", func() { refuse(b.Weighing(3)) }, []string{"rejected_calls_total{db,too_heavy}"}},
		{"closed", func() { b.Close(); refuse(b) }, []string{"rejected_calls_total{db,closed}"}},
	} {
		before := samples(t, url)
		tt.refuse()
		for series, got := range samples(t, url) {
			want := before[series]
			if slices.Contains(tt.counts, series) {
				want++
			}
			if got != want {
				t.Errorf("%s: %s = %v, want %v", tt.reason, series, got, want)
			}
		}
	}
	held.Release()
	if got := samples(t, url)["active_permits{db}"]; got != 0 {
		t.Errorf("at rest, %v permits are active", got)
	}
}
