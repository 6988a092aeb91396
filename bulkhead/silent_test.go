package bulkhead_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// over is a context that is done with an error of the test's choice, nil too.
type over struct {
	context.Context
	err error
}

func (over) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (c over) Err() error { return c.err }

// A context that is done and does not say why must not pass for success.
func TestSilentContextIsNoSuccess(t *testing.T) {
	silent := over{Context: t.Context()}
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
	quit := make(chan struct{})
	f := b.ExecuteAsync(t.Context(), func(context.Context) (int, error) { <-quit; return 1, nil })
	if _, err := f.Get(silent); err != context.Canceled {
		t.Errorf("Get = %v of a call that runs, want %v", err, context.Canceled)
	}
	if _, err := b.AcquireAsync(t.Context()).Wait(silent); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait = %v, want one that matches %v", err, context.Canceled)
	}
	if err := b.Drain(silent); err != context.Canceled {
		t.Errorf("Drain = %v with a permit in flight, want %v", err, context.Canceled)
	}
	close(quit)
	if _, err := f.Get(t.Context()); err != nil {
		t.Error(err)
	}
}

type uncomparable []string

func (uncomparable) Error() string { return "ended" }

func TestCanceledErrorOfAnUncomparableErrorHasAText(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	_, err := b.Acquire(over{t.Context(), uncomparable{"x"}})
	if got, want := err.Error(), `bulkhead "db": canceled: ended (waited 0s)`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCanceledErrorWithACauseThatIsATypedNilHasAText(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel((*wrapper)(nil))
	_, err := b.Acquire(ctx)
	if got := err.Error(); !strings.HasPrefix(got, `bulkhead "db": canceled: context canceled`) {
		t.Errorf("got %q", got)
	}
}

// wrapper is an error whose Unwrap needs a receiver, as many have.
type wrapper struct{ err error }

func (w *wrapper) Error() string { return "wrapped: " + w.err.Error() }
func (w *wrapper) Unwrap() error { return w.err }

// Delivery holds even if the error cannot be looked into.
func TestErrorThatPanicsWhenLookedIntoIsTold(t *testing.T) {
	counters := event.NewCounters()
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, Listener: counters.Listener()})
	ctx, cancel := context.WithCancel(t.Context())
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic of Unwrap did not go on")
			}
		}()
		_ = b.Run(ctx, func(context.Context) error {
			cancel()
			return (*wrapper)(nil)
		})
	}()
	if got := counters.Snapshot(); got.Finished[event.Failed].Calls != 1 || got.Running().Calls != 0 {
		t.Errorf("told %v, want one call, finished as failed", counters)
	}
	if b.Stats().Active != 0 {
		t.Errorf("Stats = %+v, want the permit back", b.Stats())
	}
}
