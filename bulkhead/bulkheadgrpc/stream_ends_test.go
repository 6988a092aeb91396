package bulkheadgrpc_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// talk is a stream, as its client has it, whose handler runs.
type talk struct {
	*site
	grpc.ClientStream
	desc   *grpc.StreamDesc
	cancel context.CancelFunc
	let    chan struct{} // closed to let the handler go on, where it waits for that
}

// wantRecv receives a message, and fails t unless that ends with want, OK also
// for io.EOF.
func (k *talk) wantRecv(t *testing.T, want codes.Code) {
	t.Helper()
	err := k.RecvMsg(new(text))
	if err == io.EOF {
		err = nil
	}
	wantCode(t, "RecvMsg", err, want)
}

// sendNonsense makes SendMsg fail on the client: there is no way to encode this.
func (k *talk) sendNonsense(t *testing.T) {
	t.Helper()
	wantCode(t, "SendMsg", k.SendMsg("nonsense"), codes.Internal)
}

// What handlers do.

func untilCanceled(k *talk, s grpc.ServerStream) error {
	<-s.Context().Done()
	return s.Context().Err()
}

func fails(*talk, grpc.ServerStream) error { return status.Error(codes.NotFound, "no such thing") }

// replies sends the one message that every kind of stream allows.
func replies(_ *talk, s grpc.ServerStream) error { return s.SendMsg(wrapperspb.String("hello")) }

func once(_ *talk, s grpc.ServerStream) error { return s.RecvMsg(new(text)) }

// sends sends messages until that fails, which it does at the end of the stream:
// nobody reads them. gRPC may say so a moment before it ends the context.
func sends(_ *talk, s grpc.ServerStream) error {
	for {
		if err := s.SendMsg(wrapperspb.String(strings.Repeat("x", 1<<10))); err != nil {
			<-s.Context().Done()
			return err
		}
	}
}

const (
	download = "server-streaming"
	upload   = "client-streaming"
	both     = "bidirectional"
)

// streamEnds are the ways for a stream to end.
var streamEnds = []struct {
	reason     string
	kinds      []string // nil: every kind
	handler    func(*talk, grpc.ServerStream) error
	client     func(*testing.T, *talk) // once the handler runs
	wantServer string
	wantClient string
}{
	{
		reason:  "the handler returns after a message",
		kinds:   []string{download, both},
		handler: replies,
		client: func(t *testing.T, k *talk) {
			k.wantRecv(t, codes.OK)
			k.client.wantActive(t, 1) // there may be more
			k.wantRecv(t, codes.OK)
			k.client.wantActive(t, 0)
		},
		wantServer: "ok", wantClient: "ok",
	},
	{
		reason:  "the handler returns its only reply",
		kinds:   []string{upload},
		handler: replies,
		client: func(t *testing.T, k *talk) {
			k.wantRecv(t, codes.OK)
			k.client.wantActive(t, 0)
		},
		wantServer: "ok", wantClient: "ok",
	},
	{
		reason: "the client has no more to say, and then the handler returns",
		kinds:  []string{upload, both},
		handler: func(k *talk, s grpc.ServerStream) error {
			for {
				if err := s.RecvMsg(new(text)); err == io.EOF {
					<-k.let
					return replies(k, s)
				}
			}
		},
		client: func(t *testing.T, k *talk) {
			k.SendMsg(wrapperspb.String("hello"))
			k.CloseSend()
			k.client.wantActive(t, 1)
			k.server.wantActive(t, 1)
			close(k.let)
			k.wantRecv(t, codes.OK)
			if k.desc.ServerStreams {
				k.wantRecv(t, codes.OK)
			}
			k.client.wantActive(t, 0)
		},
		wantServer: "ok", wantClient: "ok",
	},
	{
		reason:  "the handler fails",
		handler: fails,
		client: func(t *testing.T, k *talk) {
			k.wantRecv(t, codes.NotFound)
			k.client.wantActive(t, 0)
			k.wantRecv(t, codes.NotFound) // again changes nothing
		},
		wantServer: "failed", wantClient: "failed",
	},
	{
		reason:  "the handler fails while the client sends",
		kinds:   []string{upload, both},
		handler: fails,
		client: func(t *testing.T, k *talk) {
			for k.SendMsg(wrapperspb.String("hello")) != io.EOF {
			}
			k.client.wantActive(t, 1) // RecvMsg knows why
			k.wantRecv(t, codes.NotFound)
		},
		wantServer: "failed", wantClient: "failed",
	},
	{
		reason:  "the handler fails before there are headers, and the client asks for them",
		handler: fails,
		client: func(t *testing.T, k *talk) {
			if _, err := k.Header(); err != nil {
				t.Errorf("Header: %v", err)
			}
			k.wantRecv(t, codes.NotFound)
		},
		wantServer: "failed", wantClient: "failed",
	},
	{
		reason:  "the handler returns nothing where a reply must be",
		kinds:   []string{upload},
		handler: func(*talk, grpc.ServerStream) error { return nil },
		client: func(t *testing.T, k *talk) {
			if err := k.RecvMsg(new(text)); err == nil {
				t.Error("RecvMsg: got nil, want an error")
			}
		},
		wantServer: "ok", wantClient: "failed",
	},
	{
		reason:     "the handler panics",
		handler:    func(*talk, grpc.ServerStream) error { panic("boom") },
		client:     func(t *testing.T, k *talk) { k.wantRecv(t, codes.Internal) },
		wantServer: "panicked", wantClient: "failed",
	},
	{
		reason:  "the handler calls Goexit, and the client gives up",
		handler: func(*talk, grpc.ServerStream) error { runtime.Goexit(); return nil },
		client: func(t *testing.T, k *talk) {
			k.server.wantEnd(t, "panicked")
			k.cancel()
			k.wantRecv(t, codes.Canceled)
		},
		wantClient: "released",
	},
	{
		reason:  "the client cancels and looks",
		handler: untilCanceled,
		client: func(t *testing.T, k *talk) {
			k.cancel()
			k.wantRecv(t, codes.Canceled)
		},
		wantServer: "released", wantClient: "released",
	},
	{
		reason:     "the client cancels and is gone",
		handler:    untilCanceled,
		client:     func(t *testing.T, k *talk) { k.cancel() },
		wantServer: "released", wantClient: "released",
	},
	{
		reason:     "the client cancels while the handler receives",
		handler:    once,
		kinds:      []string{upload, both},
		client:     func(t *testing.T, k *talk) { k.cancel() },
		wantServer: "released", wantClient: "released",
	},
	{
		reason:     "the client cancels while the handler cannot send",
		kinds:      []string{download, both},
		handler:    sends,
		client:     func(t *testing.T, k *talk) { k.cancel() },
		wantServer: "released", wantClient: "released",
	},
	{
		reason: "the client cancels and the handler says so by a status",
		handler: func(k *talk, s grpc.ServerStream) error {
			return status.FromContextError(untilCanceled(k, s)).Err()
		},
		client:     func(t *testing.T, k *talk) { k.cancel() },
		wantServer: "released", wantClient: "released",
	},
	{
		reason: "the client cancels and the handler takes it for a deadline",
		handler: func(k *talk, s grpc.ServerStream) error {
			untilCanceled(k, s)
			return status.Error(codes.DeadlineExceeded, "another service said so")
		},
		client:     func(t *testing.T, k *talk) { k.cancel() },
		wantServer: "released", wantClient: "released",
	},
	{
		reason: "the client cancels and the handler fails for another reason",
		handler: func(k *talk, s grpc.ServerStream) error {
			untilCanceled(k, s)
			return fails(k, s)
		},
		client:     func(t *testing.T, k *talk) { k.cancel() },
		wantServer: "failed", wantClient: "released",
	},
	{
		reason: "the client cancels and the handler does not mind",
		handler: func(k *talk, s grpc.ServerStream) error {
			<-k.let
			return nil
		},
		client: func(t *testing.T, k *talk) {
			k.cancel()
			k.client.wantEnd(t, "released")
			k.server.wantActive(t, 1) // as long as the handler runs
			close(k.let)
		},
		wantServer: "ok",
	},
	{
		reason: "the handler says Canceled without need",
		handler: func(*talk, grpc.ServerStream) error {
			return status.Error(codes.Canceled, "not by the client")
		},
		client:     func(t *testing.T, k *talk) { k.wantRecv(t, codes.Canceled) },
		wantServer: "failed", wantClient: "failed",
	},
	{
		reason:  "the client sends what cannot be sent",
		kinds:   []string{upload, both},
		handler: untilCanceled,
		client: func(t *testing.T, k *talk) {
			k.sendNonsense(t)
			k.client.wantActive(t, 0)
		},
		wantServer: "released", wantClient: "failed",
	},
	{
		reason: "the client cannot take what it receives",
		handler: func(k *talk, s grpc.ServerStream) error {
			if err := s.SendMsg(wrapperspb.String(strings.Repeat("x", 2*maxReceive))); err != nil {
				return err
			}
			return untilCanceled(k, s)
		},
		client: func(t *testing.T, k *talk) {
			k.wantRecv(t, codes.ResourceExhausted)
			k.client.wantActive(t, 0)
		},
		wantServer: "released", wantClient: "failed",
	},
	{
		reason:  "the client closes the connection and looks",
		handler: untilCanceled,
		client: func(t *testing.T, k *talk) {
			k.conn.Close()
			if err := k.RecvMsg(new(text)); err == nil {
				t.Error("RecvMsg: got nil, want an error")
			}
		},
		wantServer: "released", wantClient: "failed",
	},
	{
		reason:     "the client closes the connection and is gone",
		handler:    untilCanceled,
		client:     func(t *testing.T, k *talk) { k.conn.Close() },
		wantServer: "released", wantClient: "failed",
	},
	{
		reason:  "the connection breaks",
		handler: untilCanceled,
		client: func(t *testing.T, k *talk) {
			k.cut()
			k.wantRecv(t, codes.Unavailable)
			k.client.wantActive(t, 0)
		},
		wantServer: "released", wantClient: "failed",
	},
	{
		reason:  "the connection breaks while the handler receives",
		kinds:   []string{upload, both},
		handler: once,
		client: func(t *testing.T, k *talk) {
			k.cut()
			k.wantRecv(t, codes.Unavailable)
		},
		wantServer: "released", wantClient: "failed",
	},
	{
		reason:  "the connection breaks while the handler sends",
		kinds:   []string{download, both},
		handler: sends,
		client: func(t *testing.T, k *talk) {
			k.cut()
			for k.RecvMsg(new(text)) == nil {
			}
		},
		wantServer: "released", wantClient: "failed",
	},
	{
		reason:  "the server is killed",
		handler: untilCanceled,
		client: func(t *testing.T, k *talk) {
			k.grpc.Stop()
			k.wantRecv(t, codes.Unavailable)
			k.client.wantActive(t, 0)
		},
		wantServer: "released", wantClient: "failed",
	},
	{
		reason: "the server stops and waits for the handler",
		handler: func(k *talk, s grpc.ServerStream) error {
			<-k.let
			return replies(k, s)
		},
		client: func(t *testing.T, k *talk) {
			stopped := make(chan struct{})
			go func() { k.grpc.GracefulStop(); close(stopped) }()
			close(k.let)
			receive(t, "the server to stop", stopped)
			for k.RecvMsg(new(text)) == nil && k.desc.ServerStreams {
			}
		},
		wantServer: "ok", wantClient: "ok",
	},
}

const maxReceive = 1 << 16

func TestStreamHoldsItsPermitUntilItEnds(t *testing.T) {
	for _, way := range streamEnds {
		for kind, desc := range kinds {
			if way.kinds != nil && !slices.Contains(way.kinds, kind) {
				continue
			}
			t.Run(way.reason+"/"+kind, func(t *testing.T) {
				k := &talk{desc: desc, let: make(chan struct{})}
				entered := make(chan struct{})
				k.site = newSite(t, &service{stream: func(s grpc.ServerStream) error {
					k.server.wantActive(t, 1)
					if !desc.ClientStreams {
						if err := s.RecvMsg(new(text)); err != nil {
							return err
						}
					}
					close(entered)
					return way.handler(k, s)
				}}, siteConfig{grpcClient: []grpc.DialOption{
					grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReceive)),
				}})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				k.cancel = cancel
				var err error
				if k.ClientStream, err = k.open(ctx, desc); err != nil {
					t.Fatal(err)
				}
				if !desc.ClientStreams {
					k.SendMsg(wrapperspb.String("go"))
					k.CloseSend()
				}
				receive(t, "the handler to run", entered)
				k.client.wantActive(t, 1)
				way.client(t, k)
				for _, end := range []struct {
					*side
					want string
				}{{k.client, way.wantClient}, {k.server, way.wantServer}} {
					if end.want != "" {
						e := end.wantEnd(t, end.want)
						if end.want == "released" && !errors.Is(e.Err, context.Canceled) {
							t.Errorf("%s: Released.Err = %v, want one that matches context.Canceled", end.name, e.Err)
						}
					}
				}
				k.cancel() // and what comes later ends nothing twice
				k.client.wantRest(t, 1)
				k.server.wantRest(t, 1)
			})
		}
	}
}
