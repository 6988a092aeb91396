package bench

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
)

type xsync struct{ *semaphore.Weighted }

func newXSync(limit int64) limiter { return xsync{semaphore.NewWeighted(limit)} }

func (s xsync) AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	return s.Acquire(ctx, n)
}

func (s xsync) serial(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s xsync) parallel(pb *testing.PB, ctx context.Context) error {
	for pb.Next() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s xsync) reject(b *testing.B) error {
	for b.Loop() {
		if s.TryAcquire(1) {
			return errGranted
		}
	}
	return nil
}
