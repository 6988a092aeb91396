package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// shared are semaphores as many programs have them, at package level, for all
// their tests.
var shared = []*semaphore.Weighted{semaphore.NewWeighted(2), mustNew(semaphore.Config{Limit: 2, Unfair: true})}

func mustNew(cfg semaphore.Config) *semaphore.Weighted {
	sem, err := semaphore.New(cfg)
	if err != nil {
		panic(err)
	}
	return sem
}

// busySpell has requests of every kind wait, reuse what others left, and end in
// every way but by closing. In a bubble their waits take days; they must be
// short outside.
func busySpell(t *testing.T, sem *semaphore.Weighted, maxWait time.Duration) {
	t.Helper()
	sem.TryAcquire(2)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 3 {
		calls := []struct {
			*call
			want error
		}{
			{begin(func() error { return sem.AcquireWithin(context.Background(), 2, maxWait) }), semaphore.ErrTimeout},
			{begin(func() error { return sem.AcquireWithin(ctx, 1, maxWait) }), semaphore.ErrTimeout},
			{begin(func() error {
				ctx, cancel := context.WithTimeout(ctx, maxWait)
				defer cancel()
				return sem.Acquire(ctx, 1)
			}), context.DeadlineExceeded},
			{begin(func() error {
				ctx, cancel := context.WithTimeout(ctx, maxWait)
				defer cancel()
				return sem.Drain(ctx)
			}), context.DeadlineExceeded},
		}
		for i, c := range calls {
			if err := <-c.done; err != c.want {
				t.Errorf("call %d: got %v, want %v", i, err, c.want)
			}
		}
	}
	drain := begin(func() error { return sem.Drain(ctx) })
	timed := begin(func() error { return sem.AcquireWithin(ctx, 1, time.Hour) })
	untimed := begin(func() error { return sem.Acquire(context.Background(), 1) })
	untilWaiting(sem, 2)
	sem.Release(2)
	for _, c := range []*call{timed, untimed} {
		if err := <-c.done; err != nil {
			t.Errorf("granted: got %v, want nil", err)
		}
	}
	sem.Release(1)
	sem.Release(1)
	if err := <-drain.done; err != nil {
		t.Errorf("Drain = %v, want nil", err)
	}
	wantIdle(t, sem, 2)
}

// A channel or a timer made in one bubble and used in another, or outside, ends
// the process; so the semaphore must not keep any. Each bubble begins in the
// year 2000 again, so time runs backwards between them.
func TestSharedSemaphoreWorksInOneBubbleAfterAnother(t *testing.T) {
	for _, sem := range shared {
		for range 3 {
			busySpell(t, sem, time.Millisecond)
			synctest.Test(t, func(t *testing.T) { busySpell(t, sem, 100*24*time.Hour) })
			synctest.Test(t, func(t *testing.T) { busySpell(t, sem, time.Hour) })
		}
	}
}

// The same if the bubble's spell was ended by others than its waiters.
func TestSharedSemaphoreAfterABubbleThatEndedInAnyWay(t *testing.T) {
	oneProc(t)
	for _, tt := range endings {
		if tt.want == semaphore.ErrClosed {
			continue // nothing works after that
		}
		t.Run(tt.name, func(t *testing.T) {
			for _, sem := range shared {
				for range 3 {
					synctest.Test(t, func(t *testing.T) {
						sem.TryAcquire(1)
						ctx := newManual()
						ws := []*call{acquireWithin(ctx, sem, 2, time.Minute), acquireWithin(ctx, sem, 2, time.Minute)}
						tt.end(sem, func() { ctx.end(errOwn) })
						synctest.Wait()
						ctx.end(errOwn)
						for _, w := range ws {
							if w.outcome() == errWaiting {
								t.Error("it still waits")
							}
						}
						sem.Release(sem.Stats().InUse)
						sem.SetLimit(2)
						wantIdle(t, sem, 2)
					})
				}
			}
		})
	}
}

func TestDrainThatGaveUpInABubbleLeavesNoChannelBehind(t *testing.T) {
	for _, sem := range shared {
		sem.TryAcquire(1)
		for range 3 {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := sem.Drain(ctx); err != context.DeadlineExceeded {
					t.Errorf("Drain = %v, want %v", err, context.DeadlineExceeded)
				}
			})
		}
		drain := begin(func() error { return sem.Drain(context.Background()) })
		sem.Release(1)
		if err := <-drain.done; err != nil {
			t.Errorf("Drain = %v, want nil", err)
		}
		wantIdle(t, sem, 2)
	}
}
