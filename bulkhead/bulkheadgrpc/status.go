package bulkheadgrpc

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// Domain is the domain of the errdetails.ErrorInfo in the status of a rejection.
const Domain = "github.com/turnstile-go/turnstile"

// nameKey is the key of the bulkhead's name in the ErrorInfo's metadata.
const nameKey = "bulkhead"

// RemoteRejection reports whether err says that a bulkhead of the other side, or
// of somebody further on whose status it passed on, rejected the call, and
// which: of the result, Name and Reason are set. The numbers stay where the
// bulkhead is. A reason that this version does not know is 0.
//
//	if rejected, ok := bulkheadgrpc.RemoteRejection(err); ok && errors.Is(rejected, bulkhead.ErrFull) {
//		log.Printf("the server's %s is full", rejected.Name)
//	}
//
// It is false for the rejection of a bulkhead on this side, which err matches by
// itself, and then nothing was sent. err may be wrapped.
func RemoteRejection(err error) (bulkhead.RejectedError, bool) {
	if _, local := errors.AsType[bulkhead.RejectedError](err); local {
		return bulkhead.RejectedError{}, false
	}
	st, ok := status.FromError(err)
	if !ok {
		return bulkhead.RejectedError{}, false
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == Domain {
			return bulkhead.RejectedError{
				Name:   info.GetMetadata()[nameKey],
				Reason: reasonOf(info.GetReason()),
			}, true
		}
	}
	return bulkhead.RejectedError{}, false
}

// StatusError returns err with the status that an interceptor gives it, if it is
// or wraps a [bulkhead.RejectedError] or a [*bulkhead.CanceledError], and has no
// status yet; the text is err's, as UTF-8. Other errors, and nil, are returned
// as they are. It is for a handler that calls a bulkhead itself, whose errors
// would else reach the client as Unknown:
//
//	user, err := bulkhead.Do(ctx, database, load)
//	if err != nil {
//		return nil, bulkheadgrpc.StatusError(err)
//	}
func StatusError(err error) error {
	if _, ok := status.FromError(err); ok || !isRefusal(err) {
		return err
	}
	return newRefusal(err)
}

func isRefusal(err error) bool {
	if _, ok := errors.AsType[bulkhead.RejectedError](err); ok {
		return true
	}
	_, ok := errors.AsType[*bulkhead.CanceledError](err)
	return ok
}

// refusal is a bulkhead's error that has a status, which is made when first asked
// for: on the client often nobody does.
type refusal struct {
	error
	status func() *status.Status
}

func newRefusal(err error) *refusal {
	return &refusal{err, sync.OnceValue(func() *status.Status { return statusOf(err) })}
}

func (r *refusal) Unwrap() error { return r.error }

// GRPCStatus returns the status, for package status and gRPC's server.
func (r *refusal) GRPCStatus() *status.Status { return r.status() }

// statusOf returns the status for a bulkhead's error.
func statusOf(err error) *status.Status {
	if rejected, ok := errors.AsType[bulkhead.RejectedError](err); ok {
		return rejection(rejected, err.Error())
	}
	if canceled, ok := errors.AsType[*bulkhead.CanceledError](err); ok {
		return status.New(codeOf(canceled.Err), err.Error())
	}
	return status.New(codes.Internal, err.Error()) // a weight or wait that is out of range
}

// refusals are the last refusals of one bulkhead, by reason. Those of calls that
// did not wait are all alike, so what an overloaded server answers most is made
// once.
type refusals [event.Closed + 1]atomic.Pointer[refusal]

// of returns the error of a call that got no permit, because of err.
func (last *refusals) of(err error) error {
	rejected, ok := err.(bulkhead.RejectedError)
	if !ok || rejected.Waited > 0 || int(rejected.Reason) >= len(last) {
		return newRefusal(err)
	}
	if r := last[rejected.Reason].Load(); r != nil && r.error == err {
		return r
	}
	r := newRefusal(err)
	last[rejected.Reason].Store(r)
	return r
}

func rejection(rejected bulkhead.RejectedError, text string) *status.Status {
	st := status.New(codes.ResourceExhausted, valid(text))
	detailed, err := st.WithDetails(&errdetails.ErrorInfo{
		Reason:   strings.ToUpper(rejected.Reason.String()),
		Domain:   Domain,
		Metadata: map[string]string{nameKey: valid(rejected.Name)},
	})
	if err != nil {
		return st // cannot be, as all of its strings are valid
	}
	return detailed
}

// valid returns s as UTF-8, which strings in a message must be: a server sends
// no details at all if it cannot encode one of them, or the text.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// reasonOf is the reason with this name in an ErrorInfo, or 0.
func reasonOf(name string) event.Reason {
	for r := event.Full; r <= event.Closed; r++ {
		if strings.ToUpper(r.String()) == name {
			return r
		}
	}
	return 0
}

// codeOf returns the code for a context's error.
func codeOf(ended error) codes.Code {
	if errors.Is(ended, context.DeadlineExceeded) {
		return codes.DeadlineExceeded
	}
	return codes.Canceled
}

// outcome returns what the bulkhead is told of a call whose context is ctx and
// whose error is err. Statuses do not match the errors of contexts. So if ctx is
// done and err is, or would become, a status that says so, the result matches
// ctx's error as well.
func outcome(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err) // as the server does
	}
	if st.Code() == codes.DeadlineExceeded {
		awaitDeadline(ctx)
	}
	ended := ctx.Err()
	if ended == nil || !saysEnded(st.Code(), codeOf(ended)) {
		return err
	}
	return endedError{err, ended}
}

// awaitDeadline waits until ctx is done, if its deadline has passed. The other
// side has the same deadline, and its answer may overtake ctx's own timer by some
// microseconds. It does not wait for long: ctx may be somebody's who knows a
// deadline and does not end with it.
func awaitDeadline(ctx context.Context) {
	deadline, ok := ctx.Deadline()
	if !ok || time.Now().Before(deadline) {
		return
	}
	long := time.NewTimer(100 * time.Millisecond)
	defer long.Stop()
	select {
	case <-ctx.Done():
	case <-long.C:
	}
}

// saysEnded reports whether a call with this status was ended by its context,
// which has ended, and how.
func saysEnded(code, how codes.Code) bool {
	switch code {
	case codes.Canceled, codes.DeadlineExceeded:
		// Either will do: when a deadline passes, the client cancels the call,
		// which may reach the server before its own clock says so.
		return true
	case codes.Unavailable:
		// Whoever sends over a broken connection gets this, as well as a context
		// that is canceled. But while a deadline passed, it may have been what
		// another service said all the time.
		return how == codes.Canceled
	}
	return false
}

// endedError is a call's error that also matches its context's.
type endedError struct {
	error
	ended error
}

func (e endedError) Unwrap() []error { return []error{e.error, e.ended} }
