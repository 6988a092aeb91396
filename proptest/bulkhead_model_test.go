package proptest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	events "github.com/turnstile-go/turnstile/event"
)

// callModel is what a bulkhead is allowed to do, as plain sequential code: its
// specification. What a semaphore may do is specified in model.go; here its
// queue is a simple one.
//
// A move changes the model at once. What then happens by itself, such as the
// start of a call that was granted its permits or the end of a wait, happens in
// steps.
type callModel struct {
	now time.Duration // since the start of the script

	limit, inUse int64
	maxWait      time.Duration
	maxQueue     int
	closed       bool
	clock        bool // whether events are stamped by a clock of our own

	calls      []modelCall
	queue      []int // the calls that wait
	attempts   []modelAttempt
	contexts   []modelContext
	listeners  []listener
	subscribed []int // who listens; replaced, and never changed

	told  []telling // since the last rest, and in order for each call
	moved int       // how often inUse changed since
}

// modelCall is a call, from its start to its end.
type modelCall struct {
	verb    verb
	weight  int64
	asked   time.Duration // the wait that its handle asks for, or usual
	context int
	ending  ending // of its function
	quick   bool   // which ends at once
	sent    bool   // or has been told to end
	attempt int    // that makes it

	phase     callPhase
	since     time.Duration // when it was made
	wait      time.Duration // at most
	waited    time.Duration // until granted
	granted   time.Duration // when it was, as listeners are told
	listeners []int         // who hear of it
	ran       bool          // its function has been called
	misused   bool          // it is no call: nobody hears of it
	refusal   refusal
	result    result // of the Future or PendingPermit
}

// callPhase is where a call stands.
//
//	unmade ──▶ inQueue ──▶ admitted ──▶ running ──▶ settling ──▶ over
//	   │          │           │  ├─────▶ held ─────────────────▶ over
//	   │          │           │  ╰─────▶ untold ──▶ held
//	   ╰──────────┴──▶ denied ─────────────────▶ settling ──▶ over
type callPhase uint8

const (
	unmade   callPhase = iota
	inQueue            // waits for its permits
	denied             // does not get its permits, and nothing has come of that yet
	admitted           // has its permits, and nothing has come of that yet
	running            // its function runs
	settling           // over, and whoever asks for its result does not hear that yet
	untold             // has its permits, for a PendingPermit that nobody has asked
	held               // the script has its Permit
	over
)

// modelAttempt is one call of a method that may run listeners, or take time.
type modelAttempt struct {
	verb    verb
	call    int
	context int
	begun   bool
	over    bool
	result  result
}

// modelContext is a context. Those of calls are not those of methods that wait
// for a call, so that the end of one is one thing that happens.
type modelContext struct {
	kind     contextKind
	expiry   time.Duration
	deadline time.Duration // never if it has none
	err      error         // once it is done
}

// result is how a function was left: with a value, which is 1 for true and for a
// permit, and an error, or with a panic.
type result struct {
	how   way
	value int
	err   error
	panic any
}

// telling is one event told to one listener.
type telling struct {
	listener int
	call     int           // none if the event's context does not say
	at       time.Duration // the event's time
	events.Record
}

// none is no call, context or attempt.
const none = -1

// name is that of every bulkhead.
const name = "db"

// Errors, and values of panics, that the script makes.
type (
	failure       struct{ call int }
	cause         struct{ context int }
	wrapped       struct{ error }
	functionPanic struct{ call int }
	listenerPanic struct{ listener int }
	reraised      struct{ value any } // by a Future or PendingPermit
)

func (e failure) Error() string { return fmt.Sprintf("call %d fails", e.call+1) }
func (e cause) Error() string   { return fmt.Sprintf("cause %d", e.context+1) }
func (e wrapped) Unwrap() error { return e.error }

// Errors that have to be like these, not equal to them.
type (
	misuse        struct{}
	canceledError struct {
		err, cause error
		waited     time.Duration
	}
)

func (misuse) Error() string { return "an error about arguments" }

func (misuse) like(err error) bool {
	_, rejected := errors.AsType[bulkhead.RejectedError](err)
	_, canceled := errors.AsType[*bulkhead.CanceledError](err)
	return err != nil && !rejected && !canceled
}

func (e canceledError) Error() string {
	return fmt.Sprintf("a CanceledError of %v (%v), waited %v", e.err, e.cause, e.waited)
}

func (e canceledError) like(err error) bool {
	got, ok := err.(*bulkhead.CanceledError)
	return ok && got.Name == name && got.Err == e.err && got.Waited == e.waited &&
		errors.Is(got, e.err) && (e.cause == nil || errors.Is(got, e.cause)) && !errors.Is(got, bulkhead.ErrFull)
}

// sentinels are what errors of rejected calls match, by reason.
var sentinels = [...]error{
	events.Full: bulkhead.ErrFull, events.TimedOut: bulkhead.ErrFull, events.QueueFull: bulkhead.ErrFull,
	events.TooHeavy: bulkhead.ErrTooHeavy, events.Closed: bulkhead.ErrClosed,
}

// is reports whether r, which a bulkhead gave, is what the model wants.
func (r result) is(want result) bool {
	switch w := want.err.(type) {
	case interface{ like(error) bool }:
		want.err = r.err
		return r == want && w.like(r.err)
	case bulkhead.RejectedError:
		for _, s := range sentinels[1:] {
			if errors.Is(r.err, s) != (s == sentinels[w.Reason]) {
				return false
			}
		}
	}
	return r == want
}

// or is other, unless r is how a listener did not return.
func (r result) or(other result) result {
	if r.how != returned {
		return r
	}
	return other
}

// reported is r as somebody hears of it who does not suffer it.
func (r result) reported() result {
	switch r.how {
	case panicked:
		return result{how: panicked, panic: reraised{r.panic}}
	case exited:
		return result{err: bulkhead.ErrGoexit}
	}
	return r
}

// clone returns a copy that can take another course.
func (m *callModel) clone() *callModel {
	c := *m
	c.calls = slices.Clone(m.calls)
	c.queue = slices.Clone(m.queue)
	c.attempts = slices.Clone(m.attempts)
	c.contexts = slices.Clone(m.contexts)
	c.told = slices.Clone(m.told)
	return &c
}

// courses yields what m may become when the moves are made at one instant, and
// all that follows has happened. A single move leaves no choice. Of two, either
// may come first, and then the other at any moment.
func (m *callModel) courses(moves []move) iter.Seq[*callModel] {
	return func(yield func(*callModel) bool) {
		if len(moves) == 1 {
			m.play(moves[0])
			m.settle()
			yield(m)
			return
		}
		a, b := moves[0], moves[1]
		if !m.either(a, b, yield) {
			return
		}
		// Time has passed when the other comes, and nobody means a call before
		// it is made.
		if a.verb != toPass && (!a.verb.calls() || a.call != b.call) {
			m.either(b, a, yield)
		}
	}
}

// either yields the courses in which a comes before b.
func (m *callModel) either(a, b move, yield func(*callModel) bool) bool {
	for steps := 0; ; steps++ {
		c := m.clone()
		c.play(a)
		settled := false
		for i := 0; i < steps && !settled; i++ {
			settled = !c.step()
		}
		if settled {
			return true
		}
		c.play(b)
		c.settle()
		if !yield(c) {
			return false
		}
	}
}

// play makes a move.
func (m *callModel) play(mv move) {
	if mv.attempt != none {
		m.attempts[mv.attempt].begun = true
	}
	switch mv.verb {
	case toFinish:
		m.over(mv.call, m.finish(mv.call, mv.ending))
	case toRelease, toComplete:
		m.conclude(mv.attempt, m.endPermit(mv))
	case toEndContext:
		m.contexts[mv.context].err = context.Canceled
		m.endAttempts()
	case toPass:
		m.pass(mv.wait)
	case toCancel:
		var r result
		if m.withdraw(mv.call, context.Canceled, nil) {
			r.value = 1
		}
		m.conclude(mv.attempt, r)
	case toPermit:
		m.conclude(mv.attempt, m.permit(mv.call))
	case toSetMaxConcurrent:
		m.conclude(mv.attempt, m.setMaxConcurrent(mv.n))
	case toSetMaxWait:
		m.conclude(mv.attempt, m.setMaxWait(mv.wait))
	case toSubscribe:
		m.subscribed = append(slices.Clone(m.subscribed), mv.listener)
	case toUnsubscribe:
		m.subscribed = slices.DeleteFunc(slices.Clone(m.subscribed), func(l int) bool { return l == mv.listener })
	case toDrain:
		if m.endDrains(); !m.attempts[mv.attempt].over {
			m.ends(mv.attempt)
		}
	case toClose:
		m.closed = true
		for len(m.queue) > 0 {
			m.refuse(m.queue[0], refusal{reason: events.Closed})
		}
	case toWait, toGet:
		m.ends(mv.attempt)
	default:
		m.arrive(mv.call)
		if mv.verb.async() {
			m.conclude(mv.attempt, result{})
		}
	}
}

// arrive is the start of a call.
func (m *callModel) arrive(i int) {
	c := &m.calls[i]
	c.since = m.now
	c.misused = c.weight < 1 || c.asked != usual && c.asked < 0
	switch {
	case c.verb == toTry:
		c.wait = 0
	case c.asked == usual:
		c.wait = m.maxWait
	default:
		c.wait = c.asked
	}
	m.hear(c)
	switch end := m.contexts[c.context].err; {
	case c.misused:
		m.over(i, result{err: misuse{}})
	case end != nil:
		m.refuse(i, m.canceled(c))
	case m.closed:
		m.refuse(i, refusal{reason: events.Closed})
	case c.weight > m.limit:
		m.refuse(i, refusal{reason: events.TooHeavy})
	case len(m.queue) == 0 && c.weight <= m.limit-m.inUse:
		m.admit(c)
	case c.wait <= 0:
		m.refuse(i, refusal{reason: events.Full})
	case m.maxQueue > 0 && len(m.queue) >= m.maxQueue:
		m.refuse(i, refusal{reason: events.QueueFull})
	default:
		c.phase = inQueue
		m.queue = append(m.queue, i)
	}
	// Who would wait is told by the queue, and may first be canceled.
	if c.phase == denied && c.refusal.reason != events.QueueFull {
		m.turnAway(i)
	}
}

// hear settles who hears of c: those who listen now, when the call is made, or
// when the turn of an asynchronous one comes.
func (m *callModel) hear(c *modelCall) { c.listeners = m.subscribed }

// admit gives c its permits.
func (m *callModel) admit(c *modelCall) {
	m.inUse += c.weight
	m.moved++
	c.waited = m.now - c.since
	c.phase = admitted
}

// grant serves the queue from its head for as long as the head fits, and no
// further: no barging.
func (m *callModel) grant() {
	for len(m.queue) > 0 {
		i := m.queue[0]
		c := &m.calls[i]
		switch err := m.contexts[c.context].err; {
		case err != nil:
			m.refuse(i, m.canceled(c))
		case c.weight <= m.limit-m.inUse:
			m.queue = slices.Delete(m.queue, 0, 1)
			m.admit(c)
		default:
			return
		}
	}
}

// giveBack returns the permits of c. They go to those who wait.
func (m *callModel) giveBack(c *modelCall) {
	m.inUse -= c.weight
	m.moved++
	m.grant()
	m.endDrains()
}

// endDrains lets drains return if nothing is in flight.
func (m *callModel) endDrains() {
	if m.inUse > 0 {
		return
	}
	for i, a := range m.attempts {
		if a.verb == toDrain && a.begun && !a.over {
			m.conclude(i, result{})
		}
	}
}

// refusal is why a call did not get its permits: a reason of the bulkhead's, or
// an error of the caller's and its cause.
type refusal struct {
	reason     events.Reason
	err, cause error
}

// canceled is the refusal of a call whose context is done.
func (m *callModel) canceled(c *modelCall) refusal {
	return refusal{err: m.contexts[c.context].err, cause: cause{c.context}}
}

// refuse decides that call i does not get its permits. It leaves the queue, if it
// was there.
func (m *callModel) refuse(i int, why refusal) {
	c := &m.calls[i]
	c.waited = m.now - c.since
	c.phase, c.refusal = denied, why
	m.queue = slices.DeleteFunc(m.queue, func(k int) bool { return k == i })
}

// turnAway tells that call i was refused, and ends it.
func (m *callModel) turnAway(i int) {
	c := &m.calls[i]
	if c.verb.async() {
		m.hear(c)
	}
	r := events.Record{Weight: c.weight, Waited: c.waited}
	var err error
	if why := c.refusal; why.reason == 0 {
		r.Kind, r.Err = events.KindCanceled, why.err
		err = canceledError{why.err, why.cause, c.waited}
	} else {
		r.Kind, r.Reason, r.MaxConcurrent, r.MaxWait = events.KindRejected, why.reason, m.limit, c.wait
		err = bulkhead.RejectedError{
			Name: name, Reason: why.reason, MaxConcurrent: m.limit, MaxWait: c.wait, Waited: c.waited, Weight: c.weight,
		}
	}
	m.over(i, m.tell(i, c.listeners, r).or(result{err: err}))
}

// withdraw cancels the asynchronous call i if nothing has come of it yet, and
// reports whether it did.
func (m *callModel) withdraw(i int, err, cause error) bool {
	c := &m.calls[i]
	switch c.phase {
	case admitted:
		m.giveBack(c)
	case inQueue, denied:
	default:
		return false
	}
	m.refuse(i, refusal{err: err, cause: cause})
	m.turnAway(i)
	m.grant()
	return true
}

// begin is the start of call i, once it has its permits.
func (m *callModel) begin(i int) {
	c := &m.calls[i]
	err := m.contexts[c.context].err
	switch {
	case c.verb != toAcquireAsync && err != nil:
		m.giveBack(c)
		m.refuse(i, m.canceled(c))
		m.turnAway(i)
		return
	case c.verb.async():
		m.hear(c)
	}
	c.granted = m.now
	if c.verb == toAcquireAsync {
		c.phase = untold
		return
	}
	left := m.tellPermitted(i)
	switch {
	case left.how != returned:
		m.over(i, left)
	case c.verb.runs():
		c.phase, c.ran = running, true
		if c.quick {
			m.over(i, m.finish(i, c.ending))
		}
	default:
		c.phase = held
		m.conclude(c.attempt, result{value: 1})
	}
}

// tellPermitted tells that call i has its permits. If a listener does not
// return from that, they go back.
func (m *callModel) tellPermitted(i int) result {
	c := &m.calls[i]
	left := m.tell(i, c.listeners, events.Record{Kind: events.KindPermitted, Weight: c.weight, Waited: c.waited})
	if left.how != returned {
		m.giveBack(c)
		m.tellReleased(i, nil)
	}
	return left
}

func (m *callModel) tellReleased(i int, err error) result {
	c := &m.calls[i]
	return m.tell(i, c.listeners, events.Record{
		Kind: events.KindReleased, Weight: c.weight, Elapsed: m.now - c.granted, Err: err,
	})
}

func (m *callModel) tellFinished(i int, outcome events.Outcome, err error) result {
	c := &m.calls[i]
	return m.tell(i, c.listeners, events.Record{
		Kind: events.KindFinished, Weight: c.weight, Elapsed: m.now - c.granted, Outcome: outcome, Err: err,
	})
}

// finish ends the function of call i, or the work for its permit, and returns
// how its caller is left. Release once: however it ends, its permits are back,
// once, and not before.
func (m *callModel) finish(i int, e ending) result {
	c := &m.calls[i]
	m.giveBack(c)
	switch r := e.of(i, c.context); {
	case r.how != returned:
		m.tellFinished(i, events.Panicked, nil)
		return r // the function's own comes before any listener's
	case r.err == nil:
		return m.tellFinished(i, events.OK, nil).or(r)
	case m.endedBy(c.context, r.err):
		return m.tellReleased(i, r.err).or(r)
	default:
		return m.tellFinished(i, events.Failed, r.err).or(r)
	}
}

// of is how the function of a call ends.
func (e ending) of(call, ctx int) result {
	switch e {
	case panics:
		return result{how: panicked, panic: functionPanic{call}}
	case exits:
		return result{how: exited}
	}
	return result{value: call + 1, err: e.err(call, ctx)}
}

// err is the error with which the function of a call ends.
func (e ending) err(call, ctx int) error {
	switch e {
	case fails:
		return failure{call}
	case failsCanceled:
		return wrapped{context.Canceled}
	case failsDeadline:
		return wrapped{context.DeadlineExceeded}
	case failsCause:
		return wrapped{cause{ctx}}
	}
	return nil
}

// endedBy reports whether err is what the end of a context made of a call.
func (m *callModel) endedBy(ctx int, err error) bool {
	end := m.contexts[ctx].err
	return end != nil && (errors.Is(err, end) || errors.Is(err, cause{ctx}))
}

// endPermit is Release or Complete of a Permit, of which the first counts.
func (m *callModel) endPermit(mv move) (r result) {
	c := &m.calls[mv.call]
	switch {
	case c.phase != held:
	case mv.verb == toComplete:
		c.phase = over
		r = m.finish(mv.call, mv.ending)
		r.value, r.err = 0, nil // they return nothing
	default:
		c.phase = over
		m.giveBack(c)
		r = m.tellReleased(mv.call, nil)
	}
	return r
}

// over ends call i, which did not get its permits or has a function, with r for
// whoever made it.
func (m *callModel) over(i int, r result) {
	c := &m.calls[i]
	c.phase = over
	switch {
	case c.verb.async():
		c.phase, c.result = settling, r.reported()
		return
	case c.verb == toTry:
		r.err = nil
	case c.verb == toRun:
		r.value = 0
	}
	m.conclude(c.attempt, r)
}

// conclude ends attempt i.
func (m *callModel) conclude(i int, r result) {
	m.attempts[i].over, m.attempts[i].result = true, r
}

// decided reports whether there is an answer for whoever waits for the
// asynchronous call i.
func (m *callModel) decided(i int) bool { return m.calls[i].phase >= untold }

// permit asks for the permit, or the result, of the asynchronous call i. Who is
// first to get the permit has Permitted told.
func (m *callModel) permit(i int) result {
	c := &m.calls[i]
	switch {
	case !m.decided(i):
		return result{err: bulkhead.ErrPending}
	case c.phase != untold:
		return c.result
	}
	left := m.tellPermitted(i)
	switch left.how {
	case returned:
		c.phase, c.result = held, result{value: 1}
		return c.result
	case exited: // with its caller
		c.phase, c.result = over, left.reported()
		return left
	}
	c.phase, c.result = over, left.reported()
	return c.result
}

func (m *callModel) setMaxConcurrent(n int64) result {
	switch {
	case n < 1:
		return result{err: misuse{}}
	case n == m.limit:
		return result{}
	}
	from := m.limit
	m.limit = n
	for _, i := range slices.Clone(m.queue) {
		if m.calls[i].weight > n {
			m.refuse(i, refusal{reason: events.TooHeavy})
		}
	}
	m.grant()
	return m.tell(none, m.subscribed, events.Record{Kind: events.KindLimitChanged, From: from, To: n})
}

func (m *callModel) setMaxWait(d time.Duration) result {
	if d < 0 {
		return result{err: misuse{}}
	}
	m.maxWait = d
	return result{}
}

// tell tells an event to those who listen, to each even if one before it does
// not return, and returns how the first such leaves its caller.
func (m *callModel) tell(call int, to []int, r events.Record) (left result) {
	at := m.now
	if r.Kind == events.KindPermitted && !m.clock {
		at = m.calls[call].granted // which is earlier, for a PendingPermit
	}
	if call != none && m.calls[call].verb == toTry {
		call = none // it has no context that says
	}
	r.Name = name
	switch r.Kind {
	case events.KindPermitted, events.KindFinished, events.KindReleased:
		r.Active = m.inUse
	}
	for _, l := range to {
		b := m.listeners[l]
		if b.only && b.kind != r.Kind {
			continue
		}
		m.told = append(m.told, telling{l, call, at, r})
		if b.kind == r.Kind && left.how == returned {
			left = b.leave(l)
		}
	}
	return left
}

// leave is how listener l leaves its caller when it misbehaves.
func (b listener) leave(l int) result {
	if b.how == panicked {
		return result{how: panicked, panic: listenerPanic{l}}
	}
	return result{how: b.how}
}

// settle lets all happen that can at this instant.
func (m *callModel) settle() {
	for m.step() {
	}
}

// step lets the next thing happen, and reports whether there was one.
func (m *callModel) step() bool {
	for i := range m.calls {
		switch c := &m.calls[i]; c.phase {
		case admitted:
			m.begin(i)
			return true
		case denied:
			m.turnAway(i)
			return true
		case settling:
			c.phase = over
			return true
		}
	}
	for _, i := range m.queue {
		if c := &m.calls[i]; m.contexts[c.context].err != nil {
			m.refuse(i, m.canceled(c))
			m.grant() // whoever fits now fits without a Release
			return true
		}
	}
	return m.endAttempts() || m.expire()
}

// expire lets the next deadline come that is due, and reports whether there was
// one.
func (m *callModel) expire() bool {
	for i := range m.contexts {
		if c := &m.contexts[i]; c.err == nil && c.deadline <= m.now {
			c.err = context.DeadlineExceeded
			return true
		}
	}
	for _, i := range m.queue {
		if m.calls[i].due() <= m.now {
			m.refuse(i, refusal{reason: events.TimedOut})
			m.grant()
			return true
		}
	}
	return false
}

// endAttempts ends the attempts that wait for something that is there, and
// reports whether there were any.
func (m *callModel) endAttempts() (ended bool) {
	for i := range m.attempts {
		if a := &m.attempts[i]; a.begun && !a.over && m.ends(i) {
			ended = true
		}
	}
	return ended
}

// ends lets what attempt i waits for end it, if there is such a thing.
func (m *callModel) ends(i int) bool {
	a := &m.attempts[i]
	err := m.contexts[a.context].err
	switch {
	case a.verb.calls():
		return false // with the call
	case a.verb != toDrain && m.decided(a.call):
		m.conclude(i, m.permit(a.call))
	case err == nil:
		return false
	case a.verb == toWait:
		if !m.withdraw(a.call, err, cause{a.context}) {
			return false
		}
		m.conclude(i, result{err: canceledError{err, cause{a.context}, m.calls[a.call].waited}})
	default:
		m.conclude(i, result{err: err})
	}
	return true
}

// due is when the call's maximum wait ends.
func (c *modelCall) due() time.Duration {
	if c.wait == bulkhead.Forever {
		return never
	}
	return c.since + c.wait
}

// deadlines yields those that lie ahead.
func (m *callModel) deadlines(yield func(time.Duration) bool) {
	for _, c := range m.contexts {
		if c.err == nil && c.deadline != never && !yield(c.deadline) {
			return
		}
	}
	for _, i := range m.queue {
		if due := m.calls[i].due(); due != never && !yield(due) {
			return
		}
	}
}

// free returns the first time from t on that is no deadline: where one thing
// happens at an instant, it is known what.
func (m *callModel) free(t time.Duration) time.Duration {
	for slices.Contains(slices.Collect(m.deadlines), t) {
		t++
	}
	return t
}

// next returns the first deadline, or never.
func (m *callModel) next() time.Duration {
	first := never
	for t := range m.deadlines {
		first = min(first, t)
	}
	return first
}

// pass lets d go by, with all that falls due on the way. What falls due in the
// last instant is left to happen.
func (m *callModel) pass(d time.Duration) {
	for end := m.now + d; ; {
		m.now = min(end, m.next())
		if m.now == end {
			return
		}
		m.settle()
	}
}
