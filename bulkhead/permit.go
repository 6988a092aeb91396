package bulkhead

import (
	"context"
	"sync/atomic"
)

// Permit is the right to do one piece of work, obtained by [Bulkhead.Acquire].
// Its holder ends it with Complete, Panicked or Release; the first call of any
// counts, from whichever goroutine, and later ones do nothing. So Release can be
// deferred right after Acquire, for whatever way the function is left, and
// Complete called when the result is known. All do nothing on a nil *Permit,
// which is what a failed Acquire returns.
//
// A Permit must not be copied.
type Permit struct {
	call  call
	ctx   context.Context // Acquire's: it decides whether the work was canceled
	ended atomic.Bool
}

// Complete gives the permit back and says that the work was done, with err as
// its result: what a function run by [Bulkhead.Execute] would have returned.
func (p *Permit) Complete(err error) {
	if p == nil || p.ended.Swap(true) {
		return
	}
	defer p.call.core.leave()
	p.call.end(p.ctx, true, err)
}

// Panicked gives the permit back and says that the work panicked or called
// [runtime.Goexit]. It recovers nothing, and is for a function that is deferred
// around the work:
//
//	returned := false
//	defer func() {
//		if !returned {
//			permit.Panicked()
//		}
//	}()
//
// Listeners run on a goroutine of their own, which it waits for: the panic on
// its way through this one goes on, and one of theirs is dropped.
func (p *Permit) Panicked() {
	if p == nil || p.ended.Swap(true) {
		return
	}
	defer p.call.core.leave()
	p.call.end(p.ctx, false, nil)
}

// Release gives the permit back and says that it was not used.
func (p *Permit) Release() {
	if p == nil || p.ended.Swap(true) {
		return
	}
	defer p.call.core.leave()
	p.call.core.sem.Release(p.call.weight)
	if p.call.listener != nil {
		p.call.released(p.ctx, nil)
	}
}

// abandon gives the permit back while a listener's panic or Goexit is on its way
// through this goroutine.
func (p *Permit) abandon() {
	if !p.ended.Swap(true) {
		p.call.core.sem.Release(p.call.weight)
		p.call.aside(func(c *call) { c.released(p.ctx, nil) })
	}
}

func (h handle) acquire(ctx context.Context) (*Permit, error) {
	var c call
	if err := c.start(ctx, h); err != nil {
		return nil, err
	}
	if c.listener != nil {
		c.permitted(ctx)
	}
	return &Permit{call: c, ctx: ctx}, nil
}

func (h handle) tryAcquire() (*Permit, bool) {
	if h.misused() {
		return nil, false
	}
	p, err := h.waiting(0).acquire(context.Background())
	return p, err == nil
}
