package linearize

import (
	"context"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/turnstile-go/turnstile/semaphore"
)

// TestModel shows the model histories made by hand, right ones and wrong ones.
// Each call takes from its number to the next, unless it says otherwise.
func TestModel(t *testing.T) {
	type step struct {
		call
		reply
		until int // the number of the call during which it returns; 0: its own
	}
	var (
		tries = func(n int64, ok bool) step { return step{call: call{op: try, n: n}, reply: reply{ok: ok}} }
		gives = func(n int64) step { return step{call: call{op: release, n: n}} }
		sets  = func(n int64) step { return step{call: call{op: setLimit, n: n}} }
		shows = func(limit, inUse int64, waiting int) step {
			return step{call: call{op: stats}, reply: reply{stats: semaphore.Stats{
				Limit: limit, InUse: inUse, Available: max(0, limit-inUse), Waiting: waiting,
			}}}
		}
		watches = step{call: call{op: drain}}
		drains  = func(ok bool) step { return step{call: call{op: drained}, reply: reply{ok: ok}} }
		closes  = step{call: call{op: shut}}
		asks    = func(client int, n int64) step { return step{call: call{op: ask, client: client, n: n, waits: true}} }
		refuses = func(client int, n int64) step { return step{call: call{op: ask, client: client, n: n}} }
		isWait  = func(client int) step { return step{call: call{op: pending, client: client}} }
		answers = func(client int, n int64, err error) step {
			return step{call: call{op: answer, client: client, n: n}, reply: reply{err: err}}
		}
		during = func(s step, until int) step { s.until = until; return s }
	)
	const right, wrong = porcupine.Ok, porcupine.Illegal
	for _, tt := range []struct {
		reason string
		limit  int64
		want   porcupine.CheckResult
		steps  []step
	}{
		{"acquired before the limit fell", 1, right, []step{during(tries(1, true), 3), sets(0), shows(0, 1, 0)}},
		{"acquired after the limit fell", 1, wrong, []step{during(tries(1, true), 3), sets(0), shows(0, 0, 0)}},
		{"refused for want of permits", 1, right, []step{tries(1, true), tries(1, false)}},
		{"refused without reason", 1, wrong, []step{tries(1, false)}},
		{"refused while another held them", 1, right, []step{during(tries(1, false), 2), tries(1, true), gives(1)}},
		{"over-grant", 1, wrong, []step{tries(1, true), tries(1, true)}},
		{"nothing fits in debt", 2, right, []step{tries(2, true), sets(1), tries(0, false), gives(1), tries(0, true), tries(1, false)}},
		{"debt forgiven", 2, wrong, []step{tries(2, true), sets(1), gives(1), tries(1, true)}},
		{"limit of one moment, use of another", 2, wrong, []step{tries(1, true), sets(1), shows(2, 1, 0)}},
		{"a release that is not seen", 1, wrong, []step{tries(1, true), gives(1), shows(1, 1, 0)}},
		{"hand-off", 1, right, []step{tries(1, true), asks(1, 1), gives(1), tries(1, false), answers(1, 1, nil)}},
		{"barging", 1, wrong, []step{tries(1, true), asks(1, 1), gives(1), tries(1, true), answers(1, 1, nil)}},
		{"barging past a heavy one", 2, wrong, []step{tries(1, true), asks(1, 2), tries(1, true)}},
		{"grant in order", 1, right, []step{tries(1, true), asks(1, 1), asks(2, 1), gives(1), isWait(2), answers(1, 1, nil)}},
		{"grant out of order", 1, wrong, []step{tries(1, true), asks(1, 1), asks(2, 1), gives(1), isWait(1), answers(2, 1, nil)}},
		{"the front leaves, the next is granted", 2, right, []step{tries(1, true), asks(1, 2), asks(2, 1), answers(1, 2, context.Canceled), answers(2, 1, nil)}},
		{"the front leaves, the next still waits", 2, wrong, []step{tries(1, true), asks(1, 2), asks(2, 1), answers(1, 2, semaphore.ErrTimeout), isWait(2)}},
		{"a wake-up lost", 1, wrong, []step{tries(1, true), asks(1, 1), gives(1), isWait(1)}},
		{"growing grants", 1, wrong, []step{tries(1, true), asks(1, 1), sets(2), isWait(1)}},
		{"granted, then canceled: given back", 1, right, []step{tries(1, true), asks(1, 1), gives(1), answers(1, 1, context.Canceled), shows(1, 0, 0)}},
		{"granted, then canceled: lost", 1, wrong, []step{tries(1, true), asks(1, 1), gives(1), answers(1, 1, context.Canceled), shows(1, 1, 0)}},
		{"granted and timed out", 1, wrong, []step{tries(1, true), asks(1, 1), gives(1), answers(1, 1, semaphore.ErrTimeout)}},
		{"timed out before it was granted", 1, right, []step{tries(1, true), asks(1, 1), during(gives(1), 4), answers(1, 1, semaphore.ErrTimeout)}},
		{"evicted", 2, right, []step{tries(2, true), asks(1, 2), asks(2, 1), sets(1), answers(1, 2, semaphore.ErrExceedsLimit), gives(2), answers(2, 1, nil)}},
		{"evicted from what still fits", 2, wrong, []step{tries(2, true), asks(1, 1), sets(1), answers(1, 1, semaphore.ErrExceedsLimit)}},
		{"a pause evicts nobody", 2, right, []step{tries(2, true), asks(1, 2), sets(0), isWait(1), shows(0, 2, 1)}},
		{"too heavy", 1, right, []step{refuses(1, 2), answers(1, 2, semaphore.ErrExceedsLimit)}},
		{"not willing to wait", 1, right, []step{tries(1, true), refuses(1, 1), answers(1, 1, semaphore.ErrTimeout), shows(1, 1, 0)}},
		{"not willing to wait, but granted later", 1, wrong, []step{tries(1, true), refuses(1, 1), gives(1), answers(1, 1, nil)}},
		{"queue full", 1, right, []step{tries(1, true), asks(1, 1), asks(2, 1), asks(3, 1), answers(3, 1, semaphore.ErrQueueFull), shows(1, 1, 2)}},
		{"queue full too early", 1, wrong, []step{tries(1, true), asks(1, 1), asks(2, 1), answers(2, 1, semaphore.ErrQueueFull)}},
		{"closed", 1, right, []step{tries(1, true), asks(1, 1), closes, answers(1, 1, semaphore.ErrClosed), gives(1), tries(0, false), watches, drains(true)}},
		{"granted after Close", 1, wrong, []step{tries(1, true), asks(1, 1), closes, gives(1), answers(1, 1, nil)}},
		{"idle", 1, right, []step{watches, drains(true), tries(1, true), watches, drains(false), gives(1), watches, drains(true)}},
		{"idle for a moment", 1, right, []step{tries(1, true), watches, gives(1), tries(1, true), drains(true)}},
		{"idle for a moment that Drain missed", 1, wrong, []step{tries(1, true), watches, gives(1), tries(1, true), drains(false)}},
		{"drained with a permit in flight", 1, wrong, []step{tries(1, true), watches, drains(true)}},
		{"drained while a permit passes on", 1, wrong, []step{tries(1, true), asks(1, 1), watches, gives(1), drains(true)}},
		{"answered before it asked", 1, wrong, []step{answers(1, 1, nil), asks(1, 1)}},
	} {
		var ops []porcupine.Operation
		for k, s := range tt.steps {
			until := max(k+1, s.until)
			ops = append(ops, porcupine.Operation{
				ClientId: s.client, Input: s.call, Output: s.reply, Call: int64(10 * (k + 1)), Return: int64(10*until + 5),
			})
		}
		sc := script{limit: tt.limit, maxWaiters: 2}
		if got := sc.check(ops); got != tt.want {
			t.Errorf("%s: got %s, want %s\n%s", tt.reason, got, tt.want, describe(ops))
		}
	}
}
