package eventotel_test

import (
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// TestCountingAllocatesNothing pins what the package documentation claims, with
// the SDK as it comes.
func TestCountingAllocatesNothing(t *testing.T) {
	m, _ := newMetrics(t)
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if got := testing.AllocsPerRun(1000, func() { b.Run(ctx, nop) }); got != 0 {
		t.Errorf("%v allocations for a call, want 0", got)
	}
	p, _ := b.TryAcquire()
	defer p.Release()
	if got := testing.AllocsPerRun(1000, func() { b.Run(ctx, nop) }); got != 0 {
		t.Errorf("%v allocations for a rejected call, want 0", got)
	}

	l := listen(t)
	for what, tell := range map[string]func(){
		"a call that waited": func() { l.Permitted(ctx, event.Permitted{Waited: 3e6}) },
		"a failed call":      func() { l.Finished(ctx, event.Finished{Outcome: event.Failed, Elapsed: 3e9}) },
		"a released call":    func() { l.Released(ctx, event.Released{Elapsed: 3e3}) },
		"a canceled call":    func() { l.Canceled(ctx, event.Canceled{Waited: 3e6}) },
	} {
		if got := testing.AllocsPerRun(1000, tell); got != 0 {
			t.Errorf("%v allocations for %s, want 0", got, what)
		}
	}
}
