package bulkhead

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/semaphore"
)

// What a rejected call's error matches, with [errors.Is].
var (
	// ErrFull: there was no room for the call, and there may be later. It was
	// not willing to wait, or waited its maximum, or the queue was full.
	ErrFull = errors.New("bulkhead: full")

	// ErrTooHeavy: the call's weight is above the limit, from the start or
	// since SetMaxConcurrent lowered it while the call waited. Trying again
	// does not help.
	ErrTooHeavy = errors.New("bulkhead: weight exceeds limit")

	// ErrClosed: the bulkhead was closed, before the call or while it waited.
	ErrClosed = errors.New("bulkhead: closed")
)

// ErrGoexit is the outcome of an asynchronous call whose function, or a listener,
// ended its goroutine by runtime.Goexit, so that there is no result.
var ErrGoexit = errors.New("bulkhead: function called runtime.Goexit")

// ErrPending says that the permit asked for is neither granted nor refused yet:
// [PendingPermit.Permit] returns it, and no other.
var ErrPending = semaphore.ErrPending

// PanicError is what an asynchronous call that panicked panics with again where
// its result is asked for.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of the goroutine that panicked, as debug.Stack formats it
}

// Error says what the panic was and where.
func (e *PanicError) Error() string {
	return fmt.Sprintf("bulkhead: panic in asynchronous call: %v\n\n%s", e.Value, e.Stack)
}

// Unwrap returns the Value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// RejectedError says that a bulkhead refused a call: its function did not run.
// It matches exactly one of [ErrFull], [ErrTooHeavy] and [ErrClosed]; see
// Reason. For the numbers, ask for the value, not for a pointer, which would
// compile and never match:
//
//	if rejected, ok := errors.AsType[bulkhead.RejectedError](err); ok {
//		log.Print(rejected.Reason, rejected.Waited)
//	}
type RejectedError struct {
	Name          string        // the bulkhead's
	Reason        event.Reason  // Full, TimedOut and QueueFull match ErrFull
	MaxConcurrent int64         // the limit when the call was refused
	MaxWait       time.Duration // how long the call was willing to wait
	Waited        time.Duration // how long it did wait
	Weight        int64         // permits it asked for
}

// Error says what was refused, why, and by which numbers.
func (e RejectedError) Error() string {
	maxWait := e.MaxWait.String()
	if e.MaxWait == Forever {
		maxWait = "forever"
	}
	return fmt.Sprintf("bulkhead %q: rejected, %s (weight %d, limit %d, max wait %s, waited %s)",
		e.Name, strings.ReplaceAll(e.Reason.String(), "_", " "), e.Weight, e.MaxConcurrent, maxWait, e.Waited)
}

// Is reports whether target is the one of ErrFull, ErrTooHeavy and ErrClosed
// that the Reason stands for.
func (e RejectedError) Is(target error) bool {
	switch e.Reason {
	case event.Full, event.TimedOut, event.QueueFull:
		return target == ErrFull
	case event.TooHeavy:
		return target == ErrTooHeavy
	case event.Closed:
		return target == ErrClosed
	}
	return false
}

// Timeout reports whether the call waited its maximum and was then refused. It
// is what os.IsTimeout asks for.
func (e RejectedError) Timeout() bool { return e.Reason == event.TimedOut }

// CanceledError says that a call's context ended while it waited for its
// permit, or had ended before, or that the call was withdrawn by Cancel: its
// function did not run. It matches the context's error and its cause, or
// context.Canceled, and never [ErrFull].
type CanceledError struct {
	Name   string        // the bulkhead's
	Err    error         // the context's error
	Waited time.Duration // 0 if the context was done from the start

	cause error
}

// Error says what ended the wait, and after how long.
func (e *CanceledError) Error() string {
	msg := fmt.Sprintf("bulkhead %q: canceled: %v", e.Name, e.Err)
	// By their texts, and those by fmt: == may panic, and so may Error.
	if cause := fmt.Sprint(e.cause); e.cause != nil && cause != fmt.Sprint(e.Err) {
		msg = fmt.Sprintf("%s: %s", msg, cause)
	}
	return fmt.Sprintf("%s (waited %s)", msg, e.Waited)
}

// Unwrap returns the context's error and its cause.
func (e *CanceledError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.cause}
}

// Timeout reports whether it was a deadline of the context's that ended the
// wait. It is what os.IsTimeout asks for, and the *url.Error of an http.Client.
func (e *CanceledError) Timeout() bool { return errors.Is(e.Err, context.DeadlineExceeded) }
