package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// casLoops is the floor: one compare-and-swap loop per acquire and one per
// release. It asks neither ctx nor whether anybody waits, and fails where a
// limiter would wait. The compiler inlines both into the loops below.
type casLoops struct{ free atomic.Int64 }

var errWouldWait = errors.New("the floor cannot wait")

func newFloor(limit int64) limiter {
	s := new(casLoops)
	s.free.Store(limit)
	return s
}

func (s *casLoops) Acquire(_ context.Context, n int64) error {
	if !s.TryAcquire(n) {
		return errWouldWait
	}
	return nil
}

func (s *casLoops) AcquireWithin(ctx context.Context, n int64, _ time.Duration) error {
	return s.Acquire(ctx, n)
}

func (s *casLoops) TryAcquire(n int64) bool {
	for {
		free := s.free.Load()
		if free < n {
			return false
		}
		if s.free.CompareAndSwap(free, free-n) {
			return true
		}
	}
}

func (s *casLoops) Release(n int64) {
	for {
		free := s.free.Load()
		if s.free.CompareAndSwap(free, free+n) {
			return
		}
	}
}

func (s *casLoops) serial(b *testing.B, ctx context.Context) error {
	for b.Loop() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s *casLoops) parallel(pb *testing.PB, ctx context.Context) error {
	for pb.Next() {
		if err := s.Acquire(ctx, 1); err != nil {
			return err
		}
		s.Release(1)
	}
	return nil
}

func (s *casLoops) reject(b *testing.B) error {
	for b.Loop() {
		if s.TryAcquire(1) {
			return errGranted
		}
	}
	return nil
}
