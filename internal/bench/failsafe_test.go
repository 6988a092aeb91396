package bench

import (
	"context"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
)

// failsafeLimiter is failsafe-go's bulkhead used as a semaphore, by the methods that
// take and return a permit. It has no weights.
type failsafeLimiter struct{ bulkhead.Bulkhead[any] }

func newFailsafe(limit int64) limiter { return failsafeLimiter{bulkhead.New[any](uint(limit))} }

func (s failsafeLimiter) Acquire(ctx context.Context, _ int64) error { return s.AcquirePermit(ctx) }

func (s failsafeLimiter) AcquireWithin(ctx context.Context, _ int64, maxWait time.Duration) error {
	return s.AcquirePermitWithMaxWait(ctx, maxWait)
}

func (s failsafeLimiter) TryAcquire(int64) bool { return s.TryAcquirePermit() }

func (s failsafeLimiter) Release(int64) { s.ReleasePermit() }

func (s failsafeLimiter) serial(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if err := s.AcquirePermit(ctx); err != nil {
			return err
		}
		s.ReleasePermit()
	}
	return nil
}

func (s failsafeLimiter) parallel(pb *testing.PB, ctx context.Context) error {
	for pb.Next() {
		if err := s.AcquirePermit(ctx); err != nil {
			return err
		}
		s.ReleasePermit()
	}
	return nil
}

func (s failsafeLimiter) reject(b *testing.B) error {
	for b.Loop() {
		if s.TryAcquirePermit() {
			return errGranted
		}
	}
	return nil
}
