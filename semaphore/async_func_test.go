package semaphore_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// fates are what can end the wait of several requests at once. They ask for n
// permits each, with one context and a maximum wait of a minute, on a semaphore
// whose 2 permits are all held.
var fates = []struct {
	name   string
	n      int64
	decide func(sem *semaphore.Weighted, cancel func())
	want   error
}{
	{"granted by Release", 1, func(sem *semaphore.Weighted, _ func()) { sem.Release(2) }, nil},
	{"granted by SetLimit", 1, func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(4) }, nil},
	{"expired", 1, func(*semaphore.Weighted, func()) { time.Sleep(time.Minute) }, semaphore.ErrTimeout},
	{"evicted", 2, func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(1) }, semaphore.ErrExceedsLimit},
	{"closed", 1, func(sem *semaphore.Weighted, _ func()) { sem.Close() }, semaphore.ErrClosed},
	{"canceled by the context", 1, func(_ *semaphore.Weighted, cancel func()) { cancel() }, context.Canceled},
}

// f may stay as long as it likes, or end its goroutine: whatever it was called
// for, that delays no other, no releaser and no timer.
func TestFuncThatNeverReturnsStrandsNobody(t *testing.T) {
	for _, tt := range fates {
		for _, ending := range []string{"blocks", "Goexit"} {
			t.Run(tt.name+"/"+ending, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(2)
					sem.TryAcquire(2)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					blocked := make(chan struct{})
					defer close(blocked)
					var called atomic.Int32
					for range 2 {
						sem.AcquireFunc(ctx, tt.n, time.Minute, func(err error) {
							called.Add(1)
							if err != tt.want {
								t.Errorf("f was called with %v, want %v", err, tt.want)
							}
							if ending == "Goexit" {
								runtime.Goexit()
							}
							<-blocked
						})
					}
					tt.decide(sem, cancel)
					synctest.Wait()
					if got := called.Load(); got != 2 {
						t.Errorf("f was called %d times for 2 requests", got)
					}
					if !sem.Stats().Closed {
						sem.SetLimit(2)
						late := acquireWithin(t.Context(), sem, 2, time.Second)
						time.Sleep(time.Second)
						late.want(t, "a timer afterwards", semaphore.ErrTimeout)
					}
				})
			})
		}
	}
}

// What is known at once is told by f, too, and not on the caller's goroutine:
// the call returns although f does not.
func TestFuncDecidedAtOnceMayBlock(t *testing.T) {
	for _, tt := range []struct {
		name string
		ctx  context.Context
		n    int64
		want error
	}{
		{"granted", context.Background(), 1, nil},
		{"refused", context.Background(), 3, semaphore.ErrExceedsLimit},
		{"its context was done", canceled(), 1, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(2)
				got := make(chan error)
				sem.AcquireFunc(tt.ctx, tt.n, semaphore.Forever, func(err error) { got <- err })
				if err := <-got; err != tt.want {
					t.Errorf("f was called with %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// Everything the semaphore can do, f can do.
func TestFuncReenters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(2)
		sem.TryAcquire(2)
		var seen []string
		saw := func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }
		sem.AcquireFunc(t.Context(), 1, semaphore.Forever, func(err error) {
			saw("granted %v", err)
			saw("stats %d", sem.Stats().InUse)
			saw("try %t", sem.TryAcquire(1))
			inner := sem.AcquireAsync(t.Context(), 1, semaphore.Forever)
			saw("async %v", inner.Err())
			sem.SetLimit(3)
			saw("wait %v", inner.Wait(t.Context()))
			saw("within %v", sem.AcquireWithin(t.Context(), 1, time.Second))
			sem.AcquireFunc(t.Context(), 1, semaphore.Forever, func(err error) {
				saw("inner %v", err)
				sem.Release(1)
			})
			sem.Release(1)
			sem.Release(1) // inner's
		})
		sem.Release(1)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		want := []string{"granted <nil>", "stats 2", "try false", "async semaphore: pending", "wait <nil>",
			"within semaphore: timed out", "inner <nil>"}
		if fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("got  %q\nwant %q", seen, want)
		}
		sem.Release(1)
		wantIdle(t, sem, 3)
	})
}

// Whoever releases may hold a mutex that f wants: f is on another goroutine.
func TestFuncMayWantTheReleasersMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		var mu sync.Mutex
		p := sem.AcquireFunc(t.Context(), 1, semaphore.Forever, func(error) {
			mu.Lock()
			defer mu.Unlock()
			sem.Release(1)
		})
		mu.Lock()
		sem.Release(1)
		if err := p.Err(); err != nil {
			t.Errorf("Err() = %v, want nil", err)
		}
		mu.Unlock()
		synctest.Wait()
		wantIdle(t, sem, 1)
	})
}

// Either Cancel withdraws the request or f is called, never both and never
// neither, however close the race.
func TestFuncIsCalledOrWithdrawn(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	for range rounds(10_000) {
		sem.TryAcquire(1)
		called := make(chan struct{})
		p := sem.AcquireFunc(context.Background(), 1, semaphore.Forever, func(err error) {
			if err != nil {
				t.Errorf("f was called with %v, want nil", err)
			}
			sem.Release(1)
			close(called) // panics if f is called twice
		})
		released := make(chan struct{})
		go func() {
			sem.Release(1)
			close(released)
		}()
		if p.Cancel() {
			<-released
			select {
			case <-called:
				t.Fatal("single outcome: f was called although Cancel withdrew the request")
			default:
			}
			if err := p.Err(); err != context.Canceled {
				t.Fatalf("Err() = %v after Cancel, want %v", err, context.Canceled)
			}
		} else {
			<-called
			<-released
			if err := p.Err(); err != nil {
				t.Fatalf("Err() = %v after f was called, want nil", err)
			}
		}
		wantIdle(t, sem, 1)
	}
	wantNobodyInside(t)
}
