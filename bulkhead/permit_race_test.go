package bulkhead_test

import (
	"sync"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// The first call counts, and there is one first call.
// And whoever ends a permit finds it back, also when another was first and is
// still about it.
func TestPermitIsBackWhenAnyEndReturns(t *testing.T) {
	rounds := 20_000
	if testing.Short() {
		rounds = 1000
	}
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	for range rounds {
		p := hold(t, b, 1)
		var ends sync.WaitGroup
		for _, end := range []func(){p.Release, func() { p.Complete(nil) }, p.Panicked} {
			ends.Go(func() {
				end()
				if got := b.Stats().Active; got != 0 {
					t.Errorf("release once: %d permits in flight after its end returned, want 0", got)
				}
			})
		}
		ends.Wait()
		if t.Failed() {
			return
		}
	}
	checkAtRest(t, b)
}

func TestPermitEndedFromThreeGoroutinesAtOnceIsBackOnce(t *testing.T) {
	const rounds = 200
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 4, Listener: told.listener()})
	others := hold(t, b, 3) // what a second or third Release would give back
	for range rounds {
		p := hold(t, b, 1)
		var ends sync.WaitGroup
		for _, end := range []func(){p.Release, func() { p.Complete(nil) }, p.Release} {
			ends.Go(end)
		}
		ends.Wait()
		if got := b.Stats().Active; got != 3 {
			t.Fatalf("release once: %d permits in flight, want the other 3", got)
		}
	}
	others.Release()
	told.check(t, 1+rounds, 3+rounds)
	checkAtRest(t, b)
}
