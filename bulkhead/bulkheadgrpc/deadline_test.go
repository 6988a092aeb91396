package bulkheadgrpc_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
	"github.com/turnstile-go/turnstile/event"
)

// callers make a call of either form and wait for its end.
var callers = map[string]func(context.Context, *site) error{
	"unary": func(ctx context.Context, s *site) error {
		_, err := s.call(ctx, "")
		return err
	},
	"stream": func(ctx context.Context, s *site) error {
		stream, err := s.open(ctx, kinds[both])
		if err != nil {
			return err
		}
		return stream.RecvMsg(new(text))
	},
}

// answering returns a service that does the same whichever way it is called.
func answering(handler func(context.Context) error) *service {
	return &service{
		unary:  func(ctx context.Context, _ *text) (*text, error) { return new(text), handler(ctx) },
		stream: func(s grpc.ServerStream) error { return handler(s.Context()) },
	}
}

// A deadline ends the call on both sides, on each by its own clock. On loopback
// the server is often quicker, and tells the client before its context is done.
func TestDeadlineReleasesTheCall(t *testing.T) {
	handlers := map[string]func(context.Context) error{
		"context's error": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"status": func(ctx context.Context) error {
			<-ctx.Done()
			return status.Error(codes.DeadlineExceeded, "too late")
		},
	}
	for name, handler := range handlers {
		for form, call := range callers {
			t.Run(form+"/"+name, func(t *testing.T) {
				entered := make(chan struct{}, 100)
				s := newSite(t, answering(func(ctx context.Context) error {
					entered <- struct{}{}
					return handler(ctx)
				}), siteConfig{server: bulkhead.Config{MaxConcurrent: 100}})
				calls := callUntilEntered(t, s, call, entered)
				for range calls {
					e := s.client.wantEnd(t, "released")
					if !errors.Is(e.Err, context.DeadlineExceeded) {
						t.Errorf("client: Released.Err = %v, want one that matches context.DeadlineExceeded", e.Err)
					}
				}
				s.client.wantRest(t, calls)
				for how(receive(t, "the handler's call to be released", s.server.ends)) != "released" {
				}
			})
		}
	}
}

// callUntilEntered calls with ever longer deadlines, until one is long enough
// for the handler to be reached, and returns how many calls that took.
func callUntilEntered(t *testing.T, s *site, call func(context.Context, *site) error, entered <-chan struct{}) (calls int) {
	t.Helper()
	for d := 10 * time.Millisecond; d < patience; d *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		call(ctx, s)
		cancel()
		calls++
		select {
		case <-entered:
			return calls
		default:
		}
	}
	t.Fatal("the handler was not reached")
	return calls
}

// due is a context that knows a deadline, and ends when it is told to.
type due struct {
	context.Context
	deadline time.Time
}

func (d due) Deadline() (time.Time, bool) { return d.deadline, true }

// When the other side says DeadlineExceeded and the deadline has passed, ctx is
// about to end. When it does not, nobody waits for it forever.
func TestDeadlineThatTheOtherSideSawFirst(t *testing.T) {
	for _, tc := range []struct {
		reason   string
		deadline time.Duration // from now
		ends     time.Duration // ctx, from now
		code     codes.Code
		want     string
		took     time.Duration
	}{
		{"ctx follows", 0, 50 * time.Millisecond, codes.DeadlineExceeded, "released", 50 * time.Millisecond},
		{"ctx does not follow", 0, time.Hour, codes.DeadlineExceeded, "failed", 100 * time.Millisecond},
		{"it has not passed here", time.Minute, time.Hour, codes.DeadlineExceeded, "failed", 0},
		{"the status is another one", 0, 50 * time.Millisecond, codes.Canceled, "failed", 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSide("client", bulkhead.Config{})
				parent, cancel := context.WithTimeout(t.Context(), tc.ends)
				defer cancel()
				ctx := due{parent, time.Now().Add(tc.deadline)}
				start := time.Now()
				_, err := bulkheadgrpc.UnaryServerInterceptor(s, bulkheadgrpc.Options{})(ctx, nil, info,
					func(context.Context, any) (any, error) { return nil, status.Error(tc.code, "the other side's") })
				if got := time.Since(start); got != tc.took {
					t.Errorf("it took %v, want %v", got, tc.took)
				}
				wantCode(t, "the call", err, tc.code)
				s.wantEnd(t, tc.want)
			})
		})
	}
}

// What another service says does not become canceled because it took until the
// deadline to say so.
func TestUnavailableIsAFailureAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSide("server", bulkhead.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		bulkheadgrpc.UnaryServerInterceptor(s, bulkheadgrpc.Options{})(ctx, nil, info, func(ctx context.Context, _ any) (any, error) {
			<-ctx.Done()
			return nil, status.Error(codes.Unavailable, "another service's")
		})
		s.wantEnd(t, "failed")
	})
}

// A handler that does not stop at its deadline holds its permit until it does.
// See https://github.com/Netflix/Hystrix/issues/1867.
func TestDeadlineFreesNoPermitUnderAHandlerThatRuns(t *testing.T) {
	for form, call := range callers {
		t.Run(form, func(t *testing.T) {
			let, entered := make(chan struct{}), make(chan struct{}, 100)
			s := newSite(t, answering(func(context.Context) error {
				entered <- struct{}{}
				<-let
				return nil
			}), siteConfig{})
			callUntilEntered(t, s, call, entered)
			s.server.wantActive(t, 1)
			err := call(t.Context(), s)
			wantCode(t, "a call while the handler runs", err, codes.ResourceExhausted)
			if rejected, ok := bulkheadgrpc.RemoteRejection(err); !ok {
				t.Errorf("a call while the handler runs: %v, want a rejection by the server", err)
			} else if rejected.Reason != event.Full {
				t.Errorf("a call while the handler runs: rejected, %v, want full", rejected.Reason)
			}
			close(let)
			await(t, "the permit to be back", func() bool { return s.server.Stats().Active == 0 })
			s.server.hold(t, 1).Release()
		})
	}
}
