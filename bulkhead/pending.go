package bulkhead

import (
	"context"
	"runtime/debug"
	"sync/atomic"
)

// PendingPermit is a permit that was asked for and may not be there yet. It is
// made by [Bulkhead.AcquireAsync] and safe for concurrent use.
type PendingPermit struct {
	promise[*Permit]
	permit Permit // what the promise points to

	// telling is that of Permitted, once it has begun: how it ended, with the
	// permit or, if a listener kept it from that, without.
	telling atomic.Pointer[outcome[*Permit]]
}

// AcquireAsync asks for a permit without waiting for it. It takes its place in
// the queue, if it must and may wait, before it returns; see
// [Bulkhead.ExecuteAsync] for waiting without bound. The permit is in flight
// from the moment it is granted, collected or not. The request must be decided
// before its testing/synctest bubble ends.
func (b *Bulkhead[T]) AcquireAsync(ctx context.Context) *PendingPermit {
	return b.h.acquireAsync(ctx)
}

func (h handle) acquireAsync(ctx context.Context) *PendingPermit {
	p := &PendingPermit{}
	if h.misused() {
		p.refuse(h.misuse())
		return p
	}
	err := h.core.sem.AcquireWithin(ctx, h.weight, 0)
	p.prepare(ctx, h)
	switch {
	case err == nil:
		p.decided(nil) // tells nobody yet
	case p.waits(err):
		p.queue(p.decided)
	default:
		c, ctx, _ := p.begin(err)
		p.settle(&c, func(out *outcome[*Permit]) { out.err = c.refused(ctx, err, p.maxWait) })
	}
	return p
}

// decided notes the outcome, on a goroutine of its own.
func (p *PendingPermit) decided(err error) {
	c, ctx, ok := p.begin(err)
	if !ok {
		return
	}
	p.conclude(func(out *outcome[*Permit]) {
		if err != nil {
			out.err = c.refused(ctx, err, p.maxWait)
			return
		}
		c.noteGrant()
		p.permit.call, p.permit.ctx = c, ctx
		out.value, out.err = &p.permit, nil
	})
}

// Done returns a channel that is closed when Permit has an answer.
func (p *PendingPermit) Done() <-chan struct{} { return p.wait() }

// Permit returns the permit if it was granted, the same one each time; until
// that is decided [ErrPending], and otherwise why it was not granted: a
// [RejectedError] or a [*CanceledError].
//
// The first Permit, or [PendingPermit.Wait], that returns the permit tells
// Permitted, on its goroutine, and others wait for that; so a listener must not
// ask for the permit that it is told of. If a listener panics, there or when
// the request was refused, every Permit panics with a [*PanicError], and a
// permit that was granted has gone back.
func (p *PendingPermit) Permit() (*Permit, error) {
	out := p.outcome()
	if out == nil {
		return nil, ErrPending
	}
	if permit := out.value; permit != nil && permit.call.listener != nil {
		out = p.told()
	}
	return out.get()
}

// told tells Permitted, unless that has been done, and returns how it ended.
// Nobody has the permit before: it may go back, and its end must not be told
// first.
func (p *PendingPermit) told() *outcome[*Permit] {
	if p.telling.Load() == nil {
		end := &outcome[*Permit]{over: make(chan struct{}), err: ErrGoexit}
		if p.telling.CompareAndSwap(nil, end) {
			p.tell(end)
		}
	}
	end := p.telling.Load()
	<-end.over
	return end
}

// tell tells Permitted. If a listener panics or calls Goexit, the permit ends.
func (p *PendingPermit) tell(end *outcome[*Permit]) {
	defer func() {
		if end.value == nil {
			if v := recover(); v != nil {
				end.panicked = &PanicError{Value: v, Stack: debug.Stack()}
			}
			p.permit.abandon()
		}
		close(end.over)
	}()
	p.permit.call.tellPermitted(p.permit.ctx)
	end.value, end.err = &p.permit, nil
}

// Cancel withdraws the request, and reports whether it did: then nothing is
// held, and Permit, once listeners have been told, returns a [*CanceledError]
// that matches context.Canceled. If it reports false, the request was decided,
// and if it was granted, the permit is the caller's, to be had from
// [PendingPermit.Permit].
func (p *PendingPermit) Cancel() bool { return p.cancel(context.Canceled, nil) != nil }

// Wait waits until the request is decided and returns what
// [PendingPermit.Permit] does, even if ctx is done. If ctx ends first, Wait
// withdraws the request, for everybody, and returns a [*CanceledError] that
// matches ctx.Err(); if it is decided in that moment, Wait returns the permit
// all the same.
func (p *PendingPermit) Wait(ctx context.Context) (*Permit, error) {
	if p.outcome() == nil {
		select {
		case <-p.wait():
		case <-ctx.Done():
			if err := p.cancel(errOf(ctx), context.Cause(ctx)); err != nil {
				return nil, err
			}
			<-p.wait()
		}
	}
	return p.Permit()
}
