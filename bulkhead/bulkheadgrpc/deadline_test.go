package bulkheadgrpc_test

import (
	"context"
	"errors"
	"testing"
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
