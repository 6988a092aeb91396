package bulkheadhttp

import (
	"context"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// ReleaseEarly gives back, now, the permit that the request of ctx got from a
// [NewHandler], before the handler has ended. It is for a response that goes on
// for long and is cheap meanwhile, such as server-sent events, a websocket, or
// a large file to a slow client: the work that the bulkhead bounds is done, and
// the handler goes on without a permit.
//
// ctx is the request's, or one made from it. If several such handlers are
// nested, the permits of all that the request has passed through so far are
// given back, the innermost first. Listeners are told that the call is Finished
// with OK, on this goroutine, and how the handler ends after that is not told.
//
// Calling it again, or after the handler has ended, does nothing, and so it
// does for a context without a permit, such as that of a request that was
// skipped. It may be called from any goroutine.
func ReleaseEarly(ctx context.Context) {
	if g := guarding(ctx); g != nil {
		defer ReleaseEarly(g.Context) // even if a listener panics
		g.permit.Complete(nil)
	}
}

// guardedContext is the context of a request that holds a permit.
type guardedContext struct {
	context.Context
	permit *bulkhead.Permit
}

// guardedKey asks a context for the innermost guardedContext that it is, or is
// made from.
type guardedKey struct{}

func (g *guardedContext) Value(key any) any {
	if key == (guardedKey{}) {
		return g
	}
	return g.Context.Value(key)
}

func guarding(ctx context.Context) *guardedContext {
	g, _ := ctx.Value(guardedKey{}).(*guardedContext)
	return g
}
