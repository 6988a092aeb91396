package linearize

import (
	"context"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/turnstile-go/turnstile/semaphore"
)

// step is an operation of a history made by hand.
type step struct {
	call
	reply
	until int   // the number of the step during which it returns; 0: its own
	later int64 // nanoseconds that pass before it
}

func tries(n int64, ok bool) step { return step{call: call{op: try, n: n}, reply: reply{ok: ok}} }
func gives(n int64) step          { return step{call: call{op: release, n: n}} }
func sets(n int64) step           { return step{call: call{op: setLimit, n: n}} }
func shows(limit, inUse int64, waiting int) step {
	return step{call: call{op: stats}, reply: reply{stats: semaphore.Stats{
		Limit: limit, InUse: inUse, Available: max(0, limit-inUse), Waiting: waiting,
	}}}
}

// rests is shows when nothing moves any more.
func rests(limit, inUse int64, waiting int) step {
	s := shows(limit, inUse, waiting)
	s.op = rest
	return s
}

func watches() step       { return step{call: call{op: drain}} }
func drains(ok bool) step { return step{call: call{op: drained}, reply: reply{ok: ok}} }
func closes() step        { return step{call: call{op: shut}} }
func asks(client int, n int64) step {
	return step{call: call{op: ask, client: client, n: n, waits: true}}
}
func refuses(client int, n int64) step { return step{call: call{op: ask, client: client, n: n}} }

// queues is an asks of an asynchronous request.
func queues(client int, n int64) step {
	s := asks(client, n)
	s.async = true
	return s
}

func isWait(client int) step  { return step{call: call{op: pending, client: client}} }
func cancels(client int) step { return step{call: call{op: withdraw, client: client}} }
func answers(client int, n int64, err error) step {
	return step{call: call{op: answer, client: client, n: n}, reply: reply{err: err}}
}

func during(s step, until int) step {
	s.until = until
	return s
}

// later is s after a waiter has grown old.
func later(s step) step {
	s.later = int64(*young)
	return s
}

const right, wrong = porcupine.Ok, porcupine.Illegal

// rule is a history made by hand, and what the checker must say of it.
type rule struct {
	reason string
	limit  int64
	want   porcupine.CheckResult
	steps  []step
}

func (r rule) test(t *testing.T, k kind) {
	t.Helper()
	var ops []porcupine.Operation
	begins := make([]int64, len(r.steps)+1)
	for i, s := range r.steps {
		begins[i+1] = begins[i] + 10 + s.later
	}
	for i, s := range r.steps {
		s.from, s.to = begins[i+1], begins[max(i+1, s.until)]+5
		ops = append(ops, s.returned(s.reply))
	}
	sc := script{kind: k, limit: r.limit, maxWaiters: 2}
	if got := sc.check(ops); got != r.want {
		t.Errorf("%s: got %s, want %s\n%s", r.reason, got, r.want, describe(ops))
	}
}

// TestModel shows the model histories made by hand, right ones and wrong ones.
// Each step takes from its number to the next, unless it says otherwise.
func TestModel(t *testing.T) {
	for _, r := range []rule{
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
		{"closed", 1, right, []step{tries(1, true), asks(1, 1), closes(), answers(1, 1, semaphore.ErrClosed), gives(1), tries(0, false), watches(), drains(true)}},
		{"granted after Close", 1, wrong, []step{tries(1, true), asks(1, 1), closes(), gives(1), answers(1, 1, nil)}},
		{"idle", 1, right, []step{watches(), drains(true), tries(1, true), watches(), drains(false), gives(1), watches(), drains(true)}},
		{"idle for a moment", 1, right, []step{tries(1, true), watches(), gives(1), tries(1, true), drains(true)}},
		{"idle for a moment that Drain missed", 1, wrong, []step{tries(1, true), watches(), gives(1), tries(1, true), drains(false)}},
		{"drained with a permit in flight", 1, wrong, []step{tries(1, true), watches(), drains(true)}},
		{"drained while a permit passes on", 1, wrong, []step{tries(1, true), asks(1, 1), watches(), gives(1), drains(true)}},
		{"answered before it asked", 1, wrong, []step{answers(1, 1, nil), asks(1, 1)}},
	} {
		r.test(t, inOrder)
	}
}

// TestUnfairModel shows it what is different on an Unfair semaphore, and what is
// not although it might seem so.
func TestUnfairModel(t *testing.T) {
	for _, r := range []rule{
		{"passing a waiter", 1, right, []step{tries(1, true), asks(1, 1), gives(1), tries(1, true), shows(1, 1, 1), isWait(1)}},
		{"passing a heavy one", 2, right, []step{tries(1, true), asks(1, 2), tries(1, true), shows(2, 2, 1)}},
		{"passing, to wait no longer", 1, right, []step{tries(1, true), asks(1, 1), gives(1), asks(2, 1), answers(2, 1, nil), shows(1, 1, 1)}},
		{"not passing", 1, right, []step{tries(1, true), asks(1, 1), gives(1), tries(1, false), answers(1, 1, nil)}},
		{"queueing behind one whose permits are free", 1, right, []step{tries(1, true), asks(1, 1), gives(1), asks(2, 1), shows(1, 0, 2), answers(1, 1, nil)}},
		{"passing, and not counted", 1, wrong, []step{tries(1, true), asks(1, 1), gives(1), tries(1, true), shows(1, 0, 1)}},
		{"over-grant", 1, wrong, []step{tries(1, true), tries(1, true)}},
		{"over-grant to who is woken", 1, wrong, []step{tries(1, true), asks(1, 1), gives(1), tries(1, true), answers(1, 1, nil)}},
		{"over-grant past a waiter", 2, wrong, []step{tries(1, true), asks(1, 2), tries(2, true)}},
		{"passing in debt", 2, wrong, []step{tries(2, true), queues(1, 1), sets(1), gives(1), tries(1, true)}},
		{"passing after Close", 1, wrong, []step{closes(), tries(1, true)}},
		{"refused without reason", 1, wrong, []step{tries(1, false)}},
		{"refused after the last has left", 1, wrong, []step{tries(1, true), asks(1, 1), gives(1), answers(1, 1, context.Canceled), tries(1, false)}},
		{"woken, and not there yet", 1, right, []step{tries(1, true), asks(1, 1), gives(1), shows(1, 0, 1), shows(1, 1, 0), answers(1, 1, nil)}},
		{"woken, and never there", 1, wrong, []step{tries(1, true), asks(1, 1), gives(1), rests(1, 0, 1)}},
		{"at rest", 1, right, []step{tries(1, true), asks(1, 1), gives(1), rests(1, 1, 0)}},
		{"at rest before a heavy one", 2, right, []step{tries(1, true), asks(1, 2), rests(2, 1, 1)}},
		{"at rest in a pause", 0, right, []step{asks(1, 1), rests(0, 0, 1)}},
		{"the second woken, and never there", 2, wrong, []step{tries(2, true), asks(1, 1), asks(2, 1), gives(2), answers(1, 1, nil), rests(2, 1, 1)}},
		{"woken out of order", 1, wrong, []step{tries(1, true), asks(1, 1), asks(2, 1), gives(1), answers(2, 1, nil)}},
		{"the waiters in order", 1, right, []step{tries(1, true), asks(1, 1), asks(2, 1), gives(1), answers(1, 1, nil), isWait(2)}},
		{"an asynchronous one needs no waking", 1, wrong, []step{tries(1, true), queues(1, 1), gives(1), isWait(1)}},
		{"an asynchronous one behind one who is woken", 2, right, []step{tries(2, true), asks(1, 1), queues(2, 1), gives(2), isWait(2), answers(1, 1, nil), answers(2, 1, nil)}},
		{"an asynchronous one, handed what is left", 2, wrong, []step{tries(2, true), asks(1, 1), queues(2, 1), gives(2), answers(1, 1, nil), isWait(2)}},
		{"passing the old", 2, wrong, []step{tries(1, true), queues(1, 2), later(tries(1, true))}},
		{"not passing the old", 2, right, []step{tries(1, true), queues(1, 2), later(tries(1, false))}},
		{"passing the old, and waiting no longer", 2, wrong, []step{tries(1, true), queues(1, 2), later(asks(2, 1)), answers(2, 1, nil)}},
		{"passing one who may not be old", 2, right, []step{tries(1, true), during(queues(1, 2), 3), later(tries(1, true))}},
		{"the old are handed what comes back", 1, wrong, []step{tries(1, true), asks(1, 1), later(gives(1)), shows(1, 0, 1)}},
		{"newcomers first serve the old", 1, wrong, []step{tries(1, true), asks(1, 1), gives(1), later(refuses(2, 1)), shows(1, 0, 1)}},
		{"growing hands off", 1, wrong, []step{tries(1, true), asks(1, 1), sets(2), shows(2, 1, 1)}},
		{"the same limit again does nothing", 1, right, []step{tries(1, true), asks(1, 1), gives(1), sets(1), shows(1, 0, 1)}},
		{"evicting hands off", 2, wrong, []step{tries(1, true), asks(1, 2), asks(2, 0), sets(1), shows(1, 1, 1)}},
		{"Cancel hands off", 2, wrong, []step{tries(1, true), queues(1, 2), asks(2, 1), cancels(1), shows(2, 1, 1)}},
		{"Cancel of the granted", 1, wrong, []step{tries(1, true), queues(1, 1), gives(1), cancels(1)}},
		{"who gives up wakes", 2, right, []step{tries(1, true), asks(1, 2), asks(2, 1), answers(1, 2, context.Canceled), shows(2, 1, 1)}},
		{"who gives up wakes, and it never comes", 2, wrong, []step{tries(1, true), asks(1, 2), asks(2, 1), answers(1, 2, semaphore.ErrTimeout), rests(2, 1, 1)}},
		{"who gives up hands off to an asynchronous one", 2, wrong, []step{tries(1, true), asks(1, 2), queues(2, 1), answers(1, 2, semaphore.ErrTimeout), isWait(2)}},
		{"the woken time out all at once", 2, right, []step{
			tries(2, true), asks(1, 1), asks(2, 1), gives(2),
			answers(1, 1, semaphore.ErrTimeout), answers(2, 1, semaphore.ErrTimeout), shows(2, 0, 0),
		}},
		{"evicted from what still fits", 2, wrong, []step{tries(2, true), asks(1, 1), sets(1), answers(1, 1, semaphore.ErrExceedsLimit)}},
		{"queue full too early", 1, wrong, []step{tries(1, true), asks(1, 1), asks(2, 1), answers(2, 1, semaphore.ErrQueueFull)}},
		{"granted after Close", 1, wrong, []step{tries(1, true), asks(1, 1), closes(), gives(1), answers(1, 1, nil)}},
		{"idle before whoever was woken is there", 1, right, []step{tries(1, true), asks(1, 1), watches(), gives(1), drains(true)}},
		{"drained while a permit passes on", 1, wrong, []step{tries(1, true), queues(1, 1), watches(), gives(1), drains(true)}},
	} {
		r.test(t, unfair)
	}
}
