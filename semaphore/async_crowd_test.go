package semaphore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// asyncCrowd is how many requests wait in the tests of this file, many times what is
// decided in one hold of the mutex.
func asyncCrowd() int {
	if raceEnabled || testing.Short() {
		return 5_000
	}
	return 100_000
}

// ends are what can decide a crowd of requests at one moment. They ask for a
// permit each, with one context and a maximum wait of an hour, and as many are
// held.
var ends = []struct {
	name string
	end  func(sem *semaphore.Weighted, ctx *manual, crowd int64)
	want error
}{
	{"Release", func(sem *semaphore.Weighted, _ *manual, crowd int64) { sem.Release(crowd) }, nil},
	{"Release after Release", func(sem *semaphore.Weighted, _ *manual, crowd int64) {
		for range crowd {
			sem.Release(1)
		}
	}, nil},
	{"SetLimit up", func(sem *semaphore.Weighted, _ *manual, crowd int64) { sem.SetLimit(2 * crowd) }, nil},
	{"the end of a pause", func(sem *semaphore.Weighted, _ *manual, crowd int64) {
		sem.SetLimit(0)
		sem.Release(crowd)
		sem.SetLimit(crowd)
	}, nil},
	{"Close", func(sem *semaphore.Weighted, _ *manual, _ int64) { sem.Close() }, semaphore.ErrClosed},
	{"their maximum wait", func(*semaphore.Weighted, *manual, int64) { time.Sleep(time.Hour) }, semaphore.ErrTimeout},
	{"their context", func(_ *semaphore.Weighted, ctx *manual, _ int64) { ctx.end(errCustom) }, errCustom},
	{"their context, and a Release before it tells", func(sem *semaphore.Weighted, ctx *manual, _ int64) {
		ctx.finish(errCustom)
		sem.Release(1)
		ctx.tell()
	}, errCustom},
}

// Whatever decides a crowd decides each of it, once and alike, in its order as
// far as permits go, and leaves no memory behind.
func TestAsyncCrowdDecidedAtOnce(t *testing.T) {
	for _, tt := range ends {
		t.Run(tt.name+"/AcquireAsync", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := asyncCrowd()
				sem := semaphore.NewWeighted(int64(n))
				sem.TryAcquire(int64(n))
				ctx := newManual(sem)
				ps := make([]*semaphore.Pending, n)
				before := heapInUse()
				for i := range ps {
					ps[i] = sem.AcquireAsync(ctx, 1, time.Hour)
				}
				var watched *call
				if tt.want == nil {
					watched = begin(func() error { watchOrder(t, ps); return nil })
				}
				tt.end(sem, ctx, int64(n))
				synctest.Wait()
				for i, p := range ps {
					if err := p.Err(); err != tt.want {
						t.Fatalf("request %d: %v, want %v", i, err, tt.want)
					}
				}
				if watched != nil {
					watched.want(t, "the watcher", nil)
				}
				wantRest(t, sem)
				clear(ps)
				if after := heapInUse(); after > before+uint64(n) {
					t.Errorf("%d B are left of %d requests", after-before, n)
				}
				runtime.KeepAlive(ctx)
			})
		})
		t.Run(tt.name+"/AcquireFunc", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := asyncCrowd()
				sem := semaphore.NewWeighted(int64(n))
				sem.TryAcquire(int64(n))
				ctx := newManual(sem)
				called := make([]atomic.Int32, n)
				for i := range n {
					sem.AcquireFunc(ctx, 1, time.Hour, func(err error) {
						called[i].Add(1)
						if err != tt.want {
							t.Errorf("f of request %d was called with %v, want %v", i, err, tt.want)
						}
					})
				}
				tt.end(sem, ctx, int64(n))
				synctest.Wait()
				for i := range called {
					if got := called[i].Load(); got != 1 {
						t.Fatalf("f of request %d was called %d times", i, got)
					}
				}
				wantRest(t, sem)
			})
		})
	}
}

// watchOrder fails the test if one request was granted while one before it was
// not. It looks from the first grant on, and returns when all are granted.
func watchOrder(t *testing.T, ps []*semaphore.Pending) {
	<-ps[0].Done()
	r := rand.New(rand.NewPCG(0, 0))
	for last := len(ps) - 1; ps[last].Err() == semaphore.ErrPending; runtime.Gosched() {
		late := r.IntN(len(ps))
		if ps[late].Err() != nil {
			continue
		}
		for range 10 {
			if early := r.IntN(late + 1); ps[early].Err() != nil {
				t.Errorf("no barging: request %d was granted before request %d", late, early)
				return
			}
		}
	}
}

// wantRest releases what is in flight, and fails the test unless all permits
// are there then and nobody waits.
func wantRest(t *testing.T, sem *semaphore.Weighted) {
	t.Helper()
	wantWaiting(t, sem, 0)
	s := sem.Stats()
	sem.Release(s.InUse)
	if !s.Closed {
		wantIdle(t, sem, s.Limit)
	}
}

// When half of a crowd leaves, the other half, which fits without it, is served
// at once and in its order, or else when one in front of all has left as well.
func TestAsyncCrowdHalfLeaves(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(sem *semaphore.Weighted, ctx *manual, heavy []*semaphore.Pending)
		want  error
	}{
		{"evicted", func(sem *semaphore.Weighted, _ *manual, _ []*semaphore.Pending) {
			sem.SetLimit(sem.Stats().Limit - 1)
		}, semaphore.ErrExceedsLimit},
		{"expired", func(*semaphore.Weighted, *manual, []*semaphore.Pending) {
			time.Sleep(time.Hour)
		}, semaphore.ErrTimeout},
		{"their context ended", func(_ *semaphore.Weighted, ctx *manual, _ []*semaphore.Pending) {
			ctx.end(errCustom)
		}, errCustom},
		{"canceled", func(_ *semaphore.Weighted, _ *manual, heavy []*semaphore.Pending) {
			for _, i := range rand.Perm(len(heavy)) {
				heavy[i].Cancel()
			}
		}, context.Canceled},
	} {
		for _, blocked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/blocked=%t", tt.name, blocked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := asyncCrowd()
					sem := semaphore.NewWeighted(int64(2 * n))
					sem.TryAcquire(2)
					ctx := newManual(sem)
					var light, heavy []*semaphore.Pending
					front := sem.AcquireAsync(t.Context(), int64(2*n-1), semaphore.Forever)
					for i := range n {
						// In runs longer than what is looked at in one hold of the mutex.
						if i/semaphore.Chunk/2%2 == 0 {
							heavy = append(heavy, sem.AcquireAsync(ctx, int64(2*n), time.Hour))
						} else {
							light = append(light, sem.AcquireAsync(t.Context(), 1, semaphore.Forever))
						}
					}
					if !blocked {
						front.Cancel()
					}
					watched := begin(func() error { watchOrder(t, light); return nil })
					tt.leave(sem, ctx, heavy)
					synctest.Wait()
					if blocked {
						wantWaiting(t, sem, 1+len(light))
						front.Cancel()
					}
					watched.want(t, "the watcher", nil)
					for i, p := range heavy {
						if err := p.Err(); err != tt.want {
							t.Fatalf("one that leaves, %d: %v, want %v", i, err, tt.want)
						}
					}
					for i, p := range light {
						<-p.Done()
						if err := p.Err(); err != nil {
							t.Fatalf("one that stays, %d: %v, want nil", i, err)
						}
					}
					wantInUse(t, sem, int64(2+len(light)))
					wantRest(t, sem)
				})
			})
		}
	}
}

func wantWaiting(t *testing.T, sem *semaphore.Weighted, want int) {
	t.Helper()
	if got := sem.Stats().Waiting; got != want {
		t.Errorf("Waiting = %d, want %d", got, want)
	}
}

// A crowd with a context each, which all end with their parent.
func TestAsyncCrowdOfContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := asyncCrowd() / 4
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		parent, cancel := context.WithCancel(t.Context())
		var ps []*semaphore.Pending
		for range n {
			ctx, cancel := context.WithTimeout(parent, time.Hour)
			defer cancel()
			ps = append(ps, sem.AcquireAsync(ctx, 1, time.Hour))
		}
		cancel()
		synctest.Wait()
		for i, p := range ps {
			if err := p.Err(); err != context.Canceled {
				t.Fatalf("request %d: %v, want %v", i, err, context.Canceled)
			}
		}
		wantRest(t, sem)
	})
}

// A crowd that is canceled one by one, in any order, while it is being served:
// each has one outcome, and no permit is lost in between.
func TestAsyncCrowdCanceledWhileServed(t *testing.T) {
	n := asyncCrowd()
	sem := semaphore.NewWeighted(int64(n))
	sem.TryAcquire(int64(n))
	ps := make([]*semaphore.Pending, n)
	for i := range ps {
		ps[i] = sem.AcquireAsync(t.Context(), 1, semaphore.Forever)
	}
	order := rand.Perm(n)
	canceled := make([]bool, n)
	released := make(chan struct{})
	go func() {
		for range n / 2 {
			sem.Release(1)
		}
		close(released)
	}()
	for _, i := range order[:n/2] {
		canceled[i] = ps[i].Cancel()
	}
	<-released
	var granted int64
	for i, p := range ps {
		switch err := p.Err(); {
		case err == nil && !canceled[i]:
			granted++
		case err == context.Canceled && canceled[i]:
		case err == semaphore.ErrPending && !canceled[i]:
		default:
			t.Fatalf("single outcome: request %d: Err() = %v, Cancel() = %t", i, err, canceled[i])
		}
	}
	wantInUse(t, sem, int64(n)-int64(n/2)+granted)
	sem.Close()
	wantRest(t, sem)
}
