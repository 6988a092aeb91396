package bulkheadgrpc_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
)

var info = &grpc.UnaryServerInfo{FullMethod: unaryMethod}

// Connections that last take no permits from the calls, if they are skipped.
// See https://github.com/aviddiviner/gin-limit/issues/3.
func TestSkippedMethodsNeedNoPermit(t *testing.T) {
	skipTalk := bulkheadgrpc.Options{Skip: func(method string) bool { return method == methodOf(kinds[both]) }}
	skipUnary := bulkheadgrpc.Options{Skip: func(method string) bool { return method == unaryMethod }}
	for _, tc := range []struct {
		reason       string
		opts         bulkheadgrpc.Options
		unary, talks codes.Code
	}{
		{"streams of a kind", skipTalk, codes.ResourceExhausted, codes.OK},
		{"unary calls", skipUnary, codes.OK, codes.ResourceExhausted},
	} {
		for where, cfg := range map[string]siteConfig{
			"server": {serverOpts: tc.opts},
			"client": {clientOpts: tc.opts},
		} {
			t.Run(tc.reason+"/"+where, func(t *testing.T) {
				s := newSite(t, &service{
					unary:  func(context.Context, *text) (*text, error) { return new(text), nil },
					stream: func(s grpc.ServerStream) error { return replies(nil, s) },
				}, cfg)
				full := map[string]*side{"server": s.server, "client": s.client}[where]
				fill(t, full)
				wantCode(t, "unary", callers["unary"](t.Context(), s), tc.unary)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				wantCode(t, "stream", callers["stream"](ctx, s), tc.talks)
			})
		}
	}
}

// weighed is what a Weight function was asked, and answers with the length of
// the request.
type weighed struct{ asked []string }

func (w *weighed) options() bulkheadgrpc.Options {
	return bulkheadgrpc.Options{Weight: func(ctx context.Context, method string, req any) int64 {
		in, _ := req.(*text)
		w.asked = append(w.asked, fmt.Sprintf("%s %T %v", method, req, ctx.Err()))
		return int64(max(1, len(in.GetValue())))
	}}
}

func TestWeightMayDependOnTheRequest(t *testing.T) {
	var onServer, onClient weighed
	var s *site
	s = newSite(t, &service{
		unary: func(_ context.Context, in *text) (*text, error) {
			s.server.wantActive(t, int64(len(in.Value)))
			s.client.wantActive(t, int64(len(in.Value)))
			return in, nil
		},
		stream: func(stream grpc.ServerStream) error {
			s.server.wantActive(t, 1)
			return replies(nil, stream)
		},
	}, siteConfig{
		server:     bulkhead.Config{MaxConcurrent: 5},
		client:     bulkhead.Config{MaxConcurrent: 5},
		serverOpts: onServer.options(),
		clientOpts: onClient.options(),
	})
	for n := range 5 {
		in := strings.Repeat("x", n+1)
		if out, err := s.call(t.Context(), in); out != in || err != nil {
			t.Errorf("call(%q) = %q, %v", in, out, err)
		}
	}
	stream, err := s.open(t.Context(), kinds[upload])
	if err != nil {
		t.Fatal(err)
	}
	s.client.wantActive(t, 1)
	(&talk{ClientStream: stream}).wantRecv(t, codes.OK)
	s.client.wantRest(t, 6)
	s.server.wantRest(t, 6)
	for _, w := range []weighed{onServer, onClient} {
		want := strings.Repeat(unaryMethod+" *wrapperspb.StringValue <nil>\n", 5) + "/test.Service/Upload <nil> <nil>"
		if got := strings.Join(w.asked, "\n"); got != want {
			t.Errorf("the weight was asked for\n%s\nwant\n%s", got, want)
		}
	}
}

// A handle is a bulkhead, too: here one through which each call weighs 2.
func TestHandleWeighs(t *testing.T) {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "calls", MaxConcurrent: 3})
	intercept := bulkheadgrpc.UnaryServerInterceptor(b.Weighing(2), bulkheadgrpc.Options{})
	_, err := intercept(t.Context(), nil, info, func(context.Context, any) (any, error) {
		if got := b.Stats().Active; got != 2 {
			t.Errorf("%d permits in flight, want 2", got)
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNilBulkheadPanics(t *testing.T) {
	var unset *bulkhead.Bulkhead[any]
	for reason, b := range map[string]bulkhead.Any{"nothing": nil, "a bulkhead that is yet to be made": unset} {
		for name, construct := range map[string]func(){
			"UnaryServerInterceptor":  func() { bulkheadgrpc.UnaryServerInterceptor(b, bulkheadgrpc.Options{}) },
			"StreamServerInterceptor": func() { bulkheadgrpc.StreamServerInterceptor(b, bulkheadgrpc.Options{}) },
			"UnaryClientInterceptor":  func() { bulkheadgrpc.UnaryClientInterceptor(b, bulkheadgrpc.Options{}) },
			"StreamClientInterceptor": func() { bulkheadgrpc.StreamClientInterceptor(b, bulkheadgrpc.Options{}) },
		} {
			if got, want := panicOf(construct), "bulkheadgrpc: "+name+" with a nil bulkhead"; got != want {
				t.Errorf("%s of %s: panic %v, want %s", name, reason, got, want)
			}
		}
	}
}

// What the handler returns reaches its caller as it is, a value beside an error
// included.
func TestHandlersResultIsUntouched(t *testing.T) {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "calls", MaxConcurrent: 1})
	ctx, cancel := context.WithCancel(t.Context())
	want := fmt.Errorf("mine: %w", context.Canceled)
	resp, err := bulkheadgrpc.UnaryServerInterceptor(b, bulkheadgrpc.Options{})(ctx, nil, info,
		func(context.Context, any) (any, error) {
			cancel()
			return wrapperspb.String("hello"), want
		})
	if got, ok := resp.(*text); !ok || got.Value != "hello" || err != want {
		t.Errorf("got %v, %v, want hello and the handler's error", resp, err)
	}
}
