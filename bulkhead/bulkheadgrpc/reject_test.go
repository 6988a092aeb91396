package bulkheadgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
	"github.com/turnstile-go/turnstile/event"
)

// rejections are the ways to be rejected, each with what makes the bulkhead
// answer so.
var rejections = []struct {
	reason  event.Reason
	is      error
	wire    string // in the ErrorInfo
	cfg     bulkhead.Config
	weight  int64
	prepare func(*testing.T, *side)
}{
	{reason: event.Full, is: bulkhead.ErrFull, wire: "FULL", weight: 1, prepare: fill},
	{
		reason: event.TimedOut, is: bulkhead.ErrFull, wire: "TIMED_OUT", weight: 1,
		cfg:     bulkhead.Config{MaxWait: time.Millisecond},
		prepare: fill,
	},
	{
		reason: event.QueueFull, is: bulkhead.ErrFull, wire: "QUEUE_FULL", weight: 1,
		cfg: bulkhead.Config{MaxWait: bulkhead.Forever, MaxQueue: 1},
		prepare: func(t *testing.T, s *side) {
			fill(t, s)
			waiting := s.AcquireAsync(context.Background())
			t.Cleanup(func() { waiting.Cancel() })
		},
	},
	{reason: event.TooHeavy, is: bulkhead.ErrTooHeavy, wire: "TOO_HEAVY", weight: 2, prepare: func(*testing.T, *side) {}},
	{reason: event.Closed, is: bulkhead.ErrClosed, wire: "CLOSED", weight: 1, prepare: func(_ *testing.T, s *side) { s.Close() }},
}

// fill takes all permits until the end of t.
func fill(t *testing.T, s *side) { t.Cleanup(s.hold(t, s.Stats().MaxConcurrent).Release) }

func weighing(n int64) bulkheadgrpc.Options {
	return bulkheadgrpc.Options{Weight: func(context.Context, string, any) int64 { return n }}
}

func TestServersRejectionIsRecognizedOnBothSides(t *testing.T) {
	for _, r := range rejections {
		for form, call := range callers {
			t.Run(form+"/"+r.reason.String(), func(t *testing.T) {
				s := newSite(t, answering(func(context.Context) error {
					t.Error("the handler runs")
					return nil
				}), siteConfig{server: r.cfg, serverOpts: weighing(r.weight)})
				r.prepare(t, s.server)
				err := call(t.Context(), s)
				wantCode(t, "the call", err, codes.ResourceExhausted)
				wantDetails(t, err, "server", r.wire)
				for _, err := range []error{err, fmt.Errorf("further out: %w", err)} {
					got, ok := bulkheadgrpc.RemoteRejection(err)
					if want := (bulkhead.RejectedError{Name: "server", Reason: r.reason}); !ok || got != want {
						t.Errorf("RemoteRejection(%v) = %+v, %v, want %+v", err, got, ok, want)
					}
					if !errors.Is(got, r.is) {
						t.Errorf("%v does not match %v", got, r.is)
					}
					if errors.Is(err, r.is) {
						t.Errorf("%v matches %v, as if it were of this side", err, r.is)
					}
				}
				s.server.wantEnd(t, r.reason.String())
				s.client.wantEnd(t, "failed")
				s.client.wantActive(t, 0)
			})
		}
	}
}

func TestClientsRejectionIsItsOwn(t *testing.T) {
	for _, r := range rejections {
		for form, call := range callers {
			t.Run(form+"/"+r.reason.String(), func(t *testing.T) {
				s := newSite(t, answering(func(context.Context) error {
					t.Error("the handler runs")
					return nil
				}), siteConfig{client: r.cfg, clientOpts: weighing(r.weight)})
				r.prepare(t, s.client)
				err := call(t.Context(), s)
				wantCode(t, "the call", err, codes.ResourceExhausted)
				wantDetails(t, err, "client", r.wire)
				if !errors.Is(err, r.is) {
					t.Errorf("%v does not match %v", err, r.is)
				}
				rejected, ok := errors.AsType[bulkhead.RejectedError](err)
				if !ok || rejected.Name != "client" || rejected.Reason != r.reason || rejected.Weight != r.weight {
					t.Errorf("the error is %+v, want the client's", rejected)
				}
				if got, ok := bulkheadgrpc.RemoteRejection(err); ok {
					t.Errorf("RemoteRejection = %v, true, want false", got)
				}
				if got, want := err.Error(), rejected.Error(); got != want {
					t.Errorf("its text is %q, want %q", got, want)
				}
				s.client.wantEnd(t, r.reason.String())
				s.server.wantRest(t, 0)
			})
		}
	}
}

// wantDetails fails t unless the status of err says by its details, to whatever
// language, which bulkhead said no, and why.
func wantDetails(t *testing.T, err error, name, reason string) {
	t.Helper()
	details := status.Convert(err).Details()
	if len(details) != 1 {
		t.Fatalf("the details of %v: %v, want one", err, details)
	}
	info, ok := details[0].(*errdetails.ErrorInfo)
	if !ok || info.Reason != reason || info.Domain != bulkheadgrpc.Domain || info.Metadata["bulkhead"] != name || len(info.Metadata) != 1 {
		t.Errorf("the details of %v: %v, want reason %s of bulkhead %s", err, details[0], reason, name)
	}
}

// An outer interceptor on the server sees the rejection as it is without gRPC.
func TestServersRejectionMatchesFurtherOut(t *testing.T) {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	b.Close()
	_, err := bulkheadgrpc.UnaryServerInterceptor(b, bulkheadgrpc.Options{})(t.Context(), nil, info, nil)
	rejected, ok := errors.AsType[bulkhead.RejectedError](err)
	if !ok || rejected.Reason != event.Closed || !errors.Is(err, bulkhead.ErrClosed) {
		t.Errorf("the error is %v, want one that matches ErrClosed", err)
	}
}

// Refusals that are alike are made once, and those that are not must not get
// another's numbers.
func TestRefusalsSayWhatIsTrueNow(t *testing.T) {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	weight := int64(1)
	intercept := bulkheadgrpc.UnaryServerInterceptor(b, bulkheadgrpc.Options{
		Weight: func(context.Context, string, any) int64 { return weight },
	})
	held, _ := b.TryAcquire()
	defer held.Release()
	for _, tc := range []struct {
		limit, weight int64
		reason        event.Reason
	}{
		{1, 1, event.Full}, {1, 1, event.Full}, {2, 2, event.Full}, {2, 3, event.TooHeavy}, {2, 4, event.TooHeavy},
		{3, 4, event.TooHeavy}, {1, 1, event.Full}, {1, 2, event.TooHeavy},
	} {
		b.SetMaxConcurrent(tc.limit)
		weight = tc.weight
		_, err := intercept(t.Context(), nil, info, nil)
		want := bulkhead.RejectedError{Name: "server", Reason: tc.reason, MaxConcurrent: tc.limit, Weight: tc.weight}
		got, _ := errors.AsType[bulkhead.RejectedError](err)
		if msg := status.Convert(err).Message(); got != want || msg != want.Error() {
			t.Errorf("got %+v with the message %q, want %+v", got, msg, want)
		}
	}
}

// rejecting is a bulkhead that rejects every call for a reason of its own.
type rejecting struct {
	bulkhead.Any
	reason event.Reason
}

func (r rejecting) Acquire(context.Context) (*bulkhead.Permit, error) {
	return nil, bulkhead.RejectedError{Name: r.Name(), Reason: r.reason}
}

// A later version may have reasons that this one does not know.
func TestUnknownReasonIsARejection(t *testing.T) {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	for _, reason := range []event.Reason{0, 77} {
		intercept := bulkheadgrpc.UnaryServerInterceptor(rejecting{b, reason}, bulkheadgrpc.Options{})
		_, err := intercept(t.Context(), nil, info, nil)
		wantCode(t, "the call", err, codes.ResourceExhausted)
		if rejected, ok := errors.AsType[bulkhead.RejectedError](err); !ok || rejected.Reason != reason {
			t.Errorf("the error is %v, want one with the reason %v", err, reason)
		}
	}
}

// A server that is overloaded answers most calls with the same status, at no
// cost in memory. A call that is permitted costs its permit.
func TestAllocations(t *testing.T) {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	intercept := bulkheadgrpc.UnaryServerInterceptor(b, bulkheadgrpc.Options{})
	handler := func(context.Context, any) (any, error) { return nil, nil }
	ctx := t.Context()
	call := func(want codes.Code) func() {
		return func() {
			if _, err := intercept(ctx, nil, info, handler); status.Code(err) != want {
				t.Errorf("got %v, want %v", err, want)
			}
		}
	}
	if n := testing.AllocsPerRun(100, call(codes.OK)); n > 1 {
		t.Errorf("a call: %v allocations, want 1", n)
	}
	held, _ := b.TryAcquire()
	defer held.Release()
	if n := testing.AllocsPerRun(100, call(codes.ResourceExhausted)); n > 0 {
		t.Errorf("a rejection: %v allocations, want none", n)
	}
}

func TestCallThatIsCanceledInTheQueueGoesNoFurther(t *testing.T) {
	for _, where := range []string{"server", "client"} {
		for form, call := range callers {
			t.Run(where+"/"+form, func(t *testing.T) {
				patient := bulkhead.Config{MaxWait: bulkhead.Forever}
				s := newSite(t, answering(func(context.Context) error {
					t.Error("the handler runs")
					return nil
				}), siteConfig{server: patient, client: patient})
				queue := map[string]*side{"server": s.server, "client": s.client}[where]
				fill(t, queue)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- call(ctx, s) }()
				queue.waitUntilQueued(t, 1)
				cancel()
				err := receive(t, "the call to end", done)
				wantCode(t, "the call", err, codes.Canceled)
				queue.wantEnd(t, "canceled")
				canceled, ok := errors.AsType[*bulkhead.CanceledError](err)
				if local := where == "client"; ok != local || errors.Is(err, context.Canceled) != local {
					t.Errorf("the error is %v, a CanceledError: %v (%v)", err, ok, canceled)
				}
			})
		}
	}
}

func TestCallWithoutTimeLeftTakesNothing(t *testing.T) {
	for form, call := range callers {
		t.Run(form, func(t *testing.T) {
			s := newSite(t, answering(nil), siteConfig{})
			ctx, cancel := context.WithTimeout(t.Context(), 0)
			defer cancel()
			err := call(ctx, s)
			wantCode(t, "the call", err, codes.DeadlineExceeded)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v does not match context.DeadlineExceeded", err)
			}
			s.client.wantEnd(t, "canceled")
			s.client.wantRest(t, 1)
			s.server.wantRest(t, 0)
		})
	}
}

// A weight below 1 is a fault of whoever wrote the function.
func TestWeightBelowOneIsInternal(t *testing.T) {
	for form, call := range callers {
		for where, cfg := range map[string]siteConfig{
			"server": {serverOpts: weighing(0)},
			"client": {clientOpts: weighing(0)},
		} {
			t.Run(form+"/"+where, func(t *testing.T) {
				s := newSite(t, answering(nil), cfg)
				err := call(t.Context(), s)
				wantCode(t, "the call", err, codes.Internal)
				want := fmt.Sprintf("bulkhead %q: weight is 0, want at least 1", where)
				if got := status.Convert(err).Message(); got != want {
					t.Errorf("the message is %q, want %q", got, want)
				}
				if _, ok := bulkheadgrpc.RemoteRejection(err); ok {
					t.Error("RemoteRejection: true, want false")
				}
			})
		}
	}
}
