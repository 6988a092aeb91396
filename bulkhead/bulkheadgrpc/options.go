package bulkheadgrpc

import (
	"context"
	"reflect"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// Options say which calls an interceptor guards and what they weigh. The zero
// value guards all of them, and each weighs what the bulkhead, or the handle to
// it, says.
type Options struct {
	// Skip, unless nil, reports whether the calls of a method, such as
	// "/grpc.health.v1.Health/Watch", go on without a permit.
	Skip func(fullMethod string) bool

	// Weight, unless nil, returns how many permits a call holds. req is the
	// request of a unary call, and nil for a stream, whose messages are still to
	// come. A weight below 1 is a fault on this side: such a call fails with
	// Internal and goes no further.
	Weight func(ctx context.Context, fullMethod string, req any) int64
}

// guard is what the interceptors have in common.
type guard struct {
	bulkhead bulkhead.Any
	opts     Options
	refusals refusals
}

// newGuard returns the guard of the interceptor that constructor makes.
func newGuard(constructor string, b bulkhead.Any, opts Options) *guard {
	// In a variable that is yet to be set, a nil *Bulkhead is not a nil Any.
	if v := reflect.ValueOf(b); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("bulkheadgrpc: " + constructor + " with a nil bulkhead")
	}
	return &guard{bulkhead: b, opts: opts}
}

// acquire returns the permit for a call, or nil if it needs none. The error is
// that of a call that goes no further.
func (g *guard) acquire(ctx context.Context, fullMethod string, req any) (*bulkhead.Permit, error) {
	if g.opts.Skip != nil && g.opts.Skip(fullMethod) {
		return nil, nil
	}
	permit, err := g.handle(ctx, fullMethod, req).Acquire(ctx)
	if err != nil {
		return nil, g.refusals.of(err)
	}
	return permit, nil
}

// handle returns what weighs the call.
func (g *guard) handle(ctx context.Context, fullMethod string, req any) bulkhead.Any {
	if g.opts.Weight == nil {
		return g.bulkhead
	}
	return bulkhead.Weighing(g.bulkhead, g.opts.Weight(ctx, fullMethod, req))
}

// giveBack ends the permit of a call that has ended, with err if it returned, or
// else by a panic or Goexit, which is on its way.
func giveBack(ctx context.Context, permit *bulkhead.Permit, returned bool, err error) {
	switch {
	case permit == nil: // the call was skipped
	case returned:
		defer permit.Release() // if a method of ctx or err panics
		permit.Complete(outcome(ctx, err))
	default:
		permit.Panicked()
	}
}
