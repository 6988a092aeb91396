package bulkhead_test

import (
	"sync"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// The first call counts, and there is one first call.
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
