package bulkheadgrpc

import (
	"context"

	"google.golang.org/grpc"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// UnaryServerInterceptor returns an interceptor that lets each unary call that
// arrives run with a permit of b, which it waits for as b's MaxWait or the
// handle says, and no longer than its client does. A call that gets none does
// not reach the handler, and its client is told as the package documentation
// says.
//
// The permit is back exactly once, when the handler has ended, be it by
// returning, by a panic, which goes on to whoever recovers it, or by
// runtime.Goexit. That its client has gone, or that the server is stopped, frees
// no permit under a handler that runs.
//
// gRPC reads the request before it calls an interceptor, so calls that wait hold
// theirs in memory: see MaxQueue in [bulkhead.Config].
//
// It panics if b is nil. The result is safe for concurrent use if the functions
// in opts are.
func UnaryServerInterceptor(b bulkhead.Any, opts Options) grpc.UnaryServerInterceptor {
	g := newGuard("UnaryServerInterceptor", b, opts)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
		permit, err := g.acquire(ctx, info.FullMethod, req)
		if err != nil {
			return nil, err
		}
		returned := false
		defer func() { giveBack(ctx, permit, returned, err) }()
		resp, err = handler(ctx, req)
		returned = true
		return resp, err
	}
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streams: each holds a
// permit from its start until its handler has ended, also while the handler
// waits for a slow client to send or to receive. The handler gets the stream as
// it is.
//
// That is too long for streams that last by nature and have little to do, such
// as a watch: they would use up the limit. Skip those, and let their handlers
// run the parts that cost something with [bulkhead.Do]; see [StatusError].
func StreamServerInterceptor(b bulkhead.Any, opts Options) grpc.StreamServerInterceptor {
	g := newGuard("StreamServerInterceptor", b, opts)
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		ctx := stream.Context()
		permit, err := g.acquire(ctx, info.FullMethod, nil)
		if err != nil {
			return err
		}
		returned := false
		defer func() { giveBack(ctx, permit, returned, err) }()
		err = handler(srv, stream)
		returned = true
		return err
	}
}
