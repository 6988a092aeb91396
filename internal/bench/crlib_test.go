package bench

import (
	"context"
	"testing"
	"time"

	"github.com/cockroachdb/crlib/fifo"
)

type crlib struct{ *fifo.Semaphore }

func newCRLib(limit int64) limiter { return crlib{fifo.NewSemaphore(limit)} }

func (s crlib) AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	return s.Acquire(ctx, n)
}

func (s crlib) serial(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s crlib) parallel(pb *testing.PB, ctx context.Context) error {
	for pb.Next() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s crlib) reject(b *testing.B) error {
	for b.Loop() {
		if s.TryAcquire(1) {
			return errGranted
		}
	}
	return nil
}
