package bulkheadgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
)

// A server that takes ten calls at once and a client that makes three, each
// refused by one of them in turn.
func Example() {
	calls := bulkhead.MustNew[any](bulkhead.Config{Name: "calls", MaxConcurrent: 10})
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(bulkheadgrpc.UnaryServerInterceptor(calls, bulkheadgrpc.Options{})),
		grpc.ChainStreamInterceptor(bulkheadgrpc.StreamServerInterceptor(calls, bulkheadgrpc.Options{})),
	)
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Stop()

	backend := bulkhead.MustNew[any](bulkhead.Config{Name: "backend", MaxConcurrent: 3})
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(bulkheadgrpc.UnaryClientInterceptor(backend, bulkheadgrpc.Options{})),
		grpc.WithChainStreamInterceptor(bulkheadgrpc.StreamClientInterceptor(backend, bulkheadgrpc.Options{})),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	check := func() {
		answer, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		if rejected, ok := bulkheadgrpc.RemoteRejection(err); ok {
			fmt.Printf("%v: the server's %s is %v\n", status.Code(err), rejected.Name, rejected.Reason)
		} else if errors.Is(err, bulkhead.ErrFull) {
			fmt.Printf("%v: nothing was sent\n", status.Code(err))
		} else {
			fmt.Println(answer.GetStatus(), err)
		}
	}

	check()
	others, _ := calls.Weighing(10).TryAcquire() // the server is busy with others
	check()
	others.Release()
	own, _ := backend.Weighing(3).TryAcquire() // the client waits for other calls
	check()
	own.Release()
	check()
	// Output:
	// SERVING <nil>
	// ResourceExhausted: the server's calls is full
	// ResourceExhausted: nothing was sent
	// SERVING <nil>
}

// Health checks need no permit, and a call with a long text holds many.
func ExampleOptions() {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "translation", MaxConcurrent: 100})
	intercept := bulkheadgrpc.UnaryServerInterceptor(b, bulkheadgrpc.Options{
		Skip: func(fullMethod string) bool {
			return fullMethod == healthpb.Health_Check_FullMethodName
		},
		Weight: func(_ context.Context, _ string, req any) int64 {
			if long, ok := req.(interface{ GetValue() string }); ok {
				return 1 + int64(len(long.GetValue())/1000)
			}
			return 1
		},
	})

	// What gRPC does when a call arrives:
	handler := func(context.Context, any) (any, error) {
		fmt.Println(b.Stats().Active, "permits in flight")
		return nil, nil
	}
	check := &grpc.UnaryServerInfo{FullMethod: healthpb.Health_Check_FullMethodName}
	intercept(context.Background(), &healthpb.HealthCheckRequest{}, check, handler)
	translate := &grpc.UnaryServerInfo{FullMethod: "/translation.Translator/Translate"}
	intercept(context.Background(), wrapperspb.String("hello"), translate, handler)
	intercept(context.Background(), wrapperspb.String(strings.Repeat("hello ", 1000)), translate, handler)
	// Output:
	// 0 permits in flight
	// 1 permits in flight
	// 7 permits in flight
}

// A handler with a bulkhead of its own, around a part of its work.
func ExampleStatusError() {
	database := bulkhead.MustNew[any](bulkhead.Config{Name: "database", MaxConcurrent: 10})
	lookUp := func(ctx context.Context, id int) (string, error) {
		name, err := bulkhead.Do(ctx, database, func(context.Context) (string, error) {
			return "Ada", nil
		})
		return name, bulkheadgrpc.StatusError(err)
	}

	name, err := lookUp(context.Background(), 7)
	fmt.Printf("%q, %v\n", name, status.Code(err))
	database.Close()
	name, err = lookUp(context.Background(), 7)
	fmt.Printf("%q, %v\n", name, status.Code(err))
	// Output:
	// "Ada", OK
	// "", ResourceExhausted
}
