package bulkheadgrpc_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
)

// What was reported of other limiters, in its gRPC form. That every way to call
// gives its permit back when a call is canceled, which
// https://github.com/failsafe-go/failsafe-go/releases/tag/v0.9.2 mended, is among
// the tables of how calls and streams end.

// https://github.com/valyala/fasthttp/issues/2219: after as many panics as there
// are slots, the server refuses everything.
func TestPanicsDoNotUseUpTheLimit(t *testing.T) {
	panicking := true
	s := newSite(t, answering(func(context.Context) error {
		if panicking {
			panic("boom")
		}
		return nil
	}), siteConfig{server: bulkhead.Config{MaxConcurrent: 2}})
	for range 5 {
		for form, call := range callers {
			wantCode(t, form, call(t.Context(), s), codes.Internal)
		}
	}
	panicking = false
	wantCode(t, "a call after the panics", callers["unary"](t.Context(), s), codes.OK)
	s.server.wantRest(t, 11)
	s.client.wantRest(t, 11)
}

// https://github.com/envoyproxy/envoy/issues/11504: clients that leave in the
// middle of the response stay counted.
func TestClientsThatLeaveInTheMiddleAreNotCounted(t *testing.T) {
	const clients = 50
	s := newSite(t, &service{stream: func(s grpc.ServerStream) error { return sends(nil, s) }}, siteConfig{
		server: bulkhead.Config{MaxConcurrent: 2},
	})
	for range clients {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := s.open(ctx, kinds[both])
		if err != nil {
			t.Fatal(err)
		}
		(&talk{ClientStream: stream}).wantRecv(t, codes.OK)
		cancel()
		s.client.wantEnd(t, "released")
		s.server.wantEnd(t, "released")
	}
	s.client.wantRest(t, clients)
	s.server.wantRest(t, clients)
}

// https://github.com/palantir/conjure-java-runtime/issues/1137: is a permit for
// the headers or for all of the response? For all of it.
func TestStreamHoldsItsPermitBeyondItsHeaders(t *testing.T) {
	let := make(chan struct{})
	s := newSite(t, &service{stream: func(stream grpc.ServerStream) error {
		if err := replies(nil, stream); err != nil {
			return err
		}
		<-let
		return nil
	}}, siteConfig{})
	stream, err := s.open(t.Context(), kinds[both])
	if err != nil {
		t.Fatal(err)
	}
	if md, err := stream.Header(); md == nil || err != nil {
		t.Errorf("Header = %v, %v", md, err)
	}
	(&talk{ClientStream: stream}).wantRecv(t, codes.OK)
	_, err = s.open(t.Context(), kinds[both])
	wantCode(t, "another stream meanwhile", err, codes.ResourceExhausted)
	close(let)
	if err := stream.RecvMsg(new(text)); err != io.EOF {
		t.Errorf("RecvMsg = %v, want io.EOF", err)
	}
	wantCode(t, "another stream after that", readAll(t.Context(), s), codes.OK)
}

// https://github.com/failsafe-go/failsafe-go/issues/123: what reads the response
// later must not find its context canceled because the call has returned.
func TestOpenedStreamGoesOn(t *testing.T) {
	s := newSite(t, &service{stream: func(stream grpc.ServerStream) error {
		for {
			in := new(text)
			if err := stream.RecvMsg(in); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.SendMsg(in); err != nil {
				return err
			}
		}
	}}, siteConfig{client: bulkhead.Config{MaxWait: bulkhead.Forever}})
	stream, err := s.open(t.Context(), kinds[both])
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		out := new(text)
		if err := stream.SendMsg(wrapperspb.String("hello")); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(out); out.Value != "hello" || err != nil {
			t.Fatalf("RecvMsg: %q, %v, want hello", out.Value, err)
		}
	}
	stream.CloseSend()
	if err := stream.RecvMsg(new(text)); err != io.EOF {
		t.Errorf("RecvMsg = %v, want io.EOF", err)
	}
	s.client.wantEnd(t, "ok")
	s.server.wantEnd(t, "ok")
}

// https://github.com/navidrome/navidrome/issues/5472: clients that stop reading
// hold what they have. A handler that sends to them holds its permit; one that is
// skipped and bounds only the work holds none while it sends.
func TestStalledReader(t *testing.T) {
	for _, early := range []bool{false, true} {
		t.Run(map[bool]string{false: "held", true: "skipped"}[early], func(t *testing.T) {
			var s *site
			sending := make(chan struct{})
			work := func(context.Context) (string, error) {
				s.server.wantActive(t, 1)
				return strings.Repeat("x", 1<<20), nil // more than the connection takes
			}
			svc := answering(func(context.Context) error { return nil })
			svc.stream = func(stream grpc.ServerStream) error {
				do := bulkhead.Do[string]
				if !early {
					do = func(ctx context.Context, _ bulkhead.Any, fn func(context.Context) (string, error)) (string, error) {
						return fn(ctx)
					}
				}
				long, err := do(stream.Context(), s.server, work)
				if err != nil {
					return bulkheadgrpc.StatusError(err)
				}
				close(sending)
				for {
					if err := stream.SendMsg(wrapperspb.String(long)); err != nil {
						return err
					}
				}
			}
			s = newSite(t, svc, siteConfig{
				client:     bulkhead.Config{MaxConcurrent: 2},
				serverOpts: bulkheadgrpc.Options{Skip: func(method string) bool { return early && method != unaryMethod }},
			})
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := s.open(ctx, kinds[both]); err != nil {
				t.Fatal(err)
			}
			receive(t, "the handler to send", sending)
			code := codes.ResourceExhausted
			if early {
				code = codes.OK
			}
			wantCode(t, "another call", callers["unary"](t.Context(), s), code)
			cancel()
			s.client.wantEnd(t, map[bool]string{false: "failed", true: "ok"}[early])
			s.client.wantEnd(t, "released")
		})
	}
}
