package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

func TestRejectedErrorMatchesOneSentinel(t *testing.T) {
	sentinels := []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy, bulkhead.ErrClosed}
	tests := []struct {
		reason  event.Reason
		want    error
		timeout bool
	}{
		{event.Full, bulkhead.ErrFull, false},
		{event.TimedOut, bulkhead.ErrFull, true},
		{event.QueueFull, bulkhead.ErrFull, false},
		{event.TooHeavy, bulkhead.ErrTooHeavy, false},
		{event.Closed, bulkhead.ErrClosed, false},
		{0, nil, false},
	}
	for _, tt := range tests {
		err := fmt.Errorf("charge: %w", bulkhead.RejectedError{Name: "db", Reason: tt.reason})
		for _, target := range sentinels {
			if got, want := errors.Is(err, target), target == tt.want; got != want {
				t.Errorf("%v: errors.Is(err, %q) = %v, want %v", tt.reason, target, got, want)
			}
		}
		for _, target := range []error{context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded} {
			if errors.Is(err, target) {
				t.Errorf("%v: matches %q", tt.reason, target)
			}
		}
		got, ok := errors.AsType[bulkhead.RejectedError](err)
		if !ok || got.Reason != tt.reason {
			t.Errorf("%v: errors.AsType = %+v, %v", tt.reason, got, ok)
		}
		if got.Timeout() != tt.timeout || os.IsTimeout(got) != tt.timeout {
			t.Errorf("%v: Timeout() = %v, want %v", tt.reason, got.Timeout(), tt.timeout)
		}
		if _, ok := errors.AsType[*bulkhead.RejectedError](err); ok {
			t.Errorf("%v: matches a pointer, which the documentation denies", tt.reason)
		}
	}
}

func TestRejectedErrorText(t *testing.T) {
	tests := []struct {
		err  bulkhead.RejectedError
		want string
	}{
		{
			bulkhead.RejectedError{Name: "db", Reason: event.Full, MaxConcurrent: 8, Weight: 1},
			`bulkhead "db": rejected, full (weight 1, limit 8, max wait 0s, waited 0s)`,
		},
		{
			bulkhead.RejectedError{
				Name: "db", Reason: event.TimedOut, MaxConcurrent: 8, Weight: 2,
				MaxWait: 50 * time.Millisecond, Waited: 51 * time.Millisecond,
			},
			`bulkhead "db": rejected, timed out (weight 2, limit 8, max wait 50ms, waited 51ms)`,
		},
		{
			bulkhead.RejectedError{Name: "db", Reason: event.QueueFull, MaxConcurrent: 8, Weight: 1, MaxWait: bulkhead.Forever},
			`bulkhead "db": rejected, queue full (weight 1, limit 8, max wait forever, waited 0s)`,
		},
	}
	for _, tt := range tests {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestCanceledError(t *testing.T) {
	errCause := errors.New("client gone")
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
		p := hold(t, b, 1)
		plain, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		caused, cancelCause := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancelCause(errCause) })
		deadline, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		tests := []struct {
			ctx     context.Context
			is, not []error
			timeout bool
			want    string
		}{
			{
				plain,
				[]error{context.Canceled},
				[]error{context.DeadlineExceeded, errCause},
				false,
				`bulkhead "db": canceled: context canceled (waited 1s)`,
			},
			{
				caused,
				[]error{context.Canceled, errCause},
				[]error{context.DeadlineExceeded},
				false,
				`bulkhead "db": canceled: context canceled: client gone (waited 1s)`,
			},
			{
				deadline,
				[]error{context.DeadlineExceeded},
				[]error{context.Canceled, errCause},
				true,
				`bulkhead "db": canceled: context deadline exceeded (waited 1s)`,
			},
		}
		errs := make([]error, len(tests))
		for i, tt := range tests {
			go func() { errs[i] = b.Run(tt.ctx, nop) }()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for i, tt := range tests {
			err := errs[i]
			if got := err.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			canceled, ok := errors.AsType[*bulkhead.CanceledError](err)
			if !ok || canceled.Name != "db" || canceled.Waited != time.Second || canceled.Err != tt.ctx.Err() {
				t.Errorf("errors.AsType = %+v, %v", canceled, ok)
			}
			for _, target := range tt.is {
				if !errors.Is(err, target) {
					t.Errorf("%q does not match %q", err, target)
				}
			}
			for _, target := range append(tt.not, bulkhead.ErrFull, bulkhead.ErrTooHeavy, bulkhead.ErrClosed) {
				if errors.Is(err, target) {
					t.Errorf("%q matches %q", err, target)
				}
			}
			if canceled.Timeout() != tt.timeout || os.IsTimeout(err) != tt.timeout {
				t.Errorf("%q: Timeout = %v, os.IsTimeout = %v, want %v", err, canceled.Timeout(), os.IsTimeout(err), tt.timeout)
			}
			if timeout, ok := errors.AsType[net.Error](err); ok != tt.timeout || ok && !timeout.Timeout() {
				t.Errorf("%q: a net.Error: %v, want %v", err, ok, tt.timeout)
			}
		}
		// As a test of somebody else's may make one.
		made := &bulkhead.CanceledError{Name: "db", Err: context.Canceled}
		if !errors.Is(made, context.Canceled) || made.Error() != `bulkhead "db": canceled: context canceled (waited 0s)` {
			t.Errorf("a literal is %q", made)
		}
		if slices.Contains(made.Unwrap(), nil) {
			t.Errorf("Unwrap = %v, which package errors does not allow", made.Unwrap())
		}
		p.Release()
		checkAtRest(t, b)
	})
}

// A handle's own wait is in its errors, whatever the ready-made ones say.
func TestRejectedErrorHasTheHandlesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 1, MaxWait: time.Second, MaxQueue: 1,
		})
		p := hold(t, b, 1)
		go b.Waiting(time.Minute).Run(t.Context(), nop)
		synctest.Wait()
		check := func(h *bulkhead.Bulkhead[int], reason event.Reason, maxWait time.Duration) {
			t.Helper()
			want := bulkhead.RejectedError{Name: "db", Reason: reason, MaxConcurrent: 1, MaxWait: maxWait, Weight: 1}
			if err := h.Run(t.Context(), nop); err != want {
				t.Errorf("got  %v\nwant %v", err, want)
			}
		}
		check(b, event.QueueFull, time.Second)
		check(b.Waiting(time.Hour), event.QueueFull, time.Hour)
		check(b.Waiting(0), event.Full, 0)
		b.Close()
		synctest.Wait()
		check(b, event.Closed, time.Second)
		check(b.Waiting(time.Hour), event.Closed, time.Hour)
		check(b.Waiting(0), event.Closed, 0)
		p.Release()
		checkAtRest(t, b)
	})
}

// A loop that retries while the bulkhead is full must come to an end when it is
// closed, the weight is too much, or the context ends.
func TestRetryLoopOnErrFullEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, end := range map[string]func(b bulkhead.Any, cancel func()){
			"closed":    func(b bulkhead.Any, _ func()) { b.Close() },
			"too heavy": func(b bulkhead.Any, _ func()) { b.SetMaxConcurrent(1) },
			"canceled":  func(_ bulkhead.Any, cancel func()) { cancel() },
		} {
			b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2})
			p := hold(t, b, 2)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, func() { end(b, cancel) })
			tries := 0
			err := bulkhead.ErrFull
			for ; errors.Is(err, bulkhead.ErrFull); tries++ {
				if tries > 1000 {
					t.Errorf("%s: still %v", name, err)
					break
				}
				time.Sleep(10 * time.Millisecond)
				err = b.Weighing(2).Run(ctx, nop)
			}
			if tries < 100 || tries > 101 {
				t.Errorf("%s: %d tries, want about 100", name, tries)
			}
			cancel()
			p.Release()
			checkAtRest(t, b)
		}
	})
}
