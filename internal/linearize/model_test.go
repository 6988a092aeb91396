package linearize

import (
	"context"
	"fmt"
	"hash/maphash"

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
	shut     op = "Close"
	ask      op = "ask"
	pending  op = "Err" // returned ErrPending
	answer   op = "answer"
	drain    op = "drain"
	drained  op = "drained" // reports whether it returned nil
)

// call is the input of an operation, reply its output.
type call struct {
	op     op
	client int
	n      int64 // the weight, or the limit
	waits  bool  // ask: it is willing to wait
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

// state is the sequential semaphore. It is a value: a step works on its copy.
type state struct {
	limit, inUse int64
	maxWaiters   int
	closed       bool
	queue        [clients]int // clients in the order they began to wait
	queued       int
	weight       [clients]int64
	outcome      [clients]outcome
	drain        [clients]outcome // of Drain: none, waiting, or granted
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
		ok := !s.closed && s.queued == 0 && s.fits(c.n)
		if ok {
			s.inUse += c.n
		}
		return r.ok == ok
	case release:
		s.giveBack(c.n)
		return true
	case setLimit:
		s.limit = c.n
		for i := 0; i < s.queued; {
			if k := s.queue[i]; s.tooHeavy(s.weight[k]) {
				s.leave(k, evicted)
			} else {
				i++
			}
		}
		s.grant()
		return true
	case stats:
		return r.stats == semaphore.Stats{
			Limit:     s.limit,
			InUse:     s.inUse,
			Available: max(0, s.limit-s.inUse),
			Waiting:   s.queued,
			Closed:    s.closed,
		}
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
		s.ask(c)
		return true
	case pending:
		return s.outcome[c.client] == waiting
	case answer:
		return s.answer(c, r.err)
	}
	panic("linearize: unknown op " + c.op)
}

func (s *state) fits(n int64) bool     { return s.inUse+n <= s.limit }
func (s *state) tooHeavy(n int64) bool { return 0 < s.limit && s.limit < n }

// ask decides a request, in the order of checks of every acquire, or queues it.
func (s *state) ask(c call) {
	o := waiting
	switch {
	case s.closed:
		o = closed
	case s.tooHeavy(c.n):
		o = evicted
	case s.queued == 0 && s.fits(c.n):
		s.inUse += c.n
		o = granted
	case !c.waits:
		o = timedOut
	case s.maxWaiters > 0 && s.queued == s.maxWaiters:
		o = queueFull
	default:
		s.queue[s.queued] = c.client
		s.queued++
		s.weight[c.client] = c.n
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
	case err == context.Canceled:
		switch got {
		case waiting:
			s.leave(c.client, none)
			s.grant()
		case granted: // it woke granted, found its context done and gives back
			s.giveBack(c.n)
		}
		return true
	case got == waiting:
		s.leave(c.client, none)
		s.grant()
		return err == semaphore.ErrTimeout
	default:
		return err == errorOf[got]
	}
}

func (s *state) giveBack(n int64) {
	if s.inUse < n {
		panic("linearize: the history releases more than it was granted")
	}
	s.inUse -= n
	s.grant()
}

// grant serves the waiters in front, as far as the permits suffice.
func (s *state) grant() {
	for s.queued > 0 && s.fits(s.weight[s.queue[0]]) {
		k := s.queue[0]
		s.inUse += s.weight[k]
		s.leave(k, granted)
	}
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
	s.weight[k] = 0
	s.outcome[k] = o
}

// model is the sequential semaphore as porcupine wants it.
func model(initial state) porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(before, in, out any) (bool, any) {
			s := before.(state)
			ok := s.step(in.(call), out.(reply))
			return ok, s
		},
		Hash: func(s any) uint64 { return maphash.Comparable(seed, s.(state)) },
	}
}

func (c call) String() string {
	switch c.op {
	case stats, shut, pending, answer, drain, drained:
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
	case stats:
		return fmt.Sprintf("%v = %+v", c, r.stats)
	case answer:
		return fmt.Sprintf("%v = %v", c, r.err)
	}
	return c.String()
}
