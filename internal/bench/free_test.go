package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
)

// BenchmarkAcquireRelease is the whole cost of a limiter that limits nobody:
// one goroutine, permits free, a ctx that could end.
func BenchmarkAcquireRelease(b *testing.B) {
	run(b, withFloor, func(b *testing.B, newLimiter limiterFunc) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		if err := newLimiter(16).serial(b, ctx); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkParallel is the same on every processor at once. With free=1 there is
// a permit more than goroutines and nobody ever waits; with free=-1 there is one
// less, and whether anybody waits depends on how the goroutines meet.
func BenchmarkParallel(b *testing.B) {
	for _, free := range []int{1, -1} {
		limit := runtime.GOMAXPROCS(0) + free
		if limit < 1 {
			continue
		}
		cs := limiters
		if free > 0 {
			cs = withFloor
		}
		b.Run(fmt.Sprintf("free=%d", free), func(b *testing.B) {
			run(b, cs, func(b *testing.B, newLimiter limiterFunc) {
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				l := newLimiter(int64(limit))
				b.RunParallel(func(pb *testing.PB) {
					if err := l.parallel(pb, ctx); err != nil {
						b.Error(err)
					}
				})
			})
		})
	}
}

// BenchmarkRejectFull is the answer of a full limiter to a caller that will not
// wait. Floor is a load.
func BenchmarkRejectFull(b *testing.B) {
	run(b, withFloor, func(b *testing.B, newLimiter limiterFunc) {
		l := newLimiter(1)
		if !l.TryAcquire(1) {
			b.Fatal("no permit in a fresh limiter")
		}
		if err := l.reject(b); err != nil {
			b.Fatal(err)
		}
	})
}
