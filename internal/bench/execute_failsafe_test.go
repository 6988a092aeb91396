package bench

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
)

// failsafeExecutor runs functions through failsafe-go with a bulkhead as the
// only policy, by Get: of its entries none is cheaper. The failsafe.Executor is
// made once and bound to the ctx once; for a ctx of its own each call would have
// to copy it.
type failsafeExecutor struct {
	failsafe.Executor[int]
	bulkhead bulkhead.Bulkhead[int]
}

func newFailsafeExecutor(limit int64, maxWait time.Duration) executor {
	b := bulkhead.NewBuilder[int](uint(limit)).WithMaxWaitTime(maxWait).Build()
	return failsafeExecutor{failsafe.With[int](b), b}
}

func (e failsafeExecutor) TryAcquire(int64) bool { return e.bulkhead.TryAcquirePermit() }

func (e failsafeExecutor) Release(int64) { e.bulkhead.ReleasePermit() }

func (e failsafeExecutor) succeed(b *testing.B, ctx context.Context) error {
	bound := e.WithContext(ctx)
	for b.Loop() {
		if _, err := bound.Get(func() (int, error) { return 0, nil }); err != nil {
			return err
		}
	}
	return nil
}

func (e failsafeExecutor) reject(b *testing.B, ctx context.Context) error {
	bound := e.WithContext(ctx)
	for b.Loop() {
		if _, err := bound.Get(func() (int, error) { return 0, nil }); err == nil {
			return errGranted
		}
	}
	return nil
}

func (e failsafeExecutor) yield() error {
	_, err := e.Get(func() (int, error) {
		runtime.Gosched()
		return 0, nil
	})
	return err
}
