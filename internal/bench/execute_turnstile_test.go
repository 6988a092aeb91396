package bench

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
)

type turnstileExecutor struct {
	*bulkhead.Bulkhead[int]
	held []*bulkhead.Permit
}

func newTurnstileExecutor(limit int64, maxWait time.Duration) executor {
	return &turnstileExecutor{Bulkhead: bulkhead.MustNew[int](bulkhead.Config{
		Name:          "bench",
		MaxConcurrent: limit,
		MaxWait:       maxWait,
	})}
}

func (e *turnstileExecutor) TryAcquire(int64) bool {
	p, ok := e.Bulkhead.TryAcquire()
	e.held = append(e.held, p)
	return ok
}

func (e *turnstileExecutor) Release(int64) {
	last := len(e.held) - 1
	e.held[last].Release()
	e.held = e.held[:last]
}

func (e *turnstileExecutor) succeed(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if _, err := e.Execute(ctx, nothing); err != nil {
			return err
		}
	}
	return nil
}

func (e *turnstileExecutor) reject(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if _, err := e.Execute(ctx, nothing); err == nil {
			return errGranted
		}
	}
	return nil
}

func (e *turnstileExecutor) yield() error {
	_, err := e.Execute(context.Background(), func(context.Context) (int, error) {
		runtime.Gosched()
		return 0, nil
	})
	return err
}

// nothing is the function of the rows in which only the bulkhead shall cost.
func nothing(context.Context) (int, error) { return 0, nil }
