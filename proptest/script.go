package proptest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// script is what is done to a semaphore of the given limit. All of it is drawn
// before anything is done, so the same numbers always mean the same script.
type script struct {
	limit   int64
	actions []action
}

// action is one step of a script. Its numbers are choices: what they choose
// from depends on what there is when the action is played, and there is always
// something, so that no action does nothing and removing one of them leaves a
// script that still makes sense.
type action struct {
	op      op
	n       int  // a weight, a limit, how much to release or which context to cancel
	context int  // the kind of context of a request: see contexts
	wait    int  // a duration: see waits
	joined  bool // follows at the same instant, before anything else has run
}

// GoString is short, because rapid shows it, and what is played is shown better.
func (s script) GoString() string {
	return fmt.Sprintf("limit %d, actions: %d, before it is shortened", s.limit, len(s.actions))
}

func (s script) clone() script { return script{s.limit, slices.Clone(s.actions)} }

// without returns s without its action i.
func (s script) without(i int) script {
	s = s.clone()
	s.actions = slices.Delete(s.actions, i, i+1)
	return s
}

// tries is how often s is played before it counts as one that does not fail:
// what happens at one instant need not happen in the same order again.
func (s script) tries() int {
	if slices.ContainsFunc(s.actions, func(a action) bool { return a.joined || a.op == clash }) {
		return 20
	}
	return 2
}

// simplifications make an action simpler, and report whether it was not so
// already.
var simplifications = [...]func(a *action) bool{
	func(a *action) bool { return reset(&a.joined, false) },
	func(a *action) bool { return reset(&a.context, 0) },
	func(a *action) bool { return reset(&a.wait, 0) },
	func(a *action) bool { return reset(&a.n, 1) },
}

func reset[T comparable](p *T, to T) bool {
	changed := *p != to
	*p = to
	return changed
}

type op uint8

const (
	acquire op = iota
	try
	release
	acquireWithin
	cancel
	setLimit
	pass // time passes
	acquireAsync
	acquireFunc
	withdraw // Cancel of a Pending
	awaitOp  // Wait of a Pending
	clash    // two or three of the above at one instant: see clashes
	drainOp
	overRelease
	negative
	closeOp
	statsOp
)

// clashes are the sequences that clash chooses from: what may end a wait, and
// what may grant it. Each action takes its numbers from the clash, and all after
// the first are joined, except that time passes only when all else has run.
var clashes = [...][]op{
	{cancel, release}, {release, cancel}, {cancel, release, try}, {pass, release},
	{acquireWithin, pass, release}, {acquireAsync, pass, release}, {withdraw, release, try}, {release, withdraw},
}

// unit is what deadlines and pauses are multiples of, so that they often meet.
// Two of them are the patience of an unfair queue.
const unit = patience / 2

// waits are the durations that action.wait chooses from.
var waits = [...]time.Duration{
	unit, 2 * unit, 3 * unit, 5 * unit, 0, math.MaxInt64, -1, math.MaxInt64 - 1,
}

// contexts are the kinds of context that action.context chooses from.
var contexts = [...]contextKind{own, own, shared, background, expiring, own, shared, done}

type contextKind uint8

const (
	own        contextKind = iota // of this request alone
	shared                        // one and the same for all requests of this kind
	background                    // never ends
	expiring                      // has a deadline
	done                          // has ended
)

// weight is what choice n means as a weight, or as a limit.
func weight(n int, limit int64) int64 {
	switch n {
	case 5:
		return max(limit-1, 0)
	case 6:
		return limit
	case 7:
		return math.MaxInt64
	}
	return int64(n)
}

// choices is one more than the highest number that n, context and wait take.
const choices = 8

// longest is how many actions may follow each other at one instant. With more,
// the orders in which they and their consequences may come are too many.
const longest = 3

// tooMany is how many worlds are too many for another action at the same instant.
const tooMany = 20

var (
	limits = rapid.SampledFrom([]int64{1, 2, 3, 4, 0, math.MaxInt64})
	choice = rapid.IntRange(0, choices-1)
	coin   = rapid.Bool()
)

// scripts generates scripts for semaphores that can do what a can.
func scripts(a abilities) *rapid.Generator[script] {
	ops := []op{acquire, acquire, acquire, try, release, release, clash, clash, release, try, cancel, cancel, pass}
	if a.timed != nil {
		ops = append(ops, acquireWithin, acquireWithin, acquireWithin)
	}
	if a.asynchronous != nil {
		ops = append(ops, acquireAsync, acquireAsync, acquireFunc, withdraw, awaitOp)
	}
	if a.resizable != nil {
		ops = append(ops, setLimit, setLimit)
	}
	ops = append(ops, overRelease, negative)
	if a.statable != nil {
		ops = append(ops, statsOp)
	}
	if a.drainable != nil {
		ops = append(ops, drainOp)
	}
	if a.closable != nil {
		ops = append(ops, closeOp)
	}
	kinds := rapid.SampledFrom(ops)
	one := rapid.Custom(func(t *rapid.T) action {
		return action{
			op:      kinds.Draw(t, "op"),
			n:       choice.Draw(t, "n"),
			context: choice.Draw(t, "context"),
			wait:    choice.Draw(t, "wait"),
			joined:  coin.Draw(t, "joined"),
		}
	})
	many := rapid.SliceOfN(one, 1, 30)
	return rapid.Custom(func(t *rapid.T) script {
		return script{limits.Draw(t, "limit"), slices.Concat(many.Draw(t, "actions"), many.Draw(t, "more"))}
	})
}
