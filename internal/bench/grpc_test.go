package bench

import (
	"context"
	"io"
	"net"
	"testing"

	failsafebulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
)

// interceptors guard calls with one bulkhead. What a contender lacks is nil.
type interceptors struct {
	unaryServer  grpc.UnaryServerInterceptor
	unaryClient  grpc.UnaryClientInterceptor
	streamServer grpc.StreamServerInterceptor
	streamClient grpc.StreamClientInterceptor

	take func() bool // takes a permit away
}

// An interceptorsFunc makes them with a bulkhead of that limit, in which nobody
// waits.
type interceptorsFunc = func(limit int64) interceptors

// grpcs in the order of benchstat's columns. The bare ones do nothing: that is
// what all of it costs without a limit.
var grpcs = []contender[interceptorsFunc]{
	{"turnstile", func(limit int64) interceptors {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "bench", MaxConcurrent: limit})
		return interceptors{
			unaryServer:  bulkheadgrpc.UnaryServerInterceptor(b, bulkheadgrpc.Options{}),
			unaryClient:  bulkheadgrpc.UnaryClientInterceptor(b, bulkheadgrpc.Options{}),
			streamServer: bulkheadgrpc.StreamServerInterceptor(b, bulkheadgrpc.Options{}),
			streamClient: bulkheadgrpc.StreamClientInterceptor(b, bulkheadgrpc.Options{}),
			take:         func() bool { _, ok := b.TryAcquire(); return ok },
		}
	}},
	{"failsafe", func(limit int64) interceptors {
		b := failsafebulkhead.New[any](uint(limit))
		return interceptors{
			unaryServer: failsafegrpc.NewUnaryServerInterceptor[any](b),
			unaryClient: failsafegrpc.NewUnaryClientInterceptor[any](b),
			take:        b.TryAcquirePermit,
		}
	}},
	{"bare", func(int64) interceptors {
		return interceptors{
			unaryServer: func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				return handler(ctx, req)
			},
			unaryClient: func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return invoker(ctx, method, req, reply, cc, opts...)
			},
			streamServer: func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
				return handler(srv, stream)
			},
			streamClient: func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				return streamer(ctx, desc, cc, method, opts...)
			},
		}
	}},
}

// streamers are those who guard streams, too.
var streamers = []contender[interceptorsFunc]{grpcs[0], grpcs[2]}

const (
	unaryMethod  = "/bench.Service/Unary"
	streamMethod = "/bench.Service/Stream"
)

var nowhere = &grpc.UnaryServerInfo{FullMethod: unaryMethod}

func answerNothing(context.Context, any) (any, error) { return nil, nil }

// BenchmarkGRPCInterceptor is an interceptor called directly, with permits free:
// what a guard costs before there is a network.
func BenchmarkGRPCInterceptor(b *testing.B) {
	b.Run("side=server", func(b *testing.B) {
		run(b, grpcs, func(b *testing.B, guard interceptorsFunc) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			intercept := guard(16).unaryServer
			for b.Loop() {
				if _, err := intercept(ctx, nil, nowhere, answerNothing); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("side=client", func(b *testing.B) {
		run(b, grpcs, func(b *testing.B, guard interceptorsFunc) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			intercept := guard(16).unaryClient
			invoke := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
			for b.Loop() {
				if err := intercept(ctx, unaryMethod, nil, nil, nil, invoke); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkGRPCReject is the answer of a server whose permits are taken, up to
// the status that it sends. That of failsafe is Unknown and has no details.
func BenchmarkGRPCReject(b *testing.B) {
	run(b, grpcs[:2], func(b *testing.B, guard interceptorsFunc) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		g := guard(1)
		if !g.take() {
			b.Fatal("no permit in a fresh bulkhead")
		}
		for b.Loop() {
			_, err := g.unaryServer(ctx, nil, nowhere, answerNothing)
			if code := status.Convert(err).Code(); code != codes.ResourceExhausted && code != codes.Unknown {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkGRPCCall is a call over loopback, one after the other on one
// connection, guarded on one side. A stream sends one message and gets it back.
func BenchmarkGRPCCall(b *testing.B) {
	for _, form := range []struct {
		name       string
		contenders []contender[interceptorsFunc]
		call       func(context.Context, *grpc.ClientConn) error
	}{
		{"unary", grpcs, callUnary},
		{"stream", streamers, callStream},
	} {
		for _, side := range []string{"server", "client"} {
			b.Run("form="+form.name+"/side="+side, func(b *testing.B) {
				run(b, form.contenders, func(b *testing.B, guard interceptorsFunc) {
					conn := connect(b, side, guard(16))
					ctx, cancel := context.WithCancel(b.Context())
					defer cancel()
					for b.Loop() {
						if err := form.call(ctx, conn); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

func callUnary(ctx context.Context, conn *grpc.ClientConn) error {
	return conn.Invoke(ctx, unaryMethod, new(emptypb.Empty), new(emptypb.Empty))
}

func callStream(ctx context.Context, conn *grpc.ClientConn) error {
	stream, err := conn.NewStream(ctx, &echo.Streams[0], streamMethod)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(new(emptypb.Empty)); err != nil {
		return err
	}
	stream.CloseSend()
	for {
		if err := stream.RecvMsg(new(emptypb.Empty)); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// connect returns a connection to a server of echo, both ending with b.
func connect(b *testing.B, side string, guard interceptors) *grpc.ClientConn {
	var server []grpc.ServerOption
	client := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if side == "server" {
		server = append(server, grpc.UnaryInterceptor(guard.unaryServer), grpc.StreamInterceptor(guard.streamServer))
	} else {
		client = append(client, grpc.WithUnaryInterceptor(guard.unaryClient), grpc.WithStreamInterceptor(guard.streamClient))
	}
	srv := grpc.NewServer(server...)
	srv.RegisterService(&echo, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go srv.Serve(listener) // returns once the server is stopped
	b.Cleanup(srv.Stop)
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), client...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// echo is a service as protoc would describe it.
var echo = grpc.ServiceDesc{
	ServiceName: "bench.Service",
	Methods: []grpc.MethodDesc{{
		MethodName: "Unary",
		Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(emptypb.Empty)
			if err := decode(in); err != nil {
				return nil, err
			}
			handler := func(_ context.Context, req any) (any, error) { return req, nil }
			if intercept == nil {
				return handler(ctx, in)
			}
			return intercept(ctx, in, nowhere, handler)
		},
	}},
	Streams: []grpc.StreamDesc{{
		StreamName:    "Stream",
		ServerStreams: true,
		ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			for {
				in := new(emptypb.Empty)
				if err := stream.RecvMsg(in); err == io.EOF {
					return nil
				} else if err != nil {
					return err
				}
				if err := stream.SendMsg(in); err != nil {
					return err
				}
			}
		},
	}},
}
