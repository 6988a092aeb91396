package bench

import (
	"context"
	"testing"
	"time"

	"github.com/marusama/semaphore/v2"
)

// marusama is a resizable semaphore whose Release wakes every waiter and lets
// them compete.
type marusama struct{ s semaphore.Semaphore }

func newMarusama(limit int64) limiter { return marusama{semaphore.New(int(limit))} }

func (s marusama) Acquire(ctx context.Context, n int64) error { return s.s.Acquire(ctx, int(n)) }

func (s marusama) AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	return s.Acquire(ctx, n)
}

func (s marusama) TryAcquire(n int64) bool { return s.s.TryAcquire(int(n)) }

func (s marusama) Release(n int64) { s.s.Release(int(n)) }

func (s marusama) serial(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if err := s.s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.s.Release(1)
	}
	return nil
}

func (s marusama) parallel(pb *testing.PB, ctx context.Context) error {
	for pb.Next() {
		if err := s.s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.s.Release(1)
	}
	return nil
}

func (s marusama) reject(b *testing.B) error {
	for b.Loop() {
		if s.s.TryAcquire(1) {
			return errGranted
		}
	}
	return nil
}
