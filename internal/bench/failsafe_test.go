package bench

import (
	"context"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
)

// failsafe is failsafe-go's bulkhead used as a semaphore, by the methods that
// take and return a permit. It has no weights.
type failsafe struct{ bulkhead.Bulkhead[any] }

func newFailsafe(limit int64) limiter { return failsafe{bulkhead.New[any](uint(limit))} }

func (s failsafe) Acquire(ctx context.Context, _ int64) error { return s.AcquirePermit(ctx) }

func (s failsafe) AcquireWithin(ctx context.Context, _ int64, maxWait time.Duration) error {
	return s.AcquirePermitWithMaxWait(ctx, maxWait)
}

func (s failsafe) TryAcquire(int64) bool { return s.TryAcquirePermit() }

func (s failsafe) Release(int64) { s.ReleasePermit() }

func (s failsafe) serial(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if err := s.AcquirePermit(ctx); err != nil {
			return err
		}
		s.ReleasePermit()
	}
	return nil
}

func (s failsafe) parallel(pb *testing.PB, ctx context.Context) error {
	for pb.Next() {
		if err := s.AcquirePermit(ctx); err != nil {
			return err
		}
		s.ReleasePermit()
	}
	return nil
}

func (s failsafe) reject(b *testing.B) error {
	for b.Loop() {
		if s.TryAcquirePermit() {
			return errGranted
		}
	}
	return nil
}
