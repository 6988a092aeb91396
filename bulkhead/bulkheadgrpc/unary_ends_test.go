package bulkheadgrpc_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// unary is a unary call whose handler runs.
type unary struct {
	*site
	cancel context.CancelFunc
	let    chan struct{} // closed to let the handler go on, where it waits for that
}

// unaryEnds are the ways for a unary call to end.
var unaryEnds = []struct {
	reason     string
	handler    func(*unary, context.Context) error
	meanwhile  func(*testing.T, *unary) // nil: nothing
	code       codes.Code               // that the client sees
	wantServer string
	wantClient string
}{
	{
		reason:     "the handler returns",
		handler:    func(*unary, context.Context) error { return nil },
		wantServer: "ok", wantClient: "ok",
	},
	{
		reason:  "the handler fails",
		handler: func(*unary, context.Context) error { return status.Error(codes.NotFound, "no such thing") },
		code:    codes.NotFound, wantServer: "failed", wantClient: "failed",
	},
	{
		reason:  "the handler fails without a status",
		handler: func(*unary, context.Context) error { return errors.New("boom") },
		code:    codes.Unknown, wantServer: "failed", wantClient: "failed",
	},
	{
		reason:  "the handler says Canceled without need",
		handler: func(*unary, context.Context) error { return context.Canceled },
		code:    codes.Canceled, wantServer: "failed", wantClient: "failed",
	},
	{
		reason:  "the handler panics",
		handler: func(*unary, context.Context) error { panic("boom") },
		code:    codes.Internal, wantServer: "panicked", wantClient: "failed",
	},
	{
		reason:  "the handler calls Goexit, and the client gives up",
		handler: func(*unary, context.Context) error { runtime.Goexit(); return nil },
		meanwhile: func(t *testing.T, u *unary) {
			u.server.wantEnd(t, "panicked")
			u.cancel()
		},
		code: codes.Canceled, wantClient: "released",
	},
	{
		reason:    "the client cancels",
		handler:   func(_ *unary, ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		meanwhile: func(t *testing.T, u *unary) { u.cancel() },
		code:      codes.Canceled, wantServer: "released", wantClient: "released",
	},
	{
		reason: "the client cancels and the handler says so by a status",
		handler: func(_ *unary, ctx context.Context) error {
			<-ctx.Done()
			return status.FromContextError(ctx.Err()).Err()
		},
		meanwhile: func(t *testing.T, u *unary) { u.cancel() },
		code:      codes.Canceled, wantServer: "released", wantClient: "released",
	},
	{
		reason:    "the client cancels and the handler takes it for a deadline",
		handler:   func(_ *unary, ctx context.Context) error { <-ctx.Done(); return context.DeadlineExceeded },
		meanwhile: func(t *testing.T, u *unary) { u.cancel() },
		code:      codes.Canceled, wantServer: "released", wantClient: "released",
	},
	{
		reason: "the client cancels and the handler fails for another reason",
		handler: func(_ *unary, ctx context.Context) error {
			<-ctx.Done()
			return status.Error(codes.NotFound, "no such thing")
		},
		meanwhile: func(t *testing.T, u *unary) { u.cancel() },
		code:      codes.Canceled, wantServer: "failed", wantClient: "released",
	},
	{
		reason:  "the client cancels and the handler does not mind",
		handler: func(u *unary, ctx context.Context) error { <-u.let; return nil },
		meanwhile: func(t *testing.T, u *unary) {
			u.cancel()
			u.client.wantEnd(t, "released")
			u.server.wantActive(t, 1) // as long as the handler runs
			close(u.let)
		},
		code: codes.Canceled, wantServer: "ok",
	},
	{
		reason:    "the client closes the connection",
		handler:   func(_ *unary, ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		meanwhile: func(t *testing.T, u *unary) { u.conn.Close() },
		code:      codes.Canceled, wantServer: "released", wantClient: "failed",
	},
	{
		reason:    "the connection breaks",
		handler:   func(_ *unary, ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		meanwhile: func(t *testing.T, u *unary) { u.cut() },
		code:      codes.Unavailable, wantServer: "released", wantClient: "failed",
	},
	{
		reason:    "the server is killed",
		handler:   func(_ *unary, ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		meanwhile: func(t *testing.T, u *unary) { u.grpc.Stop() },
		code:      codes.Unavailable, wantServer: "released", wantClient: "failed",
	},
	{
		reason:  "the server stops and waits for the handler",
		handler: func(u *unary, _ context.Context) error { <-u.let; return nil },
		meanwhile: func(t *testing.T, u *unary) {
			stopped := make(chan struct{})
			go func() { u.grpc.GracefulStop(); close(stopped) }()
			close(u.let)
			receive(t, "the server to stop", stopped)
		},
		wantServer: "ok", wantClient: "ok",
	},
}

func TestUnaryCallHoldsItsPermitUntilItEnds(t *testing.T) {
	for _, way := range unaryEnds {
		t.Run(way.reason, func(t *testing.T) {
			u := &unary{let: make(chan struct{})}
			entered := make(chan struct{})
			u.site = newSite(t, &service{unary: func(ctx context.Context, _ *text) (*text, error) {
				u.server.wantActive(t, 1)
				u.client.wantActive(t, 1)
				close(entered)
				if err := way.handler(u, ctx); err != nil {
					return nil, err
				}
				return wrapperspb.String("hello"), nil
			}}, siteConfig{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			u.cancel = cancel
			done := make(chan error, 1)
			go func() {
				_, err := u.call(ctx, "")
				done <- err
			}()
			receive(t, "the handler to run", entered)
			if way.meanwhile != nil {
				way.meanwhile(t, u)
			}
			wantCode(t, "the call", receive(t, "the call to end", done), way.code)
			if way.wantClient != "" {
				u.client.wantEnd(t, way.wantClient)
			}
			if way.wantServer != "" {
				u.server.wantEnd(t, way.wantServer)
			}
			u.client.wantRest(t, 1)
			u.server.wantRest(t, 1)
		})
	}
}
