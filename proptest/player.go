package proptest

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// player plays a script on a semaphore, in a bubble, and on the model, and
// compares the two whenever the bubble has come to rest.
type player struct {
	abilities
	script script
	opts   *Options
	worlds *worlds

	requests []*call // like the requests of every model
	drains   []*call // like the drains of every model
	scopes   []realScope
	shared   int   // the scope shared by requests, or -1
	held     int64 // permits granted to callers, as they saw it, and not released
	joined   int   // actions played since the bubble was last at rest

	steps []step

	// shown orders the watch outside the bubble after all that the player did
	// before the step in which it hangs.
	shown atomic.Int64
}

func newPlayer(s script, opts *Options) *player {
	return &player{script: s, opts: opts, worlds: newWorlds(s.limit, opts), shared: -1}
}

// realScope is a context of the script. Its cancel is nil if it never ends.
type realScope struct {
	ctx    context.Context
	cancel context.CancelFunc
	kind   contextKind
	expiry time.Duration
	ended  bool // canceled by the script
}

// call is one call that may wait, on a goroutine of its own.
type call struct {
	n        int64
	returned atomic.Bool
	err      error
	panicked any

	outcome outcome // once seen to have returned
	step    int     // after which that was seen
}

// step is one line of what was done, for the report.
type step struct {
	op      op
	n       int64
	scope   int // -1 without one
	request int // or drain
	wait    time.Duration
	result  string
	rested  bool // the bubble came to rest after it
}

// play plays the script and leaves nothing running, if the semaphore lets it.
// It returns the first violation.
func (p *player) play() *violation {
	v := p.playAll()
	p.cleanUp()
	return v
}

func (p *player) playAll() *violation {
	for _, a := range p.script.actions {
		if a.op != clash {
			if v := p.step(a); v != nil {
				return v
			}
			continue
		}
		for _, a.op = range clashes[a.context%len(clashes)] {
			if v := p.step(a); v != nil {
				return v
			}
			a.joined = true
		}
	}
	if v := p.rest(); v != nil {
		return v
	}
	return p.finish()
}

// step plays one action, after a rest unless it is joined to the one before.
func (p *player) step(a action) *violation {
	if a.op == pass || !a.joined || p.joined == longest {
		if v := p.rest(); v != nil {
			return v
		}
	}
	p.joined++
	return p.do(a)
}

// do plays one action.
func (p *player) do(a action) *violation {
	limit := p.worlds.all[0].limit
	n := weight(a.n, limit)
	switch a.op {
	case acquire:
		return p.acquire(n, a, math.MaxInt64)
	case acquireWithin:
		if p.timed == nil {
			return p.acquire(n, a, math.MaxInt64)
		}
		return p.acquire(n, a, waits[a.wait])
	case try:
		return p.try(n)
	case release:
		if p.held > 0 {
			return p.release(min(max(n, 1), p.held))
		}
		return p.acquire(n, a, math.MaxInt64)
	case cancel:
		if i, found := p.cancelable(a.n); found {
			return p.cancel(i)
		}
		return p.acquire(n, a, math.MaxInt64)
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
		if p.joined == 1 && p.held < math.MaxInt64 {
			return p.overRelease(p.held + 1 + min(n, math.MaxInt64-1-p.held))
		}
		return p.try(n)
	case negative:
		return p.negative(a)
	case closeOp:
		return p.close()
	}
	panic("proptest: no such action")
}

// rest lets the bubble come to rest, compares and, as all callers have now
// seen their outcome, counts what they hold.
func (p *player) rest() *violation {
	if p.joined == 0 {
		return nil
	}
	p.joined = 0
	p.show()
	synctest.Wait()
	p.steps[len(p.steps)-1].rested = true
	p.worlds.settle()
	for _, calls := range [...][]*call{p.requests, p.drains} {
		for _, c := range calls {
			if c.outcome == pending && c.returned.Load() {
				c.step = len(p.steps) - 1
				if c.outcome = p.outcomeOf(c); c.outcome == ok {
					p.held += c.n
				}
			}
		}
	}
	return p.compare()
}

// finish brings a script that went well to its end: everything is released,
// everything that still waits is withdrawn, and then all permits must be there.
func (p *player) finish() *violation {
	for {
		var v *violation
		i, live := p.liveScope()
		switch {
		case p.held > 0:
			v = p.release(p.held)
		case i >= 0:
			v = p.cancel(i)
		case live && p.resizable != nil && p.worlds.all[0].limit < math.MaxInt64:
			v = p.setLimit(math.MaxInt64)
		case live && p.closable != nil:
			v = p.close()
		case live:
			v = p.pass(1000 * unit)
		default:
			return p.tryAll()
		}
		if v != nil {
			return v
		}
		p.joined++
		if v := p.rest(); v != nil {
			return v
		}
	}
}

// tryAll takes all permits there should be, and gives them back.
func (p *player) tryAll() *violation {
	n := p.worlds.all[0].limit
	p.joined++
	if v := p.try(n); v != nil || p.held == 0 {
		return v
	}
	return p.release(n)
}

// liveScope reports whether anybody still waits, and returns a scope whose end
// would change that, or -1.
func (p *player) liveScope() (i int, live bool) {
	m := p.worlds.all[0]
	for _, r := range m.requests {
		if r.outcome == pending {
			if live = true; p.scopes[r.context].cancel != nil {
				return r.context, true
			}
		}
	}
	for _, d := range m.drains {
		if d.outcome == pending {
			if live = true; p.scopes[d.context].cancel != nil {
				return d.context, true
			}
		}
	}
	return -1, live
}

// begin notes the step that is about to be made, and lets the model know that
// whatever can happen may have happened before.
func (p *player) begin(s step) {
	p.steps = append(p.steps, s)
	if p.joined > 1 {
		p.worlds.unsettle()
	}
}

// show lets the watch see what was done so far. It comes before all that may
// hang.
func (p *player) show() { p.shown.Store(int64(len(p.steps))) }

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

func (p *player) guard(f func()) (panicked any, v *violation) {
	p.show()
	start := time.Now()
	func() {
		defer func() { panicked = recover() }()
		f()
	}()
	// In a bubble time passes only while everybody waits.
	if waited := time.Since(start); waited > 0 {
		v = p.blocked(waited.String())
	}
	return panicked, v
}

// scope makes a context of a kind. A background is chosen only where it cannot
// leave a request waiting for ever.
func (p *player) scope(kind contextKind, expiry time.Duration) int {
	if kind == shared && p.shared >= 0 {
		return p.shared
	}
	s := realScope{kind: kind}
	m := scope{deadline: never}
	switch kind {
	case background:
		s.ctx = context.Background()
	case expiring:
		s.expiry = expiry
		s.ctx, s.cancel = context.WithTimeout(context.Background(), expiry)
		m.deadline = p.worlds.now() + expiry
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
func (p *player) cancelable(n int) (int, bool) {
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
	all := append(live, idle...)
	if len(all) == 0 {
		return 0, false
	}
	return all[n%len(all)], true
}

// waitsWith reports whether anybody waits with context i.
func (m *model) waitsWith(i int) bool {
	return slices.ContainsFunc(m.requests, func(r request) bool { return r.context == i && r.outcome == pending }) ||
		slices.ContainsFunc(m.drains, func(d drain) bool { return d.context == i && d.outcome == pending })
}

func (p *player) acquire(n int64, a action, wait time.Duration) *violation {
	kind := contexts[a.context]
	if kind == background && p.resizable == nil && p.closable == nil && n > p.worlds.all[0].limit {
		kind = own
	}
	i := p.scope(kind, unit*time.Duration(1+a.wait))
	r := &call{n: n}
	op := acquire
	if wait != math.MaxInt64 {
		op = acquireWithin
	}
	p.begin(step{op: op, n: n, scope: i, request: len(p.requests), wait: wait})
	p.worlds.each(func(m *model) {
		m.requests = append(m.requests, request{n: n, context: i, wait: wait})
	})
	p.requests = append(p.requests, r)
	ctx := p.scopes[i].ctx
	go r.run(func() error {
		if op == acquireWithin {
			return p.timed.AcquireWithin(ctx, n, wait)
		}
		return p.Acquire(ctx, n)
	})
	return nil
}

func (p *player) drain(a action) *violation {
	i := p.scope(contexts[a.context], unit*time.Duration(1+a.wait))
	d := new(call)
	p.begin(step{op: drainOp, scope: i, request: len(p.drains)})
	p.worlds.each(func(m *model) { m.drains = append(m.drains, drain{context: i}) })
	p.drains = append(p.drains, d)
	ctx := p.scopes[i].ctx
	go d.run(func() error { return p.drainable.Drain(ctx) })
	return nil
}

func (c *call) run(f func() error) {
	defer func() {
		c.panicked = recover()
		c.returned.Store(true)
	}()
	c.err = f()
}

func (p *player) try(n int64) *violation {
	p.begin(step{op: try, n: n, scope: -1})
	var got bool
	if v := p.call(func() { got = p.TryAcquire(n) }); v != nil {
		return v
	}
	p.steps[len(p.steps)-1].result = map[bool]string{true: "true", false: "false"}[got]
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

func (p *player) pass(d time.Duration) *violation {
	p.begin(step{op: pass, wait: d, scope: -1})
	time.Sleep(d)
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
	s := step{n: n, scope: -1}
	var f func()
	switch a.n % 5 {
	case 3:
		if s.op = setLimit; p.resizable != nil {
			f = func() { p.resizable.SetLimit(n) }
			break
		}
		fallthrough
	case 0:
		s.op, f = try, func() { p.TryAcquire(n) }
	case 1:
		s.op, f = release, func() { p.Release(n) }
	case 4:
		if s.op = acquireWithin; p.timed != nil {
			f = func() { _ = p.timed.AcquireWithin(context.Background(), n, math.MaxInt64) }
			break
		}
		fallthrough
	case 2:
		s.op = acquire
		f = func() { _ = p.Acquire(context.Background(), n) }
	}
	p.begin(s)
	return p.refused(conservation, f)
}

// cleanUp tries to end every call still waiting, whatever state the semaphore
// is in: a bubble with a goroutine left cannot be left in good order.
func (p *player) cleanUp() {
	attempt := func(f func()) {
		if p.live() {
			p.guard(f)
			synctest.Wait()
		}
	}
	for _, s := range p.scopes {
		if s.cancel != nil {
			s.cancel()
		}
	}
	synctest.Wait()
	if p.closable != nil {
		attempt(p.closable.Close)
	}
	if p.resizable != nil {
		attempt(func() { p.resizable.SetLimit(math.MaxInt64) })
	}
	for range p.requests {
		attempt(func() { p.Release(1) })
	}
	attempt(func() { time.Sleep(1000 * unit) })
}

// live reports whether any call has not returned.
func (p *player) live() bool {
	for _, calls := range [...][]*call{p.requests, p.drains} {
		for _, c := range calls {
			if !c.returned.Load() {
				return true
			}
		}
	}
	return false
}
