package bulkheadgrpc

import (
	"context"

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
}

// newGuard returns the guard of the interceptor that constructor makes.
func newGuard(constructor string, b bulkhead.Any, opts Options) guard {
	if b == nil {
		panic("bulkheadgrpc: " + constructor + " with a nil bulkhead")
	}
	return guard{b, opts}
}

func (g guard) skips(fullMethod string) bool {
	return g.opts.Skip != nil && g.opts.Skip(fullMethod)
}

// handle returns what weighs the call.
func (g guard) handle(ctx context.Context, fullMethod string, req any) bulkhead.Any {
	if g.opts.Weight == nil {
		return g.bulkhead
	}
	return bulkhead.Weighing(g.bulkhead, g.opts.Weight(ctx, fullMethod, req))
}

// run makes call with a permit held, and returns its error untouched. The
// bulkhead is told a mapped one.
func (g guard) run(ctx context.Context, fullMethod string, req any, call func() error) error {
	if g.skips(fullMethod) {
		return call()
	}
	var own error
	ran := false
	err := g.handle(ctx, fullMethod, req).Run(ctx, func(context.Context) error {
		ran = true
		own = call()
		return outcome(ctx, own)
	})
	if !ran {
		return refused(err)
	}
	return own
}
