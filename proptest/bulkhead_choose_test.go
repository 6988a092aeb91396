package proptest

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// choose makes a move of an action. If that finds nothing to choose, it is a call
// instead; unless it is to be joined to a move that has been chosen and not been
// made: then there is none.
func (p *callPlayer) choose(a callAction, joined bool) (mv move, ok bool) {
	m := p.model
	mv = move{verb: a.verb, attempt: none, call: none, context: none, ending: a.ending}
	found := !a.verb.calls()
	switch a.verb {
	case toFinish:
		mv.call, found = p.pickCall(a.n, func(_ int, c *modelCall) bool { return c.phase == running && !c.sent }, nil)
		if found {
			m.calls[mv.call].sent = true
		}
	case toRelease, toComplete:
		mv.ending = min(a.ending, failsCause)
		mv.call, found = p.pickCall(a.n,
			func(_ int, c *modelCall) bool { return c.phase == held },
			func(i int, _ *modelCall) bool { return p.calls[i].permit != nil })
	case toCancel:
		mv.call, found = p.pickCall(a.n,
			func(_ int, c *modelCall) bool { return c.verb.async() && c.phase < over },
			func(_ int, c *modelCall) bool { return c.verb.async() })
	case toPermit, toWait:
		open := func(i int, c *modelCall) bool {
			return c.verb == toAcquireAsync && (!p.awaited(i) || a.verb == toPermit && !joined)
		}
		mv.call, found = p.pickCall(a.n,
			func(i int, c *modelCall) bool { return open(i, c) && c.phase < held }, open)
	case toGet:
		get := func(_ int, c *modelCall) bool { return c.verb.async() && c.verb.runs() }
		mv.call, found = p.pickCall(a.n,
			func(i int, c *modelCall) bool { return get(i, c) && c.phase < over }, get)
	case toEndContext:
		mv.context, found = p.pickContext(a.n, joined)
	case toUnsubscribe:
		mv.listener, found = p.pickListener(a.n)
	case toSubscribe:
		mv.listener = p.newListener(a.listener)
	case toSetMaxConcurrent:
		mv.n = int64(1 + a.weight%4)
		switch a.weight {
		case 14:
			mv.n = math.MaxInt64
		case 15:
			mv.n = 0
		}
	case toSetMaxWait:
		mv.wait = patiences[a.wait]
		if mv.wait == usual {
			mv.wait = 2 * tick
		}
	case toPass:
		mv.wait = tick * time.Duration(1+a.wait)
		if next := m.next(); next != never && a.n%2 == 0 {
			mv.wait = next - m.now // to the very instant
		}
	}
	switch {
	case !found && joined && !a.verb.calls():
		return mv, false
	case !found:
		return p.chooseCall(a, joined), true
	case a.verb == toWait || a.verb == toGet || a.verb == toDrain:
		mv.context = p.chooseContext(a, joined, own)
	}
	switch a.verb {
	case toRelease, toComplete, toCancel, toPermit, toWait, toGet, toSetMaxConcurrent, toSetMaxWait, toDrain:
		p.newAttempt(&mv)
	}
	return mv, true
}

// chooseCall makes a move of an action that is, or becomes, a call.
func (p *callPlayer) chooseCall(a callAction, joined bool) move {
	m := p.model
	c := modelCall{verb: a.verb, weight: weigh(a.weight, m.limit), asked: patiences[a.wait], ending: a.ending, quick: a.quick}
	if !a.verb.calls() {
		c.verb = verb(a.n) % (toGo + 1)
	}
	if c.verb != toTry {
		c.context = p.chooseContext(a, joined, shared)
	}
	wait := c.asked
	if wait == usual {
		wait = m.maxWait
	}
	if wait > 0 && wait != bulkhead.Forever && m.free(m.now+wait) != m.now+wait {
		c.asked = m.free(m.now+wait) - m.now
	}
	return p.newCall(c)
}

// canJoin reports whether a move can be followed by v at one instant, and it can
// be seen which of the courses that the model knows they took.
func (p *callPlayer) canJoin(mv move, v verb) bool {
	switch {
	case mv.verb == toEndContext && p.users(mv.context) > 1, mv.verb == toPermit && p.awaited(mv.call):
		return false
	case p.script.listener == nil || p.script.listener.only:
		// Nobody hears why an asynchronous call was refused.
		return mv.verb.meets(v) && !(mv.verb.refuses() && v.refuses())
	}
	return mv.verb.meets(v)
}

// pickCall picks the n-th of the calls for which live is true or, after these,
// idle.
func (p *callPlayer) pickCall(n int, live, idle func(i int, c *modelCall) bool) (call int, found bool) {
	var first, then []int
	for i := range p.model.calls {
		switch c := &p.model.calls[i]; {
		case live(i, c):
			first = append(first, i)
		case idle != nil && idle(i, c):
			then = append(then, i)
		}
	}
	return pick(n, first, then)
}

// pickContext picks the n-th of the contexts that can be canceled; the first are
// those that somebody uses. The end of one that several calls use comes to each
// at another moment, so it is not joined to anything.
func (p *callPlayer) pickContext(n int, joined bool) (ctx int, found bool) {
	var live, idle []int
	for k, c := range p.model.contexts {
		switch users := p.users(k); {
		case c.err != nil || c.kind != own && c.kind != shared || joined && users > 1:
		case users > 0 || slices.ContainsFunc(p.model.attempts, func(a modelAttempt) bool { return a.context == k && !a.over }):
			live = append(live, k)
		default:
			idle = append(idle, k)
		}
	}
	return pick(n, live, idle)
}

// users is how many calls that are not over have context k.
func (p *callPlayer) users(k int) (n int) {
	for _, c := range p.model.calls {
		if c.context == k && c.phase != over {
			n++
		}
	}
	return n
}

// awaited reports whether a Wait for call i is under way. If a listener ends
// the goroutine that asks first for the permit, nobody knows which of two it is.
func (p *callPlayer) awaited(i int) bool {
	return slices.ContainsFunc(p.model.attempts, func(a modelAttempt) bool {
		return a.verb == toWait && a.call == i && !a.over
	})
}

// pickListener picks the n-th of the listeners that have a subscription; the
// first are those that listen.
func (p *callPlayer) pickListener(n int) (l int, found bool) {
	var live, idle []int
	for l, stop := range p.stops {
		switch {
		case stop == nil:
		case slices.Contains(p.model.subscribed, l):
			live = append(live, l)
		default:
			idle = append(idle, l)
		}
	}
	return pick(n, live, idle)
}

// newListener adds a listener, which nobody tells anything yet.
func (p *callPlayer) newListener(b listener) int {
	p.model.listeners = append(p.model.listeners, b)
	p.stops = append(p.stops, nil)
	p.totals = append(p.totals, total{})
	return len(p.stops) - 1
}

// newAttempt adds an attempt for mv to make.
func (p *callPlayer) newAttempt(mv *move) {
	mv.attempt = len(p.attempts)
	p.attempts = append(p.attempts, new(realAttempt))
	p.model.attempts = append(p.model.attempts, modelAttempt{verb: mv.verb, call: mv.call, context: mv.context})
}

// newCall adds a call, and returns the move that makes it.
func (p *callPlayer) newCall(c modelCall) move {
	i := len(p.calls)
	mv := move{verb: c.verb, call: i, context: c.context}
	p.newAttempt(&mv)
	c.attempt = mv.attempt
	p.model.calls = append(p.model.calls, c)
	p.calls = append(p.calls, &realCall{
		ctx:  context.WithValue(p.contexts[c.context], callKey{}, i),
		gate: make(chan ending, 1),
	})
	return mv
}

// chooseContext returns the context that an action asks for. Only calls share
// one.
func (p *callPlayer) chooseContext(a callAction, joined bool, most contextKind) int {
	kind := contexts[a.context%len(contexts)]
	switch {
	case kind == shared && (joined || most != shared), kind == expiring && joined:
		kind = own
	case kind == background:
		return 0
	case kind == shared:
		k := slices.IndexFunc(p.model.contexts, func(c modelContext) bool { return c.kind == shared && c.err == nil })
		if k >= 0 {
			return k
		}
	}
	return p.newContext(kind, tick/2+tick*time.Duration(a.wait))
}

// newContext adds a context. expiry is for an expiring one.
func (p *callPlayer) newContext(kind contextKind, expiry time.Duration) int {
	k := len(p.contexts)
	m := modelContext{kind: kind, deadline: never}
	r := &realContext{Context: context.Background()}
	switch kind {
	case background:
	case expiring:
		m.deadline = p.model.free(p.model.now + expiry)
		m.expiry = m.deadline - p.model.now
		ctx, stop := context.WithTimeoutCause(r, m.expiry, cause{k})
		r = &realContext{ctx, func(error) { stop() }}
	default:
		ctx, cancel := context.WithCancelCause(r)
		r = &realContext{ctx, cancel}
		if kind == done {
			cancel(cause{k})
			m.err = context.Canceled
		}
	}
	p.model.contexts = append(p.model.contexts, m)
	p.contexts = append(p.contexts, r)
	return k
}
