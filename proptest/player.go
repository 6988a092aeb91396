package proptest

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// player plays a script on a semaphore, in a bubble, and on the model, and
// compares the two whenever the bubble has come to rest.
type player struct {
	abilities
	script script
	opts   *Options
	worlds *worlds

	calls  [kinds][]*call // of each kind, like those of every model
	scopes []realScope    // like the contexts of every model
	shared int            // the scope of contextKind shared, or -1
	held   int64          // permits granted to callers, as they saw it, and not released
	joined int            // actions played since the bubble was last at rest
	steps  []step

	// mu guards all of this. The player holds it but for the time in which it
	// may hang: then the watch outside the bubble can look.
	mu sync.Mutex
}

func newPlayer(s script, opts *Options) *player {
	return &player{script: s, opts: opts, worlds: newWorlds(s.limit, opts), shared: -1}
}

// step is one line of what was done, for the report.
type step struct {
	op     op
	n      int64
	scope  int // -1 without one
	call   int // which of its kind it makes or is about
	wait   time.Duration
	result bool
	rested bool // the bubble came to rest after it
}

// realScope is a context of the script. Its cancel is nil if it never ends.
type realScope struct {
	ctx    context.Context
	cancel context.CancelFunc
	kind   contextKind
	expiry time.Duration
	ended  bool // canceled by the script
}

// call is one call that may wait, on a goroutine of its own, or an asynchronous
// request.
type call struct {
	n        int64
	returned atomic.Bool
	err      error
	panicked any

	pending *semaphore.Pending // of an asynchronous request
	heard   *heard             // by the function given to AcquireFunc

	outcome outcome // pending until seen to have returned
	step    int     // after which that was seen
}

// run makes the call.
func (c *call) run(f func() error) {
	defer func() {
		c.panicked = recover()
		c.returned.Store(true)
	}()
	c.err = f()
}

// look notes whether an asynchronous request is decided.
func (c *call) look() {
	if c.err = c.pending.Err(); c.err != semaphore.ErrPending {
		c.returned.Store(true)
	}
}

// heard is what a function given to AcquireFunc was called with.
type heard struct {
	mu   sync.Mutex
	errs []error
}

func (h *heard) hear(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.errs = append(h.errs, err)
}

func (h *heard) all() []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errs
}

// play plays the script and leaves nothing running, if the semaphore lets it.
// It returns the first violation.
func (p *player) play() *violation {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	if a.op == pass || !a.joined || p.joined == longest || len(p.worlds.all) > tooMany {
		if v := p.rest(); v != nil {
			return v
		}
	}
	p.joined++
	return p.do(a)
}

// rest lets the bubble come to rest, compares and, as all callers have now
// seen their outcome, counts what they hold.
func (p *player) rest() *violation {
	if p.joined == 0 {
		return nil
	}
	p.joined = 0
	p.unlocked(synctest.Wait)
	p.steps[len(p.steps)-1].rested = true
	p.worlds.settle()
	for _, calls := range p.calls {
		for _, c := range calls {
			if c.outcome == pending && c.pending != nil {
				c.look()
			}
			if c.outcome == pending && c.returned.Load() {
				c.outcome, c.step = p.outcomeOf(c), len(p.steps)-1
				if c.outcome == ok {
					p.held += c.n
				}
			}
		}
	}
	return p.compare()
}

// finish brings a script that went well to its end: everything is released,
// everything that still waits is withdrawn, and then all permits must be there.
// A call takes two steps at most, one that ends its wait and one that gives its
// permits back, and three are for what is held at first, SetLimit and Close.
func (p *player) finish() *violation {
	for range 3 + 2*len(p.calls[requests]) + 2*len(p.calls[drains]) {
		var v *violation
		waiting := p.waiting()
		switch {
		case p.held > 0:
			v = p.release(p.held)
		case waiting == nil:
			return p.tryAll()
		case p.scopes[waiting.context].cancel != nil:
			v = p.cancel(waiting.context)
		case waiting.async:
			v = p.withdraw(waiting.i)
		case p.resizable != nil && p.worlds.all[0].limit < math.MaxInt64:
			v = p.setLimit(math.MaxInt64)
		case p.closable != nil && !p.worlds.all[0].closed:
			v = p.close()
		default:
			return p.endless(waiting)
		}
		if v != nil {
			return v
		}
		p.joined++
		if v := p.rest(); v != nil {
			return v
		}
	}
	if waiting := p.waiting(); waiting != nil {
		return p.endless(waiting)
	}
	return p.tryAll()
}

// endless is what is wrong if nothing ends a wait.
func (p *player) endless(w *waiter) *violation {
	return violated(delivery, "%v %d still waits, and nothing is left that would end it: %s",
		w.kind, w.i+1, p.worlds.all[0].room())
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

// waiter is a call that has not returned.
type waiter struct {
	kind       kind
	i, context int
	async      bool
}

// waiting returns a call that should still wait, or nil. One that can be
// withdrawn comes before those that cannot: these may be behind it in the queue,
// as of two that come at one instant the first need not be the first to arrive.
func (p *player) waiting() *waiter {
	m := p.worlds.all[0]
	var all []waiter
	for i, r := range m.requests {
		if r.outcome == pending {
			all = append(all, waiter{requests, i, r.context, r.async})
		}
	}
	for i, d := range m.drains {
		if d.outcome == pending {
			all = append(all, waiter{drains, i, d.context, false})
		}
	}
	if len(all) == 0 {
		return nil
	}
	can := func(w waiter) bool { return w.async || p.scopes[w.context].cancel != nil }
	return &all[max(0, slices.IndexFunc(all, can))]
}

// cleanUp tries to end every call still waiting, whatever state the semaphore
// is in: a bubble with a goroutine left cannot be left in good order.
func (p *player) cleanUp() {
	attempt := func(f func()) {
		if p.live() {
			p.guard(f)
			p.unlocked(synctest.Wait)
		}
	}
	for _, s := range p.scopes {
		if s.cancel != nil {
			s.cancel()
		}
	}
	p.unlocked(synctest.Wait)
	if p.closable != nil {
		attempt(p.closable.Close)
	}
	if p.resizable != nil {
		attempt(func() { p.resizable.SetLimit(math.MaxInt64) })
	}
	for range p.calls[requests] {
		attempt(func() { p.Release(1) })
	}
	attempt(func() { time.Sleep(1000 * unit) })
}

// live reports whether any call has not returned.
func (p *player) live() bool {
	for _, calls := range p.calls {
		for _, c := range calls {
			if c.pending != nil {
				c.look()
			}
			if !c.returned.Load() {
				return true
			}
		}
	}
	return false
}

// unlocked calls f, which may hang, and lets the watch look meanwhile.
func (p *player) unlocked(f func()) {
	p.mu.Unlock()
	defer p.mu.Lock()
	f()
}
