package linearize

import (
	"context"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/turnstile-go/turnstile/semaphore"
)

// tally counts what histories have met: without races, and without both
// outcomes of every call, the checker would have nothing to object to.
type tally struct {
	ops, overlaps            int
	tries, refusals, debts   int
	granted, canceled        int
	timedOut, queueFull      int
	evicted, closed, pending int
	withdrawn                int
	waiting, idle            int
	passed                   int // histories in which somebody passed another
}

func (y *tally) add(sc script, ops []porcupine.Operation) {
	y.ops += len(ops)
	if sc.unfair {
		sc.unfair = false
		count(sc.check(ops) == porcupine.Illegal, &y.passed, nil)
	}
	for i, o := range ops {
		for _, p := range ops[:i] {
			if o.ClientId != p.ClientId && o.Call <= p.Return && p.Call <= o.Return {
				y.overlaps++
			}
		}
		r := o.Output.(reply)
		switch o.Input.(call).op {
		case try:
			count(r.ok, &y.tries, &y.refusals)
		case stats:
			count(r.stats.InUse > r.stats.Limit, &y.debts, nil)
			count(r.stats.Waiting > 0, &y.waiting, nil)
		case drained:
			count(r.ok, &y.idle, nil)
		case pending:
			y.pending++
		case withdraw:
			y.withdrawn++
		case answer:
			switch r.err {
			case nil:
				y.granted++
			case context.Canceled:
				y.canceled++
			case semaphore.ErrTimeout:
				y.timedOut++
			case semaphore.ErrQueueFull:
				y.queueFull++
			case semaphore.ErrExceedsLimit:
				y.evicted++
			case semaphore.ErrClosed:
				y.closed++
			}
		}
	}
}

func count(is bool, yes, no *int) {
	if is {
		*yes++
	} else if no != nil {
		*no++
	}
}

// require fails if something was hardly met.
func (y *tally) require(t *testing.T, k kind) {
	t.Helper()
	met := map[string]int{
		"overlaps": y.overlaps, "tries": y.tries, "refusals": y.refusals, "debts": y.debts, "granted": y.granted,
		"timed out": y.timedOut, "exceeds limit": y.evicted, "closed": y.closed, "idle": y.idle,
	}
	if k.waits {
		met["canceled"], met["queue full"], met["pending"], met["waiting"] = y.canceled, y.queueFull, y.pending, y.waiting
		met["withdrawn"] = y.withdrawn
	}
	if k.unfair {
		met["passed"] = y.passed
	}
	for what, n := range met {
		if n < 20 {
			t.Errorf("the histories met %q %d times, want at least 20", what, n)
		}
	}
}
