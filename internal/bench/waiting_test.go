package bench

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"
)

// busyLimit is the limit that the workers of the rows below compete for.
const busyLimit = 4

// contexts are the ways in which callers come by a ctx, which decides how much
// a wait must watch. Each makes the function that is called once per worker.
var contexts = []struct {
	name string
	each func(b *testing.B) func() context.Context
}{
	{"background", func(*testing.B) func() context.Context { return context.Background }},
	{"shared", func(b *testing.B) func() context.Context {
		ctx, cancel := context.WithCancel(context.Background())
		b.Cleanup(cancel)
		return func() context.Context { return ctx }
	}},
	{"own", func(b *testing.B) func() context.Context {
		var cancels []context.CancelFunc
		b.Cleanup(func() {
			for _, cancel := range cancels {
				cancel()
			}
		})
		return func() context.Context {
			ctx, cancel := context.WithCancel(context.Background())
			cancels = append(cancels, cancel)
			return ctx
		}
	}},
}

// waiting is a row per number of workers and way of coming by a ctx. Every
// acquire waits; the holder of a permit yields the processor once.
func waiting(b *testing.B, acquire func(l limiter, ctx context.Context) error) {
	for _, workers := range []int{16, 1024} {
		for _, ctx := range contexts {
			b.Run(fmt.Sprintf("workers=%d/ctx=%s", workers, ctx.name), func(b *testing.B) {
				run(b, inOrder, func(b *testing.B, newLimiter limiterFunc) {
					l := newLimiter(busyLimit)
					err := queue(b.N, workers, l, busyLimit, ctx.each(b), b.ResetTimer, func(ctx context.Context) error {
						if err := acquire(l, ctx); err != nil {
							return err
						}
						runtime.Gosched()
						l.Release(1)
						return nil
					})
					if err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// BenchmarkWaiting is a limiter at work: every acquire waits, bounded only by a
// ctx that does not end.
func BenchmarkWaiting(b *testing.B) {
	waiting(b, func(l limiter, ctx context.Context) error { return l.Acquire(ctx, 1) })
}

// BenchmarkTimedWaiting is the same with a maximum wait that never passes.
func BenchmarkTimedWaiting(b *testing.B) {
	waiting(b, func(l limiter, ctx context.Context) error { return l.AcquireWithin(ctx, 1, time.Minute) })
}

// BenchmarkExpire is an overload: nothing is released, and every acquire queues
// and gives up. The wait is so short that the workers keep the processors busy
// with giving up, so that time per operation is work, not waiting.
func BenchmarkExpire(b *testing.B) {
	const workers = 1024
	run(b, limiters, func(b *testing.B, newLimiter limiterFunc) {
		l := newLimiter(1)
		if !l.TryAcquire(1) {
			b.Fatal("no permit in a fresh limiter")
		}
		err := crowd(b.N, workers, b.Context, func() {}, func(ctx context.Context) error {
			if l.AcquireWithin(ctx, 1, 10*time.Microsecond) == nil {
				return errGranted
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkSaturated begins with a long queue for permits that are held so
// shortly that newcomers, were they let in, would soon dissolve it: what strict
// order costs, and Unfair saves. Among the contenders here are those that let
// newcomers in.
func BenchmarkSaturated(b *testing.B) {
	for _, workers := range []int{8, 16, 64, 1024} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			run(b, limiters, func(b *testing.B, newLimiter limiterFunc) {
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				l := newLimiter(busyLimit)
				each := func() context.Context { return ctx }
				err := queue(b.N, workers, l, busyLimit, each, b.ResetTimer, func(ctx context.Context) error {
					if err := l.Acquire(ctx, 1); err != nil {
						return err
					}
					work()
					l.Release(1)
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// work holds a permit for some tens of nanoseconds.
func work() {
	x := 1
	for range 100 {
		x = x*2 + 1
	}
	runtime.KeepAlive(x)
}
