package proptest

import (
	"context"
	"runtime"
	"sync"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	events "github.com/turnstile-go/turnstile/event"
)

// callPlayer plays a script on a bulkhead, in a bubble, and on the model, and
// compares the two whenever the bubble has come to rest.
type callPlayer struct {
	ways     ways
	script   callScript
	bulkhead *bulkhead.Bulkhead[int]
	start    time.Time

	model    *callModel
	calls    []*realCall    // like those of the model
	attempts []*realAttempt // likewise
	contexts []*realContext // likewise
	stops    []func()       // of the listeners, each its subscription
	moments  []moment
	leave    chan struct{} // closed when functions have to end, whatever the script says
	told     []telling     // since the last rest
	totals   []total       // what each listener has counted

	// mu guards all that calls and listeners write. The player holds it but for
	// the time from its moves to the next rest.
	mu sync.Mutex
}

// ways are how a bulkhead is called. Those of a broken one are different.
type ways struct {
	listen       func(events.Listener) events.Listener
	unsubscribe  func(stop func())
	execute      func(context.Context, *bulkhead.Bulkhead[int], verb, function) (int, error)
	executeAsync func(context.Context, *bulkhead.Bulkhead[int], verb, function) future
	acquire      func(context.Context, *bulkhead.Bulkhead[int]) (permit, error)
	resize       func(*bulkhead.Bulkhead[int], int64) error
	drain        func(context.Context, *bulkhead.Bulkhead[int]) error
}

type (
	function func(context.Context) (int, error)
	permit   interface {
		Complete(error)
		Release()
	}
	future interface {
		Get(context.Context) (int, error)
		Cancel() bool
	}
)

// move is an action with what it has chosen.
type move struct {
	verb     verb
	attempt  int
	call     int
	context  int
	listener int
	ending   ending
	n        int64
	wait     time.Duration
}

// moment is the moves between two rests, and what was seen after them.
type moment struct {
	moves []move
	ended []int // attempts
}

type realCall struct {
	ctx     context.Context
	gate    chan ending // what its function waits for
	ran     int         // how often its function was called
	permit  permit
	future  future
	pending *bulkhead.PendingPermit
}

type realAttempt struct {
	over, seen bool
	result     result
}

type realContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// total is how many events of each kind a listener was told, and the weight of
// these.
type total struct {
	calls, weight [events.KindLimitChanged + 1]int64
}

// callKey is for the value that says which call a context belongs to.
type callKey struct{}

// skew is what a clock of our own is ahead.
const skew = time.Hour

func newCallPlayer(s callScript, w ways) *callPlayer {
	return &callPlayer{
		ways: w, script: s,
		model: &callModel{limit: s.limit, maxWait: s.maxWait, maxQueue: s.maxQueue, clock: s.clock},
	}
}

// play plays the script and leaves nothing running, if the bulkhead lets it. It
// returns the first violation.
func (p *callPlayer) play() *violation {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start, p.leave = time.Now(), make(chan struct{})
	p.newContext(background, 0)
	cfg := bulkhead.Config{
		Name: name, MaxConcurrent: p.script.limit, MaxWait: p.script.maxWait, MaxQueue: p.script.maxQueue,
	}
	if p.script.clock {
		cfg.Clock = func() time.Time { return time.Now().Add(skew) }
	}
	if p.script.listener != nil {
		l := p.newListener(*p.script.listener)
		cfg.Listener = p.listener(l)
		p.model.subscribed = []int{l}
	}
	p.bulkhead = bulkhead.MustNew[int](cfg)
	v := p.playAll()
	p.cleanUp()
	return v
}

func (p *callPlayer) playAll() *violation {
	for actions := p.script.actions; len(actions) > 0; {
		first, _ := p.choose(actions[0], false)
		moves := []move{first}
		if actions = actions[1:]; len(actions) > 0 && actions[0].joined && p.canJoin(first, actions[0].verb) {
			if second, ok := p.choose(actions[0], true); ok {
				moves = append(moves, second)
				actions = actions[1:]
			}
		}
		if v := p.step(moves); v != nil {
			return v
		}
	}
	return p.finish()
}

// step makes the moves at one instant, lets the bubble come to rest, and
// compares.
func (p *callPlayer) step(moves []move) *violation {
	p.moments = append(p.moments, moment{moves: moves})
	p.mu.Unlock()
	for _, mv := range moves {
		p.make(mv)
	}
	synctest.Wait()
	p.mu.Lock()
	for i, a := range p.attempts {
		if a.over && !a.seen {
			a.seen = true
			now := &p.moments[len(p.moments)-1]
			now.ended = append(now.ended, i)
		}
	}
	var v *violation
	for m := range p.model.courses(moves) {
		if v = p.compare(m); v == nil {
			p.model = m
			break
		}
	}
	p.told, p.model.told, p.model.moved = nil, nil, 0
	return v
}

// make makes a move on the bulkhead.
func (p *callPlayer) make(mv move) {
	b := p.bulkhead
	switch mv.verb {
	case toFinish:
		p.calls[mv.call].gate <- mv.ending
	case toRelease:
		p.attempt(mv, func() (int, error) {
			p.calls[mv.call].permit.Release()
			return 0, nil
		})
	case toComplete:
		p.attempt(mv, func() (int, error) {
			p.calls[mv.call].permit.Complete(mv.ending.err(mv.call, p.model.calls[mv.call].context))
			return 0, nil
		})
	case toEndContext:
		p.contexts[mv.context].cancel(cause{mv.context})
	case toPass:
		time.Sleep(mv.wait)
	case toCancel:
		c := p.calls[mv.call]
		p.attempt(mv, func() (int, error) {
			if c.future != nil {
				return truth(c.future.Cancel()), nil
			}
			return truth(c.pending.Cancel()), nil
		})
	case toPermit:
		p.attempt(mv, func() (int, error) { return p.keep(mv.call)(p.calls[mv.call].pending.Permit()) })
	case toWait:
		ctx := p.contexts[mv.context]
		p.attempt(mv, func() (int, error) { return p.keep(mv.call)(p.calls[mv.call].pending.Wait(ctx)) })
	case toGet:
		ctx := p.contexts[mv.context]
		p.attempt(mv, func() (int, error) { return p.calls[mv.call].future.Get(ctx) })
	case toSetMaxConcurrent:
		p.attempt(mv, func() (int, error) { return 0, p.ways.resize(b, mv.n) })
	case toSetMaxWait:
		p.attempt(mv, func() (int, error) { return 0, b.SetMaxWait(mv.wait) })
	case toSubscribe:
		p.stops[mv.listener] = b.Subscribe(p.listener(mv.listener))
	case toUnsubscribe:
		p.ways.unsubscribe(p.stops[mv.listener])
	case toDrain:
		ctx := p.contexts[mv.context]
		p.attempt(mv, func() (int, error) { return 0, p.ways.drain(ctx, b) })
	case toClose:
		b.Close()
	default:
		p.call(mv)
	}
}

// call makes a call.
func (p *callPlayer) call(mv move) {
	c, m := p.calls[mv.call], p.model.calls[mv.call]
	b := p.bulkhead
	if m.weight != 1 {
		b = b.Weighing(m.weight)
	}
	if m.asked != usual {
		b = b.Waiting(m.asked)
	}
	fn := p.function(mv.call)
	switch mv.verb {
	case toAcquire:
		p.attempt(mv, func() (int, error) {
			permit, err := p.ways.acquire(c.ctx, b)
			if permit != nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				c.permit = permit
			}
			return truth(permit != nil), err
		})
	case toTry:
		p.attempt(mv, func() (int, error) {
			permit, ok := b.TryAcquire()
			if ok {
				p.mu.Lock()
				defer p.mu.Unlock()
				c.permit = permit
			}
			return truth(ok), nil
		})
	case toAcquireAsync:
		<-p.attempt(mv, func() (int, error) {
			c.pending = b.AcquireAsync(c.ctx)
			return 0, nil
		})
	case toExecuteAsync, toGo:
		<-p.attempt(mv, func() (int, error) {
			c.future = p.ways.executeAsync(c.ctx, b, mv.verb, fn)
			return 0, nil
		})
	default:
		p.attempt(mv, func() (int, error) { return p.ways.execute(c.ctx, b, mv.verb, fn) })
	}
}

// attempt calls f on a goroutine of its own, as it may take long or not return,
// and notes how that was left. Then it closes the channel.
func (p *callPlayer) attempt(mv move, f func() (int, error)) <-chan struct{} {
	a, left := p.attempts[mv.attempt], make(chan struct{})
	go func() {
		defer close(left)
		r := result{how: exited}
		defer func() {
			switch v := recover().(type) {
			case nil:
			case *bulkhead.PanicError:
				r = result{how: panicked, panic: reraised{v.Value}}
			default:
				r = result{how: panicked, panic: v}
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			a.over, a.result = true, r
		}()
		value, err := f()
		r = result{value: value, err: err}
	}()
	return left
}

// keep keeps the permit that a PendingPermit gave. Each time it is the same.
func (p *callPlayer) keep(call int) func(*bulkhead.Permit, error) (int, error) {
	return func(got *bulkhead.Permit, err error) (int, error) {
		if got == nil {
			return 0, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		c := p.calls[call]
		if c.permit == nil {
			c.permit = got
		}
		if c.permit != permit(got) {
			return 2, err
		}
		return 1, err
	}
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// function is what call i runs. The model knows what it returns.
func (p *callPlayer) function(i int) function {
	c, m := p.calls[i], p.model.calls[i]
	return func(ctx context.Context) (int, error) {
		p.mu.Lock()
		c.ran++
		p.mu.Unlock()
		if ctx != c.ctx {
			panic("the function of a call got another context")
		}
		e := m.ending
		if !m.quick {
			select {
			case e = <-c.gate:
			case <-p.leave:
			}
		}
		r := e.of(i, m.context)
		switch r.how {
		case panicked:
			panic(r.panic)
		case exited:
			runtime.Goexit()
		}
		return r.value, r.err
	}
}

// listener returns listener l, which notes what it is told and then misbehaves
// if it does.
func (p *callPlayer) listener(l int) events.Listener {
	b := p.model.listeners[l]
	all := p.ways.listen(events.All(func(ctx context.Context, r events.Record) {
		p.hear(l, ctx, r)
		if r.Kind != b.kind {
			return
		}
		switch left := b.leave(l); left.how {
		case panicked:
			panic(left.panic)
		case exited:
			runtime.Goexit()
		}
	}))
	if !b.only {
		return all
	}
	switch b.kind {
	case events.KindPermitted:
		return events.Listener{Permitted: all.Permitted}
	case events.KindRejected:
		return events.Listener{Rejected: all.Rejected}
	case events.KindCanceled:
		return events.Listener{Canceled: all.Canceled}
	case events.KindFinished:
		return events.Listener{Finished: all.Finished}
	case events.KindReleased:
		return events.Listener{Released: all.Released}
	default:
		return events.Listener{LimitChanged: all.LimitChanged}
	}
}

// hear notes what listener l is told.
func (p *callPlayer) hear(l int, ctx context.Context, r events.Record) {
	call, ok := ctx.Value(callKey{}).(int)
	if !ok {
		call = none
	}
	at := r.Time.Sub(p.start)
	if p.script.clock {
		at -= skew
	}
	r.Time = time.Time{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, telling{l, call, at, r})
	p.totals[l].calls[r.Kind]++
	p.totals[l].weight[r.Kind] += r.Weight
}

// finish brings a script that went well to its end: what runs ends, and what is
// held is given back. Then nobody waits any more, and all permits must be there.
func (p *callPlayer) finish() *violation {
	if v := p.endAll(); v != nil {
		return v
	}
	all := p.newCall(modelCall{verb: toTry, weight: p.model.limit, asked: usual})
	if v := p.step([]move{all}); v != nil {
		return v
	}
	if v := p.endAll(); v != nil {
		return v
	}
	return p.addUp()
}

// endAll ends the calls that have permits, and those that get them then.
func (p *callPlayer) endAll() *violation {
	for i := 0; i < len(p.model.calls); i++ {
		c := &p.model.calls[i]
		mv := move{call: i, attempt: none}
		switch {
		case c.phase == running:
			mv.verb = toFinish
			c.sent = true
		case c.phase == untold:
			mv.verb = toPermit
		case c.phase == held:
			mv.verb = toRelease
		default:
			continue
		}
		if mv.verb != toFinish {
			p.newAttempt(&mv)
		}
		if v := p.step([]move{mv}); v != nil {
			return v
		}
		i = none // again, from the first on
	}
	return nil
}

// cleanUp ends what a violation left, as a bubble with a goroutine left cannot
// be left in good order.
func (p *callPlayer) cleanUp() {
	close(p.leave)
	for _, ctx := range p.contexts {
		if ctx.cancel != nil {
			ctx.cancel(nil)
		}
	}
	p.bulkhead.Close()
	p.mu.Unlock()
	synctest.Wait()
	p.mu.Lock()
	for _, c := range p.calls {
		if permit := c.permit; permit != nil {
			go func() {
				defer func() { _ = recover() }() // a listener's, or of a broken bulkhead
				permit.Release()
			}()
		}
	}
}
