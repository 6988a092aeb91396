package bench

import (
	"context"
	"testing"

	"github.com/turnstile-go/turnstile/semaphore"
)

type turnstileLimiter struct{ *semaphore.Weighted }

func newTurnstile(limit int64) limiter { return turnstileLimiter{semaphore.NewWeighted(limit)} }

func newUnfair(limit int64) limiter {
	s, err := semaphore.New(semaphore.Config{Limit: limit, Unfair: true})
	if err != nil {
		panic(err)
	}
	return turnstileLimiter{s}
}

func (s turnstileLimiter) serial(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s turnstileLimiter) parallel(pb *testing.PB, ctx context.Context) error {
	for pb.Next() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s turnstileLimiter) reject(b *testing.B) error {
	for b.Loop() {
		if s.TryAcquire(1) {
			return errGranted
		}
	}
	return nil
}
