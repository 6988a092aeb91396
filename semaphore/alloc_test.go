package semaphore_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// wantAllocs fails the test if f allocates more often. The race detector
// allocates too, and has sync.Pool forget at random: under it f is just called.
func wantAllocs(t *testing.T, want float64, f func()) {
	t.Helper()
	if raceEnabled {
		f()
		return
	}
	if got := testing.AllocsPerRun(200, f); got > want {
		t.Errorf("%v allocations, want at most %v", got, want)
	}
}

// kinds are the kinds of contexts that matter for the cost.
func kinds(t *testing.T) map[string]context.Context {
	cancelable, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	timed, cancel := context.WithTimeout(context.Background(), time.Hour)
	t.Cleanup(cancel)
	return map[string]context.Context{"background": context.Background(), "cancelable": cancelable, "timed": timed}
}

func TestFreePermitsAllocateNothing(t *testing.T) {
	for name, ctx := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			sem := semaphore.NewWeighted(4)
			wantAllocs(t, 0, func() {
				if sem.Acquire(ctx, 1) != nil || sem.AcquireWithin(ctx, 2, time.Second) != nil || !sem.TryAcquire(1) {
					t.Error("refused")
				}
				sem.Release(4)
			})
		})
	}
}

// A context that is made for the one call need not make a Done channel for it.
func TestFreePermitMakesNoDoneChannel(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	ctx := newManual()
	ctx.hook = func(method string) {
		if method == "Done" {
			t.Error("Done is called")
		}
	}
	if err := sem.AcquireWithin(ctx, 1, 0); err != nil {
		t.Error(err)
	}
	if err := sem.AcquireWithin(ctx, 1, 0); err != semaphore.ErrTimeout {
		t.Error(err)
	}
}

// Refusals come in thousands when there is least to spare for them.
func TestRefusalsAllocateNothing(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		before  func(sem *semaphore.Weighted)
		n       int64
		maxWait time.Duration
		want    error
	}{
		{"no time to wait for one", func(sem *semaphore.Weighted) { sem.TryAcquire(2) }, 1, 0, semaphore.ErrTimeout},
		{"no time to wait for two", func(sem *semaphore.Weighted) { sem.TryAcquire(1) }, 2, 0, semaphore.ErrTimeout},
		{"above the limit", func(*semaphore.Weighted) {}, 3, time.Second, semaphore.ErrExceedsLimit},
		{"closed", func(sem *semaphore.Weighted) { sem.Close() }, 1, time.Second, semaphore.ErrClosed},
		{"others wait, no time to", queueOne, 1, 0, semaphore.ErrTimeout},
		{"queue full", queueOne, 1, time.Second, semaphore.ErrQueueFull},
	} {
		for name, ctx := range kinds(t) {
			t.Run(tt.reason+", "+name, func(t *testing.T) {
				sem := mustNew(semaphore.Config{Limit: 2, MaxWaiters: 1})
				tt.before(sem)
				defer wantNobodyInside(t)
				defer sem.Close()
				wantAllocs(t, 0, func() {
					if err := sem.AcquireWithin(ctx, tt.n, tt.maxWait); err != tt.want {
						t.Errorf("got %v, want %v", err, tt.want)
					}
					if sem.TryAcquire(tt.n) {
						t.Error("TryAcquire = true")
					}
				})
			})
		}
	}
	t.Run("context done", func(t *testing.T) {
		sem, ctx := semaphore.NewWeighted(1), canceled()
		wantAllocs(t, 0, func() { sem.Acquire(ctx, 1) })
	})
}

// queueOne has one request wait.
func queueOne(sem *semaphore.Weighted) {
	sem.TryAcquire(1)
	go sem.Acquire(context.Background(), 2)
	untilWaiting(sem, 1)
}

func TestLookingAndSettingAllocateNothing(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	limit := int64(0)
	ctx := context.Background()
	wantAllocs(t, 0, func() {
		limit++
		sem.SetLimit(limit)
		sem.Stats()
		if err := sem.Drain(ctx); err != nil {
			t.Error(err)
		}
	})
}

// turns has four goroutines take turns with one permit, each of which waits
// every time, so that the queue is never empty, and returns what one does.
func turns(t *testing.T, sem *semaphore.Weighted, acquire func() error) func() {
	turn := func() {
		if err := acquire(); err != nil {
			t.Error(err)
			return
		}
		runtime.Gosched()
		sem.Release(1)
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				turn()
			}
		})
	}
	t.Cleanup(func() {
		stop.Store(true)
		wg.Wait()
	})
	return turn
}

// Waiters and their channels are used again while somebody waits, and one timer
// serves all.
func TestWaitingInABusyQueueAllocatesNothing(t *testing.T) {
	for name, ctx := range kinds(t) {
		for _, maxWait := range []time.Duration{semaphore.Forever, time.Hour} {
			for _, unfair := range []bool{false, true} {
				sem := mustNew(semaphore.Config{Limit: 1, Unfair: unfair})
				t.Run(fmt.Sprintf("%s/maxWait=%v/unfair=%v", name, maxWait < semaphore.Forever, unfair), func(t *testing.T) {
					wantAllocs(t, 0, turns(t, sem, func() error { return sem.AcquireWithin(ctx, 1, maxWait) }))
				})
				wantIdle(t, sem, 1)
			}
		}
	}
}

// The same for those who give up.
func TestExpiryInABusyQueueAllocatesNothing(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	stays := begin(func() error { return sem.AcquireWithin(context.Background(), 1, time.Hour) })
	untilWaiting(sem, 1)
	wantAllocs(t, 0, func() {
		if err := sem.AcquireWithin(context.Background(), 1, time.Microsecond); err != semaphore.ErrTimeout {
			t.Errorf("got %v, want %v", err, semaphore.ErrTimeout)
		}
	})
	sem.Release(1)
	<-stays.done
}

// A wait that nobody else shares costs a channel.
func TestLonelyWaitAllocatesOnce(t *testing.T) {
	oneProc(t)
	for name, ctx := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			sem := semaphore.NewWeighted(1)
			sem.TryAcquire(1)
			var stop atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() {
				for !stop.Load() {
					sem.Acquire(ctx, 1)
					sem.Release(1)
				}
			})
			// Two hand-offs, and two waits, with the queue empty in between.
			exchange := func() {
				untilWaiting(sem, 1)
				sem.Release(1)
				sem.Acquire(ctx, 1)
			}
			defer func() {
				stop.Store(true)
				sem.Release(1)
				wg.Wait()
				wantIdle(t, sem, 1)
			}()
			wantAllocs(t, 2, exchange)

			const n = 1000
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range n {
				exchange()
			}
			runtime.ReadMemStats(&after)
			if got := (after.TotalAlloc - before.TotalAlloc) / (2 * n); got > 128 && !raceEnabled {
				t.Errorf("%d B a wait, want at most 128", got)
			}
		})
	}
}
