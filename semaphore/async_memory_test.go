package semaphore_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"github.com/turnstile-go/turnstile/semaphore"
)

// A Pending is what a queued request costs; doc.go promises that a million of
// them are a million structs.
func TestPendingIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(semaphore.Pending{}); got > 144 {
		t.Errorf("a Pending has %d B, want at most 144", got)
	}
}

func TestAcquireAsyncOfAFreePermitAllocatesOnce(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if got := testing.AllocsPerRun(1000, func() {
		p := sem.AcquireAsync(ctx, 1, time.Second)
		if p.Err() != nil {
			t.Error("the permit was not free")
		}
		sem.Release(1)
	}); got != 1 {
		t.Errorf("AcquireAsync allocates %v times, want 1", got)
	}
}

// A queued request costs its struct, and what package context takes if its
// context is its own, and no goroutine. When all are decided nothing is left.
func TestQueuedRequestIsCheap(t *testing.T) {
	const requests = 10_000
	shared, cancel := context.WithCancel(t.Context())
	defer cancel()
	foreign := plain{newManual()}
	for _, tt := range []struct {
		name       string
		ctx        func() context.Context
		maxWait    time.Duration
		bytes      uint64 // of one queued request
		goroutines int    // of all of them
	}{
		{"no end", context.Background, semaphore.Forever, 176, 0},
		{"no end, timed", context.Background, time.Hour, 176, 0},
		{"a common context", func() context.Context { return shared }, semaphore.Forever, 176, 0},
		{"contexts with a common end", func() context.Context {
			return context.WithValue(shared, contextKey{}, t)
		}, time.Hour, 176, 0},
		{"contexts of their own", func() context.Context {
			ctx, cancel := context.WithCancel(shared)
			t.Cleanup(cancel)
			return ctx
		}, semaphore.Forever, 176 + 256, 0},
		{"a foreign context, without AfterFunc", func() context.Context { return foreign }, semaphore.Forever, 176, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctxs := make([]context.Context, requests)
			for i := range ctxs {
				ctxs[i] = tt.ctx()
				context.AfterFunc(ctxs[i], func() {})() // leaves an empty map in each
			}
			sem := semaphore.NewWeighted(1)
			sem.TryAcquire(1)
			ps := make([]*semaphore.Pending, requests)
			goroutines, bytes := runtime.NumGoroutine(), heapInUse()
			for i := range ps {
				ps[i] = sem.AcquireAsync(ctxs[i], 1, tt.maxWait)
			}
			if got := runtime.NumGoroutine(); got > goroutines+tt.goroutines {
				t.Errorf("%d queued requests have %d goroutines, want %d", requests, got-goroutines, tt.goroutines)
			}
			if got := (heapInUse() - bytes) / requests; got > tt.bytes {
				t.Errorf("a queued request takes %d B, want at most %d", got, tt.bytes)
			}
			sem.Close()
			for i, p := range ps {
				if err := p.Err(); err != semaphore.ErrClosed {
					t.Fatalf("request %d: %v", i, err)
				}
			}
			clear(ps)
			wantNobodyInside(t)
			wantGoroutines(t, goroutines)
			if left := heapInUse(); left > bytes+requests*8 {
				t.Errorf("%d B are left of %d requests", left-bytes, requests)
			}
			runtime.KeepAlive(ctxs)
			runtime.KeepAlive(sem)
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

// wantGoroutines fails the test unless no more than so many goroutines are
// left, once those that are about to end have had the time to.
func wantGoroutines(t *testing.T, want int) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 10*time.Second; {
		if runtime.NumGoroutine() <= want {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines, want %d", runtime.NumGoroutine(), want)
}

// Once a request is decided, however it was, its context and f can be
// collected, though the semaphore, the parent of the context and the Pending
// live on.
func TestDecidedRequestKeepsNothingAlive(t *testing.T) {
	type ballast [1024]byte
	for _, tt := range outcomes {
		for _, form := range []string{"AcquireAsync", "AcquireFunc"} {
			t.Run(tt.name+"/"+form, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem, err := semaphore.New(semaphore.Config{Limit: 2, MaxWaiters: 1})
					if err != nil {
						t.Fatal(err)
					}
					var inCtx, inFunc weak.Pointer[ballast]
					s := &scene{Weighted: sem, t: t}
					s.ask = func(ctx context.Context, n int64, maxWait time.Duration) {
						value := new(ballast)
						inCtx = weak.Make(value)
						ctx = context.WithValue(ctx, contextKey{}, value)
						if form == "AcquireAsync" {
							s.asked = askAsync(ctx, sem, n, maxWait)
							return
						}
						captured := new(ballast)
						inFunc = weak.Make(captured)
						c := make(chan told, 2)
						s.asked = &asked{told: c, Pending: sem.AcquireFunc(ctx, n, maxWait, func(err error) {
							captured[0]++
							c <- told{err: err}
						})}
					}
					tt.play(s)
					s.withdrawn = tt.withdrawn
					s.want(t, "the request", tt.want)
					runtime.GC()
					if inCtx.Value() != nil {
						t.Error("the context is kept alive")
					}
					if inFunc.Value() != nil {
						t.Error("f is kept alive")
					}
					runtime.KeepAlive(s)
				})
			})
		}
	}
}

// It goes for a request that the grant loop passed over as well, whose group
// was told later.
func TestPassedOverRequestKeepsNothingAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		shared := newManual(sem)
		type wrapped struct{ *manual }
		own := &wrapped{shared}
		collected := weak.Make(own)
		p := askFunc(own, sem, 1, semaphore.Forever)
		shared.finish(errCustom)
		sem.Release(1)
		shared.tell()
		p.want(t, "the request", errCustom)
		own = nil
		runtime.GC()
		if collected.Value() != nil {
			t.Error("the context is kept alive")
		}
		runtime.KeepAlive(p)
		wantIdle(t, sem, 1)
	})
}

// Requests are linked to their neighbours in the queue, among the deadlines and
// in the group of their context. A Pending that is kept keeps none of them.
func TestKeptPendingKeepsNoOtherAlive(t *testing.T) {
	for _, tt := range fates {
		for kept := range 3 {
			t.Run(fmt.Sprintf("%s/%d", tt.name, kept), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(2)
					sem.TryAcquire(2)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var others []weak.Pointer[semaphore.Pending]
					var keep *semaphore.Pending
					for i := range 3 {
						p := sem.AcquireAsync(ctx, tt.n, time.Minute)
						if i == kept {
							keep = p
						} else {
							others = append(others, weak.Make(p))
						}
					}
					tt.decide(sem, cancel)
					if tt.want == nil {
						sem.SetLimit(9) // for the third
					}
					synctest.Wait()
					runtime.GC()
					for i, p := range others {
						if p.Value() != nil {
							t.Errorf("other request %d is kept alive", i)
						}
					}
					if err := keep.Err(); err != tt.want {
						t.Errorf("Err() = %v, want %v", err, tt.want)
					}
				})
			})
		}
	}
}

// All that a Pending keeps is itself: not even the Done channel of its context.
func TestKeptPendingKeepsItsOwnBytesOnly(t *testing.T) {
	const requests = 5000
	for _, tt := range []struct {
		name   string
		decide func(sem *semaphore.Weighted, ctxs []*manual, ps []*semaphore.Pending)
	}{
		{"closed", func(sem *semaphore.Weighted, _ []*manual, _ []*semaphore.Pending) { sem.Close() }},
		{"contexts ended", func(_ *semaphore.Weighted, ctxs []*manual, ps []*semaphore.Pending) {
			for i, ctx := range ctxs {
				ctx.end(errCustom)
				for ps[i].Err() == semaphore.ErrPending { // one at a time, as many goroutines leave memory behind
					runtime.Gosched()
				}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			goroutines := runtime.NumGoroutine()
			sem := semaphore.NewWeighted(1)
			sem.TryAcquire(1)
			ps := make([]*semaphore.Pending, requests)
			before := heapInUse()
			ctxs := make([]*manual, requests)
			for i := range ps {
				ctxs[i] = newManual()
				ps[i] = sem.AcquireAsync(ctxs[i], 1, time.Hour)
			}
			tt.decide(sem, ctxs, ps)
			ctxs = nil
			wantGoroutines(t, goroutines)
			const size = uint64(unsafe.Sizeof(semaphore.Pending{}))
			if got := (heapInUse() - before) / requests; got > size+48 {
				t.Errorf("a decided Pending of %d B keeps %d B alive", size, got)
			}
			runtime.KeepAlive(ps)
		})
	}
}
