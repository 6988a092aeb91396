package bench

import (
	"context"
	"testing"
	"time"
)

// channel is the usual home-made semaphore: a permit is an element of a buffered
// channel.
type channel chan struct{}

func newChannel(limit int64) limiter { return make(channel, limit) }

func (s channel) Acquire(ctx context.Context, _ int64) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s channel) AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error {
	if s.TryAcquire(n) {
		return nil
	}
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return context.DeadlineExceeded
	}
}

func (s channel) TryAcquire(int64) bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s channel) Release(int64) { <-s }

func (s channel) serial(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s channel) parallel(pb *testing.PB, ctx context.Context) error {
	for pb.Next() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s channel) reject(b *testing.B) error {
	for b.Loop() {
		if s.TryAcquire(1) {
			return errGranted
		}
	}
	return nil
}
