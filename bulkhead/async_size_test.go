//go:build !race

package bulkhead_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

func TestAsyncAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	count := func(context.Context, event.Record) {}
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 10})
	watched := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 10, Listener: event.All(count)})
	for _, tt := range []struct {
		name string
		want float64
		f    func() (int, error)
	}{
		{"ExecuteAsync and Get", 3, func() (int, error) { return b.ExecuteAsync(ctx, answer).Get(ctx) }},
		{"ExecuteAsync and Get, one listener", 3, func() (int, error) { return watched.ExecuteAsync(ctx, answer).Get(ctx) }},
		{"ExecuteAsync and Get on a fresh handle", 3, func() (int, error) { return b.Weighing(2).ExecuteAsync(ctx, answer).Get(ctx) }},
		{"Go and Get", 3, func() (int, error) { return bulkhead.Go(ctx, b, answer).Get(ctx) }},
		{"AcquireAsync and Complete", 2, func() (int, error) {
			p, err := b.AcquireAsync(ctx).Wait(ctx)
			p.Complete(err)
			return 42, err
		}},
	} {
		got := testing.AllocsPerRun(1000, func() {
			if got, err := tt.f(); got != 42 || err != nil {
				t.Errorf("%s: %v, %v, want 42, nil", tt.name, got, err)
			}
		})
		if got > tt.want {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.want)
		}
	}
}

// A queued call costs its Future, what the semaphore keeps of it and, if its
// context is its own, what package context does. The function's closure is the
// caller's.
func TestQueuedCallIsSmall(t *testing.T) {
	// With contexts of their own, a few bytes depend on how full the semaphore's
	// map of them happens to be: at 20,000 they are 709.
	const calls = 50_000
	shared, cancel := context.WithCancel(t.Context())
	defer cancel()
	type key struct{}
	for _, tt := range []struct {
		name  string
		ctx   func() context.Context
		wait  time.Duration
		bytes uint64
	}{
		{"no end", context.Background, bulkhead.Forever, 256},
		{"no end, timed", context.Background, time.Hour, 256},
		{"a common context", func() context.Context { return shared }, bulkhead.Forever, 256},
		{"contexts with a common end", func() context.Context { return context.WithValue(shared, key{}, t) }, time.Hour, 256},
		{"contexts of their own", func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			t.Cleanup(cancel)
			ctx.Done() // as whoever made it will have asked for that
			return ctx
		}, bulkhead.Forever, 704},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: tt.wait})
			hold(t, b, 1)
			ctxs := make([]context.Context, calls)
			for i := range ctxs {
				ctxs[i] = tt.ctx()
			}
			futures := make([]*bulkhead.Future[int], calls)
			goroutines, before := runtime.NumGoroutine(), heapInUse()
			for i := range futures {
				futures[i] = b.ExecuteAsync(ctxs[i], answer)
			}
			if got := (heapInUse() - before) / calls; got > tt.bytes {
				t.Errorf("a queued call takes %d B, want at most %d", got, tt.bytes)
			}
			if got := runtime.NumGoroutine(); got > goroutines {
				t.Errorf("%d queued calls have %d goroutines, want none", calls, got-goroutines)
			}
			b.Close()
			for _, f := range futures {
				<-f.Done()
			}
			runtime.KeepAlive(ctxs)
			runtime.KeepAlive(futures)
			runtime.KeepAlive(b)
		})
	}
}

// heapInUse returns the bytes in use, and none of them garbage.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what was in a sync.Pool at the first
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
