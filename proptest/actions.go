package proptest

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// do plays one action.
func (p *player) do(a action) *violation {
	n := weight(a.n, p.worlds.all[0].limit)
	switch a.op {
	case acquireWithin:
		if p.timed != nil {
			return p.acquire(acquireWithin, n, a)
		}
	case try:
		return p.try(n)
	case release:
		if p.held > 0 {
			return p.release(min(max(n, 1), p.held))
		}
	case cancel:
		if i, found := p.cancelable(a.n); found {
			return p.cancel(i)
		}
	case acquireAsync, acquireFunc:
		if p.asynchronous != nil {
			return p.acquireAsync(a.op, n, a)
		}
	case withdraw:
		if i, found := p.asynchron(a.n); found {
			return p.withdraw(i)
		}
	case awaitOp:
		if i, found := p.asynchron(a.n); found {
			return p.await(i, a)
		}
	case setLimit:
		return p.setLimit(n)
	case pass:
		// To the very instant at which something falls due, or just on.
		if wait := p.worlds.nextDeadline() - p.worlds.now(); wait <= choices*unit && a.n%2 == 0 {
			return p.pass(wait)
		}
		return p.pass(unit * time.Duration(1+a.wait))
	case drainOp:
		return p.drain(a)
	case overRelease:
		// At rest all that is in flight is known, and held.
		if p.joined == 1 && p.held < math.MaxInt64 {
			return p.overRelease(p.held + 1 + min(n, math.MaxInt64-1-p.held))
		}
	case negative:
		return p.negative(a)
	case closeOp:
		return p.close()
	case statsOp:
		return p.look()
	}
	return p.acquire(acquire, n, a)
}

// begin notes the step that is about to be made, and lets the model know that
// whatever can happen may have happened before.
func (p *player) begin(s step) {
	p.steps = append(p.steps, s)
	if p.joined > 1 {
		p.worlds.unsettle()
	}
}

// call calls f, which must return at once and not panic.
func (p *player) call(f func()) *violation {
	panicked, v := p.guard(f)
	if v == nil && panicked != nil {
		v = violated(conservation, "%s panicked: %v", p.last(), panicked)
	}
	return v
}

// refused calls f, which must panic at once and change nothing.
func (p *player) refused(invariant string, f func()) *violation {
	panicked, v := p.guard(f)
	if v == nil && panicked == nil {
		v = violated(invariant, "%s did not panic", p.last())
	}
	return v
}

// guard calls f and returns what it panicked with. In a bubble time passes only
// while everybody waits, so any time at all is too much.
func (p *player) guard(f func()) (panicked any, v *violation) {
	start := time.Now()
	p.unlocked(func() {
		defer func() { panicked = recover() }()
		f()
	})
	if waited := time.Since(start); waited > 0 {
		v = p.blocked(waited.String())
	}
	return panicked, v
}

// scope makes a context of the kind that a asks for. One that never ends is for
// n permits that cannot be waited for in vain.
func (p *player) scope(n int64, a action) int {
	kind := contexts[a.context]
	if kind == background && p.resizable == nil && p.closable == nil && n > p.worlds.all[0].limit {
		kind = own
	}
	if kind == shared && p.shared >= 0 {
		return p.shared
	}
	s := realScope{kind: kind}
	m := scope{deadline: never}
	switch kind {
	case background:
		s.ctx = context.Background()
	case expiring:
		s.expiry = unit * time.Duration(1+a.wait)
		s.ctx, s.cancel = context.WithTimeout(context.Background(), s.expiry)
		m.deadline = p.worlds.now() + s.expiry
	default:
		s.ctx, s.cancel = context.WithCancel(context.Background())
	}
	if kind == done {
		s.cancel()
		s.ended = true
		m.end = canceled
	}
	p.scopes = append(p.scopes, s)
	p.worlds.each(func(w *model) { w.contexts = append(w.contexts, m) })
	if kind == shared {
		p.shared = len(p.scopes) - 1
	}
	return len(p.scopes) - 1
}

// cancelable picks the n-th of the contexts that the script can still cancel;
// the first are those that somebody waits with.
func (p *player) cancelable(n int) (i int, found bool) {
	var live, idle []int
	for i, s := range p.scopes {
		switch {
		case s.cancel == nil || s.ended:
		case p.worlds.all[0].waitsWith(i):
			live = append(live, i)
		default:
			idle = append(idle, i)
		}
	}
	return pick(n, live, idle)
}

// asynchron picks the n-th asynchronous request; the first are those not
// decided.
func (p *player) asynchron(n int) (i int, found bool) {
	var live, idle []int
	for i, r := range p.worlds.all[0].requests {
		switch {
		case !r.async:
		case r.outcome == pending:
			live = append(live, i)
		default:
			idle = append(idle, i)
		}
	}
	return pick(n, live, idle)
}

func pick(n int, live, idle []int) (i int, found bool) {
	all := slices.Concat(live, idle)
	if len(all) == 0 {
		return 0, false
	}
	return all[n%len(all)], true
}

// waitsWith reports whether anybody waits with context i.
func (m *model) waitsWith(i int) bool {
	return slices.ContainsFunc(m.requests, func(r request) bool { return r.context == i && r.outcome == pending }) ||
		slices.ContainsFunc(m.drains, func(d drain) bool { return d.context == i && d.outcome == pending }) ||
		slices.ContainsFunc(m.awaits, func(a await) bool { return a.context == i && a.outcome == pending })
}

// add adds c to the calls of its kind, and to the steps, and returns its number.
func (p *player) add(k kind, c *call, s step) int {
	s.call = len(p.calls[k])
	p.begin(s)
	p.calls[k] = append(p.calls[k], c)
	return s.call
}

func (p *player) acquire(op op, n int64, a action) *violation {
	wait := never
	if op == acquireWithin {
		wait = waits[a.wait]
	}
	i := p.scope(n, a)
	c := &call{n: n}
	p.add(requests, c, step{op: op, n: n, scope: i, wait: wait})
	p.worlds.each(func(m *model) {
		m.requests = append(m.requests, request{n: n, context: i, wait: wait})
	})
	ctx := p.scopes[i].ctx
	go c.run(func() error {
		if op == acquireWithin {
			return p.timed.AcquireWithin(ctx, n, wait)
		}
		return p.Acquire(ctx, n)
	})
	return nil
}

func (p *player) acquireAsync(op op, n int64, a action) *violation {
	i := p.scope(n, a)
	ctx, wait := p.scopes[i].ctx, waits[a.wait]
	c := &call{n: n}
	k := p.add(requests, c, step{op: op, n: n, scope: i, wait: wait})
	p.worlds.each(func(m *model) {
		m.requests = append(m.requests, request{n: n, context: i, wait: wait, async: true})
	})
	v := p.call(func() {
		if op == acquireAsync {
			c.pending = p.asynchronous.AcquireAsync(ctx, n, wait)
			return
		}
		c.heard = new(heard)
		c.pending = p.asynchronous.AcquireFunc(ctx, n, wait, c.heard.hear)
	})
	if v != nil {
		return v
	}
	p.worlds.arrive(k)
	if k%2 == 0 {
		// Once asked for its Done channel the semaphore has to close it.
		go func() { <-c.pending.Done() }()
	}
	return nil
}

// withdraw cancels the asynchronous request i.
func (p *player) withdraw(i int) *violation {
	p.begin(step{op: withdraw, call: i, scope: -1})
	var got bool
	if v := p.call(func() { got = p.calls[requests][i].pending.Cancel() }); v != nil {
		return v
	}
	p.steps[len(p.steps)-1].result = got
	if !p.worlds.keep(func(m *model) bool { return got == (m.requests[i].outcome == pending) }) {
		v := violated(singleOutcome, "%s = %t, want %t", p.last(), got, !got)
		v.step = true
		return v
	}
	p.worlds.each(func(m *model) { m.Cancel(i) })
	return nil
}

// await waits for the asynchronous request i.
func (p *player) await(i int, a action) *violation {
	k := p.scope(0, a)
	c := new(call)
	p.add(awaits, c, step{op: awaitOp, scope: k, n: int64(i)})
	p.worlds.each(func(m *model) { m.Wait(i, k) })
	ctx, pending := p.scopes[k].ctx, p.calls[requests][i].pending
	go c.run(func() error { return pending.Wait(ctx) })
	return nil
}

func (p *player) drain(a action) *violation {
	i := p.scope(0, a)
	c := new(call)
	p.add(drains, c, step{op: drainOp, scope: i})
	p.worlds.each(func(m *model) { m.drains = append(m.drains, drain{context: i}) })
	ctx := p.scopes[i].ctx
	go c.run(func() error { return p.drainable.Drain(ctx) })
	return nil
}

func (p *player) try(n int64) *violation {
	p.begin(step{op: try, n: n, scope: -1})
	var got bool
	if v := p.call(func() { got = p.TryAcquire(n) }); v != nil {
		return v
	}
	p.steps[len(p.steps)-1].result = got
	if !p.worlds.keep(func(m *model) bool {
		obtained, optional := m.TryAcquire(n)
		return got == obtained || obtained && optional
	}) {
		return p.explainTry(n, got)
	}
	if got {
		p.held += n
		p.worlds.each(func(m *model) { m.inUse += n })
	}
	return nil
}

func (p *player) release(n int64) *violation {
	p.begin(step{op: release, n: n, scope: -1})
	p.held -= n
	if v := p.call(func() { p.Release(n) }); v != nil {
		return v
	}
	p.worlds.each(func(m *model) { m.Release(n) })
	return nil
}

// cancel ends context i.
func (p *player) cancel(i int) *violation {
	p.begin(step{op: cancel, scope: i})
	p.scopes[i].ended = true
	p.scopes[i].cancel()
	p.worlds.each(func(m *model) {
		if m.contexts[i].end == pending {
			m.contexts[i].end = canceled
		}
	})
	return nil
}

func (p *player) setLimit(limit int64) *violation {
	p.begin(step{op: setLimit, n: limit, scope: -1})
	if v := p.call(func() { p.resizable.SetLimit(limit) }); v != nil {
		return v
	}
	p.worlds.each(func(m *model) { m.SetLimit(limit) })
	return nil
}

func (p *player) close() *violation {
	p.begin(step{op: closeOp, scope: -1})
	if v := p.call(p.closable.Close); v != nil {
		return v
	}
	p.worlds.each((*model).Close)
	return nil
}

// look looks at Stats, which is one of those that there can be now.
func (p *player) look() *violation {
	p.begin(step{op: statsOp, scope: -1})
	var got semaphore.Stats
	if v := p.call(func() { got = p.statable.Stats() }); v != nil {
		return v
	}
	if !p.worlds.keep(func(m *model) bool { return got == m.Stats() }) {
		return violatedStats(got, p.worlds.all[0].Stats())
	}
	return nil
}

// pass lets time go by.
func (p *player) pass(d time.Duration) *violation {
	p.begin(step{op: pass, wait: d, scope: -1})
	p.unlocked(func() { time.Sleep(d) })
	p.worlds.pass(d)
	return nil
}

// overRelease releases more than is in flight.
func (p *player) overRelease(n int64) *violation {
	p.begin(step{op: overRelease, n: n, scope: -1})
	return p.refused(releaseOnce, func() { p.Release(n) })
}

// negative calls one of the methods with a negative number.
func (p *player) negative(a action) *violation {
	n := int64(-1)
	if a.wait >= choices/2 {
		n = math.MinInt64
	}
	ctx := context.Background()
	type negation struct {
		op op
		f  func()
	}
	calls := []negation{
		{try, func() { p.TryAcquire(n) }},
		{release, func() { p.Release(n) }},
		{acquire, func() { _ = p.Acquire(ctx, n) }},
	}
	if p.timed != nil {
		calls = append(calls, negation{acquireWithin, func() { _ = p.timed.AcquireWithin(ctx, n, 0) }})
	}
	if p.resizable != nil {
		calls = append(calls, negation{setLimit, func() { p.resizable.SetLimit(n) }})
	}
	if p.asynchronous != nil {
		calls = append(calls,
			negation{acquireAsync, func() { p.asynchronous.AcquireAsync(ctx, n, 0) }},
			negation{acquireFunc, func() { p.asynchronous.AcquireFunc(ctx, n, 0, func(error) {}) }})
	}
	call := calls[a.n%len(calls)]
	p.begin(step{op: call.op, n: n, scope: -1})
	return p.refused(conservation, call.f)
}
