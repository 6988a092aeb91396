package bulkheadgrpc

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// UnaryClientInterceptor returns an interceptor that makes each unary call with a
// permit of b, which it waits for as b's MaxWait or the handle says, and no
// longer than the call's context allows. If it gets none, nothing is sent, and
// the error is the bulkhead's with a status, as the package documentation says.
//
// The permit is back exactly once, when the call has ended. Until then it covers
// what gRPC does for the call: waiting for a connection, and the retries of a
// service config.
//
// It panics if b is nil. The result is safe for concurrent use if the functions
// in opts are.
func UnaryClientInterceptor(b bulkhead.Any, opts Options) grpc.UnaryClientInterceptor {
	g := newGuard("UnaryClientInterceptor", b, opts)
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, callOpts ...grpc.CallOption) (err error) {
		permit, err := g.acquire(ctx, method, req)
		if err != nil {
			return err
		}
		returned := false
		defer func() { giveBack(ctx, permit, returned, err) }()
		err = invoker(ctx, method, req, reply, cc, callOpts...)
		returned = true
		return err
	}
}

// StreamClientInterceptor is [UnaryClientInterceptor] for streams. A stream holds
// its permit until it ends, which is the first of what gRPC asks of whoever
// opens one:
//
//   - RecvMsg, or Recv of a generated client, returns an error, be it io.EOF; or,
//     where the server sends only one message, returns that;
//   - SendMsg or Header returns an error, but for io.EOF, which means that
//     RecvMsg knows more;
//   - the context of the call ends, whether or not anybody uses the stream;
//   - the connection is closed, likewise.
//
// The permit is back before a method that ends the stream returns; after the end
// of the context or the connection, a moment later, as the stream is. CloseSend
// ends nothing: the server may still send. A stream that is given up needs its
// context canceled, or gRPC keeps it and the bulkhead its permit. That the server
// has ended it, or a timeout of the service config has, is seen by whoever
// receives.
//
// The outcome is RecvMsg's error, OK for io.EOF. A listener that panics does so
// out of the method that ended the stream. If that was the context or the
// connection, there is nobody to tell, and the panic is dropped.
func StreamClientInterceptor(b bulkhead.Any, opts Options) grpc.StreamClientInterceptor {
	g := newGuard("StreamClientInterceptor", b, opts)
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, callOpts ...grpc.CallOption) (grpc.ClientStream, error) {
		oneReply := !desc.ServerStreams // if desc is nil, there is no permit yet to lose
		permit, err := g.acquire(ctx, method, nil)
		switch {
		case err != nil:
			return nil, err
		case permit == nil: // the stream is skipped
			return streamer(ctx, desc, cc, method, callOpts...)
		}
		s := &clientStream{ctx: ctx, conn: cc, permit: permit, oneReply: oneReply}
		return s.open(func() (grpc.ClientStream, error) {
			return streamer(ctx, desc, cc, method, append(slices.Clip(callOpts), s.untilClosed())...)
		})
	}
}
