package proptest

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/turnstile-go/turnstile/bulkhead"
	events "github.com/turnstile-go/turnstile/event"
)

// callScript is what is done to a bulkhead. All of it is drawn before anything
// is done.
type callScript struct {
	limit    int64
	maxWait  time.Duration
	maxQueue int
	clock    bool      // whether events are stamped by a clock of our own
	listener *listener // of the Config, or nil
	actions  []callAction
}

// GoString is short, because rapid shows it, and what is played is shown better.
func (s callScript) GoString() string {
	return fmt.Sprintf("limit %d, actions: %d, before it is shortened", s.limit, len(s.actions))
}

// callAction is one step of a callScript. Its numbers are choices among what
// there is when it is played; where there is nothing to choose, it is a call
// instead. So no action does nothing, and removing one leaves a script that
// still makes sense.
type callAction struct {
	verb    verb
	n       int // which of those there are
	weight  int // of a call: see weigh; or a limit
	wait    int // see patiences
	context int // see contexts
	ending  ending
	quick   bool // the function of a call ends at once, and not when told to
	listener
	joined bool // follows at the same instant, before anything else has run
}

// verb is what an action does.
type verb uint8

const (
	toExecute verb = iota
	toAcquire
	toExecuteAsync
	toAcquireAsync
	toTry
	toRun
	toDo
	toGo
	toFinish     // the function of a call ends
	toRelease    // Release of a Permit
	toComplete   // Complete of a Permit
	toEndContext // a context is canceled
	toPass       // time passes
	toCancel     // Cancel of a Future or PendingPermit
	toPermit     // Permit of a PendingPermit
	toWait       // Wait of a PendingPermit
	toGet        // Get of a Future
	toSetMaxConcurrent
	toSetMaxWait
	toSubscribe
	toUnsubscribe
	toDrain
	toClose
)

// verbs are what scripts choose from, each as often as it is wanted.
var verbs = func() (all []verb) {
	for v, times := range [...]int{
		toExecute: 4, toAcquire: 5, toExecuteAsync: 4, toAcquireAsync: 5, toTry: 3, toRun: 1, toDo: 1, toGo: 1,
		toFinish: 9, toRelease: 6, toComplete: 5, toEndContext: 4, toPass: 6, toCancel: 5, toPermit: 4, toWait: 3, toGet: 3,
		toSetMaxConcurrent: 4, toSetMaxWait: 1, toSubscribe: 3, toUnsubscribe: 2, toDrain: 2, toClose: 1,
	} {
		all = append(all, slices.Repeat([]verb{verb(v)}, times)...)
	}
	return all
}()

// calls reports whether v makes a call, which asks for permits.
func (v verb) calls() bool { return v <= toGo }

// queues reports whether v makes a call that may wait.
func (v verb) queues() bool { return v.calls() && v != toTry }

// runs reports whether v makes a call that runs a function.
func (v verb) runs() bool {
	return v == toExecute || v == toRun || v == toDo || v == toExecuteAsync || v == toGo
}

// async reports whether v makes a call that does not wait for its own outcome.
func (v verb) async() bool { return v == toExecuteAsync || v == toGo || v == toAcquireAsync }

// meets reports whether the model knows what may come of v and w at one
// instant. Of two calls that queue, nobody sees which came first; and a setter
// that meets a call is two steps, of which the call may see one.
func (v verb) meets(w verb) bool {
	sets := func(v verb) bool { return v >= toSetMaxConcurrent && v <= toUnsubscribe }
	switch {
	case sets(v) || sets(w) || w == toPass:
		return false
	case w.queues():
		return !v.queues() && v != toPass
	}
	return true
}

// refuses reports whether v may be why an asynchronous call is refused.
func (v verb) refuses() bool {
	return v.async() || v == toPass || v == toEndContext || v == toCancel || v == toWait || v == toClose
}

// ending is how the function of a call, or the work for a permit, ends.
type ending uint8

const (
	succeeds      ending = iota // with no error
	fails                       // with an error of its own
	failsCanceled               // with one that wraps context.Canceled
	failsDeadline               // with one that wraps context.DeadlineExceeded
	failsCause                  // with one that wraps the cause with which its context ends
	panics
	exits // by runtime.Goexit
)

// listener is how a listener misbehaves, if its how says so: when told of one
// kind of event, after it has noted it.
type listener struct {
	kind events.Kind
	how  way
	only bool // it is told of no other kind
}

// way is a way to leave a function.
type way uint8

const (
	returned way = iota
	panicked
	exited
)

// tick is what waits and pauses are multiples of. Deadlines of contexts lie
// half-way between.
const tick = time.Millisecond

// numbers is how many values an action's numbers take.
const numbers = 16

// patiences are the maximum waits that callAction.wait chooses from. A usual
// one is the bulkhead's.
var patiences = [numbers]time.Duration{
	usual, usual, usual, usual, 0, tick, tick, 3 * tick, 3 * tick,
	bulkhead.Forever, bulkhead.Forever, bulkhead.Forever, bulkhead.Forever, usual, 0, -1,
}

const usual = math.MinInt64

// weigh is what choice n means as a weight.
func weigh(n int, limit int64) int64 {
	switch n {
	case 9, 10:
		return 2
	case 11:
		return 3
	case 12:
		return limit
	case 13:
		return limit + min(1, math.MaxInt64-limit)
	case 14:
		return math.MaxInt64
	case 15:
		return 0
	}
	return 1
}

// simpler yields scripts that are simpler than s: those without one of its
// actions, or without two, and those with a simpler action or setting.
func (s callScript) simpler() iter.Seq[callScript] {
	with := func(change func(*callScript)) callScript {
		t := s
		t.actions = slices.Clone(s.actions)
		change(&t)
		return t
	}
	without := func(i int) callScript {
		return with(func(t *callScript) { t.actions = slices.Delete(t.actions, i, i+1) })
	}
	return func(yield func(callScript) bool) {
		for i := range s.actions {
			if !yield(without(i)) {
				return
			}
		}
		for i := range s.actions {
			for j := range i {
				t := without(i)
				if t.actions = slices.Delete(t.actions, j, j+1); !yield(t) {
					return
				}
			}
		}
		for _, change := range []func(*callScript){
			func(t *callScript) { t.limit = 1 },
			func(t *callScript) { t.maxWait = 0 },
			func(t *callScript) { t.maxQueue = 0 },
			func(t *callScript) { t.clock = false },
			func(t *callScript) { t.listener = nil },
		} {
			if t := with(change); !reflect.DeepEqual(s, t) && !yield(t) {
				return
			}
		}
		for i := range s.actions {
			for _, change := range []func(*callAction){
				func(a *callAction) { a.verb = toExecute },
				func(a *callAction) { a.joined = false },
				func(a *callAction) { a.n = 0 },
				func(a *callAction) { a.weight = 0 },
				func(a *callAction) { a.wait = 0 },
				func(a *callAction) { a.context = 0 },
				func(a *callAction) { a.ending = succeeds },
				func(a *callAction) { a.quick = false },
				func(a *callAction) { a.listener = listener{} },
			} {
				t := with(func(t *callScript) { change(&t.actions[i]) })
				if t.actions[i] != s.actions[i] && !yield(t) {
					return
				}
			}
		}
	}
}

var callScripts = rapid.Custom(func(t *rapid.T) callScript {
	words := rapid.SliceOfN(rapid.Uint64(), 10, 30).Draw(t, "actions")
	rng := rngOf(words[0])
	s := callScript{
		limit:    1 + rng.Int64N(3),
		maxWait:  [...]time.Duration{0, 2 * tick, bulkhead.Forever}[rng.IntN(3)],
		maxQueue: rng.IntN(3),
		clock:    rng.IntN(2) == 0,
	}
	if rng.IntN(3) > 0 {
		s.listener = new(listener)
		if rng.IntN(8) == 0 {
			*s.listener = listenerOf(rng)
		}
	}
	for _, word := range words[1:] {
		s.actions = append(s.actions, actionOf(rngOf(word)))
	}
	return s
})

// rngOf makes many numbers of one that rapid has drawn. Those that rapid draws
// are small for the most part, and what they choose would be the same.
func rngOf(word uint64) *rand.Rand { return rand.New(rand.NewPCG(word, 0)) }

func actionOf(rng *rand.Rand) callAction {
	return callAction{
		verb:     verbs[rng.IntN(len(verbs))],
		n:        rng.IntN(numbers),
		weight:   rng.IntN(numbers),
		wait:     rng.IntN(numbers),
		context:  rng.IntN(numbers),
		ending:   ending(rng.IntN(int(exits) + 1)),
		quick:    rng.IntN(4) == 0,
		listener: listenerOf(rng),
		joined:   rng.IntN(2) == 0,
	}
}

func listenerOf(rng *rand.Rand) listener {
	return listener{
		kind: events.KindPermitted + events.Kind(rng.IntN(int(events.KindLimitChanged))),
		how:  way(rng.IntN(int(exited) + 1)),
		only: rng.IntN(4) == 0,
	}
}
