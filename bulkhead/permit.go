package bulkhead

import (
	"context"
	"sync"
)

// Permit is the right to do one piece of work, obtained by [Bulkhead.Acquire].
// Its holder ends it with Complete, Panicked or Release; the first call of any
// counts, from whichever goroutine, and later ones do nothing, but that they
// return when the permit is back, too. So Release can be deferred right after
// Acquire, for whatever way the function is left, and Complete called when the
// result is known. All do nothing on a nil *Permit, which is what a failed
// Acquire returns.
//
// A Permit must not be copied.
type Permit struct {
	call call
	ctx  context.Context // Acquire's: it decides whether the work was canceled

	// back is when the permit goes back (release once). With a flag in its place,
	// who comes second could return before the first has got that far, and find
	// the bulkhead full by a permit that has ended.
	back sync.Once
}

// giveBack gives the permit back, unless that has been done, and reports whether
// it did.
func (p *Permit) giveBack() (first bool) {
	if p == nil {
		return false
	}
	p.back.Do(func() {
		p.call.core.sem.Release(p.call.weight)
		first = true
	})
	return first
}

// Complete gives the permit back and says that the work was done, with err as
// its result: what a function run by [Bulkhead.Execute] would have returned.
func (p *Permit) Complete(err error) {
	if p.giveBack() {
		defer p.call.core.leave()
		p.call.tellEnd(p.ctx, true, err)
	}
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
	if p.giveBack() {
		defer p.call.core.leave()
		p.call.tellEnd(p.ctx, false, nil)
	}
}

// Release gives the permit back and says that it was not used. Unlike that of a
// semaphore, it does nothing if the permit has ended.
func (p *Permit) Release() {
	if p.giveBack() {
		defer p.call.core.leave()
		if p.call.listener != nil {
			p.call.released(p.ctx, nil)
		}
	}
}

// abandon gives the permit back while a listener's panic or Goexit is on its way
// through this goroutine.
func (p *Permit) abandon() {
	if p.giveBack() {
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
