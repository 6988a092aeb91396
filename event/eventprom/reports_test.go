package eventprom_test

import (
	"errors"
	"testing"

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
