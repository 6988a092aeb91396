package linearize

import (
	"context"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/anishathalye/porcupine"

	"github.com/turnstile-go/turnstile/semaphore"
)

// clients is the most goroutines in one history. Each has at most one request
// that is not answered, so that a state has a fixed size and compares with ==.
const clients = 5

// An op is a call, or the part of one that takes effect at one instant. What may
// wait has two such instants, and the model wants them as two operations: a
// request takes its place (ask), and its outcome is there (answer); Drain begins
// to watch (drain), and ends (drained).
type op string

const (
	try      op = "TryAcquire"
	release  op = "Release"
	setLimit op = "SetLimit"
	stats    op = "Stats"
	rest     op = "Stats at rest" // when everybody has had all the time they need
	shut     op = "Close"
	ask      op = "ask"
	pass     op = "ask, and be served before those who wait" // a way for ask to go
	pending  op = "Err"                                      // returned ErrPending
	withdraw op = "Cancel"                                   // returned true
	answer   op = "answer"
	drain    op = "drain"
	drained  op = "drained" // reports whether it returned nil
)

// call is the input of an operation, reply its output.
type call struct {
	op       op
	client   int
	n        int64 // the weight, or the limit
	waits    bool  // ask: it is willing to wait
	async    bool  // ask: nobody is parked meanwhile
	from, to int64 // when it was under way
}

type reply struct {
	ok    bool
	stats semaphore.Stats
	err   error
}

// outcome is what a state knows of a client's request.
type outcome uint8

const (
	none outcome = iota // there is no request
	waiting
	granted
	timedOut
	queueFull
	evicted
	closed
)

// errorOf has the error that reports each outcome which others decide.
var errorOf = map[outcome]error{
	granted:   nil,
	timedOut:  semaphore.ErrTimeout,
	queueFull: semaphore.ErrQueueFull,
	evicted:   semaphore.ErrExceedsLimit,
	closed:    semaphore.ErrClosed,
}

// waiter is a request that waits.
type waiter struct {
	weight int64
	async  bool
	old    int64 // from here on it has certainly waited for longer than young
}

// state is the sequential semaphore. It is a value: a step works on its copy.
//
// With unfair, the state after a call is not determined. Of the newcomers that
// fit, and of the waiters in front that have been woken, any may be the first to
// take the permits; see after. But nobody else is granted anything, nobody waits
// for permits that only a hand-off would bring, and nobody passes the old.
type state struct {
	limit, inUse int64
	maxWaiters   int
	unfair       bool
	closed       bool
	queue        [clients]int // clients in the order they began to wait
	queued       int
	waiter       [clients]waiter
	outcome      [clients]outcome
	drain        [clients]outcome // of Drain: none, waiting, or granted
}

// Times for grant: one at which everybody is old, and one at which nobody is.
const (
	handOff = math.MaxInt64
	wake    = math.MinInt64
)

// after returns the states that s may be in once c has taken effect and
// returned r: none, if it must not return that.
func (s state) after(c call, r reply) (all []any) {
	ways := []call{c}
	if c.op == ask {
		c.op = pass
		ways = append(ways, c)
	}
	for _, c := range ways {
		s := s
		if !s.step(c, r) {
			continue
		}
		all = append(all, s)
		for s.takeTurn() {
			all = append(all, s)
		}
	}
	return all
}

// step takes effect, and reports whether r is what the call had to return.
func (s *state) step(c call, r reply) bool {
	ok := s.do(c, r)
	if s.inUse == 0 {
		for k, o := range s.drain {
			if o == waiting {
				s.drain[k] = granted
			}
		}
	}
	return ok
}

func (s *state) do(c call, r reply) bool {
	switch c.op {
	case try:
		s.grant(c.from)
		if r.ok {
			return s.admit(c) || s.pass(c)
		}
		return !s.admit(c)
	case release:
		s.giveBack(c.n, c.from)
		return true
	case setLimit:
		s.setLimit(c.n)
		return true
	case stats:
		return r.stats == s.stats()
	case rest:
		return r.stats == s.stats() && (s.queued == 0 || !s.fits(s.front().weight))
	case shut:
		s.closed = true
		for s.queued > 0 {
			s.leave(s.queue[0], closed)
		}
		return true
	case drain:
		s.drain[c.client] = waiting
		return true
	case drained:
		got := s.drain[c.client]
		s.drain[c.client] = none
		return got != none && r.ok == (got == granted)
	case ask:
		s.grant(c.from)
		s.ask(c)
		return true
	case pass:
		s.grant(c.from)
		s.outcome[c.client] = granted
		return s.pass(c)
	case pending:
		return s.outcome[c.client] == waiting
	case withdraw:
		if s.outcome[c.client] != waiting {
			return false
		}
		s.leave(c.client, none)
		s.grant(handOff)
		return true
	case answer:
		return s.answer(c, r.err)
	}
	panic("linearize: unknown op " + c.op)
}

func (s *state) fits(n int64) bool     { return s.inUse+n <= s.limit }
func (s *state) tooHeavy(n int64) bool { return 0 < s.limit && s.limit < n }
func (s *state) front() waiter         { return s.waiter[s.queue[0]] }

// admit takes permits for a newcomer that nobody could refuse them.
func (s *state) admit(c call) bool {
	if s.closed || s.queued > 0 || !s.fits(c.n) {
		return false
	}
	s.inUse += c.n
	return true
}

// pass takes permits past those who wait.
func (s *state) pass(c call) bool {
	if !s.unfair || s.queued == 0 || c.from > s.front().old || !s.fits(c.n) {
		return false
	}
	s.inUse += c.n
	return true
}

// ask decides a request, in the order of checks of every acquire, or queues it.
func (s *state) ask(c call) {
	o := waiting
	switch {
	case s.closed:
		o = closed
	case s.tooHeavy(c.n):
		o = evicted
	case s.admit(c):
		o = granted
	case !c.waits:
		o = timedOut
	case s.maxWaiters > 0 && s.queued == s.maxWaiters:
		o = queueFull
	default:
		s.queue[s.queued] = c.client
		s.queued++
		s.waiter[c.client] = waiter{c.n, c.async, c.to + int64(*young)}
	}
	s.outcome[c.client] = o
}

// answer collects a request's outcome. A wait that the request itself ends,
// by its deadline or its context, ends here.
func (s *state) answer(c call, err error) bool {
	got := s.outcome[c.client]
	defer func() { s.outcome[c.client] = none }()
	switch {
	case got == none:
		return false // it has not asked yet
	case got == waiting:
		// Unfair: nothing need be handed off. Others may leave in the same
		// moment, and whoever found that a context had ended only woke the next.
		s.leave(c.client, none)
		s.grant(wake)
		return err == context.Canceled || err == semaphore.ErrTimeout
	case err == context.Canceled:
		if got == granted { // it woke granted, found its context done and gives back
			s.giveBack(c.n, wake)
		}
		return true
	default:
		return err == errorOf[got]
	}
}

func (s *state) setLimit(limit int64) {
	if limit == s.limit {
		return
	}
	s.limit = limit
	for i := 0; i < s.queued; {
		if k := s.queue[i]; s.tooHeavy(s.waiter[k].weight) {
			s.leave(k, evicted)
		} else {
			i++
		}
	}
	s.grant(handOff)
}

func (s *state) stats() semaphore.Stats {
	return semaphore.Stats{
		Limit:     s.limit,
		InUse:     s.inUse,
		Available: max(0, s.limit-s.inUse),
		Waiting:   s.queued,
		Closed:    s.closed,
	}
}

func (s *state) giveBack(n, at int64) {
	if s.inUse < n {
		panic("linearize: the history releases more than it was granted")
	}
	s.inUse -= n
	s.grant(at)
}

// grant serves the waiters in front, as far as the permits suffice. With unfair
// it stops at the first that need not be old at that time: that one is woken.
func (s *state) grant(at int64) {
	for s.queued > 0 && s.fits(s.front().weight) {
		if w := s.front(); s.unfair && !w.async && at <= w.old {
			return
		}
		s.grantFront()
	}
}

// takeTurn has the waiter in front, which was woken, find its permits there.
func (s *state) takeTurn() bool {
	if s.queued == 0 || !s.fits(s.front().weight) {
		return false
	}
	s.grantFront()
	s.grant(wake)
	return true
}

func (s *state) grantFront() {
	s.inUse += s.front().weight
	s.leave(s.queue[0], granted)
}

// leave takes client k out of the queue, with the given outcome.
func (s *state) leave(k int, o outcome) {
	i := 0
	for s.queue[i] != k {
		i++
	}
	copy(s.queue[i:], s.queue[i+1:])
	s.queue[clients-1] = 0
	s.queued--
	s.waiter[k] = waiter{}
	s.outcome[k] = o
}

// model is the sequential semaphore as porcupine wants it.
func model(initial state) porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{initial} },
		Step: func(before, in, out any) []any { return before.(state).after(in.(call), out.(reply)) },
		Hash: func(s any) uint64 { return maphash.Comparable(seed, s.(state)) },
	}
	return m.ToModel()
}

func (c call) String() string {
	switch c.op {
	case stats, rest, shut, pending, withdraw, answer, drain, drained:
		return string(c.op) + "()"
	case ask:
		if !c.waits {
			return fmt.Sprintf("ask(%d, no wait)", c.n)
		}
	}
	return fmt.Sprintf("%s(%d)", c.op, c.n)
}

func (c call) describe(r reply) string {
	switch c.op {
	case try, drained:
		return fmt.Sprintf("%v = %t", c, r.ok)
	case stats, rest:
		return fmt.Sprintf("%v = %+v", c, r.stats)
	case answer:
		return fmt.Sprintf("%v = %v", c, r.err)
	}
	return c.String()
}
