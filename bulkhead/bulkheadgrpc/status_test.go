package bulkheadgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
	"github.com/turnstile-go/turnstile/event"
)

func TestStatusErrorGivesRefusalsAStatus(t *testing.T) {
	full := bulkhead.RejectedError{Name: "database", Reason: event.Full, MaxConcurrent: 1, Weight: 1}
	canceled := &bulkhead.CanceledError{Name: "database", Err: context.Canceled}
	late := &bulkhead.CanceledError{Name: "database", Err: context.DeadlineExceeded}
	for _, tc := range []struct {
		err  error
		code codes.Code
	}{
		{full, codes.ResourceExhausted},
		{fmt.Errorf("load user: %w", full), codes.ResourceExhausted},
		{canceled, codes.Canceled},
		{late, codes.DeadlineExceeded},
		{fmt.Errorf("load user: %w", late), codes.DeadlineExceeded},
	} {
		got := bulkheadgrpc.StatusError(tc.err)
		wantCode(t, tc.err.Error(), got, tc.code)
		if msg := status.Convert(got).Message(); !errors.Is(got, tc.err) || got.Error() != tc.err.Error() || msg != tc.err.Error() {
			t.Errorf("StatusError(%v) = %v with the message %q, want one that wraps it and says the same", tc.err, got, msg)
		}
		if again := bulkheadgrpc.StatusError(got); again != got {
			t.Errorf("StatusError of its result %v = %v, want the same", got, again)
		}
	}
}

func TestStatusErrorLeavesOthersAlone(t *testing.T) {
	for _, err := range []error{
		nil,
		errBoom,
		context.Canceled,
		status.Error(codes.NotFound, "no such thing"),
		fmt.Errorf("further out: %w", status.Error(codes.NotFound, "no such thing")),
		errors.Join(status.Error(codes.NotFound, "no such thing"), bulkhead.RejectedError{Reason: event.Full}),
	} {
		if got := bulkheadgrpc.StatusError(err); fmt.Sprint(got) != fmt.Sprint(err) || status.Code(got) != status.Code(err) {
			t.Errorf("StatusError(%v) = %v, want it as it is", err, got)
		}
	}
}

// A handler that calls a bulkhead of its own passes on what that says, and the
// client learns which one it was.
func TestHandlerPassesARejectionOn(t *testing.T) {
	database := bulkhead.MustNew[any](bulkhead.Config{Name: "database", MaxConcurrent: 1})
	held, _ := database.TryAcquire()
	defer held.Release()
	for form, call := range callers {
		t.Run(form, func(t *testing.T) {
			s := newSite(t, answering(func(ctx context.Context) error {
				return bulkheadgrpc.StatusError(database.Run(ctx, func(context.Context) error { return nil }))
			}), siteConfig{})
			err := call(t.Context(), s)
			wantCode(t, "the call", err, codes.ResourceExhausted)
			got, ok := bulkheadgrpc.RemoteRejection(err)
			if !ok || got.Name != "database" || got.Reason != event.Full {
				t.Errorf("RemoteRejection = %+v, %v, want that of the database", got, ok)
			}
			s.server.wantEnd(t, "failed") // its own bulkhead rejected nothing
			s.client.wantEnd(t, "failed")
		})
	}
}

func TestRemoteRejectionReadsNothingElse(t *testing.T) {
	withDetails := func(details ...*errdetails.ErrorInfo) error {
		st := status.New(codes.ResourceExhausted, "full")
		for _, d := range details {
			var err error
			if st, err = st.WithDetails(d); err != nil {
				t.Fatal(err)
			}
		}
		return st.Err()
	}
	foreign := &errdetails.ErrorInfo{Reason: "FULL", Domain: "example.com", Metadata: map[string]string{"bulkhead": "theirs"}}
	newer := &errdetails.ErrorInfo{Reason: "TOO_EARLY", Domain: bulkheadgrpc.Domain, Metadata: map[string]string{"bulkhead": "newer"}}
	for _, tc := range []struct {
		reason string
		err    error
		want   string // the name, if any
	}{
		{"no error", nil, ""},
		{"no status", errBoom, ""},
		{"no details", withDetails(), ""},
		{"details of another domain", withDetails(foreign), ""},
		{"ours among others", withDetails(foreign, newer), "newer"},
	} {
		got, ok := bulkheadgrpc.RemoteRejection(tc.err)
		if ok != (tc.want != "") || got.Name != tc.want || got.Reason != 0 {
			t.Errorf("%s: RemoteRejection = %+v, %v, want %q", tc.reason, got, ok, tc.want)
		}
	}
}

// A text that cannot be sent must not keep the details from being sent.
func TestTextThatIsNotUTF8(t *testing.T) {
	full := bulkhead.RejectedError{Name: "database", Reason: event.Full}
	s := newSite(t, answering(func(context.Context) error {
		return bulkheadgrpc.StatusError(fmt.Errorf("load caf\xe9: %w", full))
	}), siteConfig{})
	for form, call := range callers {
		err := call(t.Context(), s)
		if got, ok := bulkheadgrpc.RemoteRejection(err); !ok || got.Name != "database" || got.Reason != event.Full {
			t.Errorf("%s: RemoteRejection(%v) = %+v, %v, want that of the database", form, err, got, ok)
		}
		if got, want := status.Convert(err).Message(), "load caf\uFFFD: "+full.Error(); got != want {
			t.Errorf("%s: the message is %q, want %q", form, got, want)
		}
	}
}

// Strings in a message must be UTF-8, or it cannot be sent.
func TestNameThatIsNotUTF8(t *testing.T) {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "caf\xe9", MaxConcurrent: 1})
	b.Close()
	s := newSite(t, &service{stream: func(s grpc.ServerStream) error {
		return bulkheadgrpc.StreamServerInterceptor(b, bulkheadgrpc.Options{})(nil, s, &grpc.StreamServerInfo{}, nil)
	}}, siteConfig{})
	err := callers["stream"](t.Context(), s)
	wantCode(t, "the call", err, codes.ResourceExhausted)
	if got, ok := bulkheadgrpc.RemoteRejection(err); !ok || got.Name != "caf\uFFFD" {
		t.Errorf("RemoteRejection = %+v, %v, want one of caf\uFFFD", got, ok)
	}
}
