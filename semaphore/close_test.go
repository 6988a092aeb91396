package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// wantClosed fails the test unless sem is closed with so much in flight.
func wantClosed(t *testing.T, sem *semaphore.Weighted, limit, inUse int64) {
	t.Helper()
	want := semaphore.Stats{Limit: limit, InUse: inUse, Available: max(0, limit-inUse), Closed: true}
	if got := sem.Stats(); got != want {
		t.Errorf("Stats = %+v, want %+v", got, want)
	}
	for _, n := range []int64{0, 1} {
		if sem.TryAcquire(n) {
			t.Errorf("TryAcquire(%d) = true on a closed semaphore", n)
		}
		if err := sem.Acquire(t.Context(), n); err != semaphore.ErrClosed {
			t.Errorf("Acquire(%d) = %v, want %v", n, err, semaphore.ErrClosed)
		}
	}
}

// On shutdown nothing woke the waiters, and people poured in permits that did
// not exist.
// https://github.com/tokio-rs/tokio/issues/3061
func TestCloseFailsWaitersAndNewcomers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(3)
		sem.TryAcquire(3)
		waiters := []*call{
			acquire(t.Context(), sem, 1),
			acquireWithin(t.Context(), sem, 3, time.Hour),
			acquire(t.Context(), sem, 0),
		}
		sem.Close()
		for _, c := range waiters {
			c.want(t, "waiter", semaphore.ErrClosed)
		}
		wantClosed(t, sem, 3, 3)
		sem.Release(1)
		wantClosed(t, sem, 3, 2)
		sem.Release(2)
		wantClosed(t, sem, 3, 0)
		wantPanic(t, overRelease, func() { sem.Release(1) })
		wantClosed(t, sem, 3, 0)
	})
}

func TestCloseInEverySituation(t *testing.T) {
	inEverySituation(t, func(t *testing.T, sem *semaphore.Weighted, inUse int64) {
		limit := sem.Stats().Limit
		for range 2 { // the second time it does nothing
			sem.Close()
			synctest.Wait()
			wantClosed(t, sem, limit, inUse)
		}
	})
}

// Changing the number of permits cleared the closed bit.
// https://github.com/tokio-rs/tokio/issues/8020
func TestSetLimitOnAClosedSemaphoreIsAcceptedAndReopensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(2)
		sem.TryAcquire(2)
		w := acquire(t.Context(), sem, 1)
		sem.Close()
		w.want(t, "waiter", semaphore.ErrClosed)
		for _, limit := range []int64{4, 1, 0, 9} {
			sem.SetLimit(limit)
			wantClosed(t, sem, limit, 2)
		}
		sem.Release(2)
		wantClosed(t, sem, 9, 0)
	})
}

func TestDrainOfAnIdleSemaphoreReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ctx := range []context.Context{t.Context(), canceled(), doomed{}} {
			var sem semaphore.Weighted
			for range 2 { // paused, then with permits
				if err := sem.Drain(ctx); err != nil {
					t.Errorf("Drain = %v, want nil", err)
				}
				sem.SetLimit(2)
			}
			sem.Close()
			if err := sem.Drain(ctx); err != nil {
				t.Errorf("Drain after Close = %v, want nil", err)
			}
		}
	})
}

// Whoever waits holds nothing.
func TestDrainDoesNotWaitForWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(0)
		w := acquire(t.Context(), sem, 1)
		if err := sem.Drain(canceled()); err != nil {
			t.Errorf("Drain = %v, want nil", err)
		}
		w.want(t, "waiter", errWaiting)
		sem.SetLimit(1)
		w.want(t, "waiter", nil)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

func TestDrainWaitsForTheLastPermit(t *testing.T) {
	for _, tt := range []struct {
		reason string
		before func(sem *semaphore.Weighted)
		open   bool
	}{
		{"open", func(*semaphore.Weighted) {}, true},
		{"in debt", func(sem *semaphore.Weighted) { sem.SetLimit(1) }, true},
		{"paused", func(sem *semaphore.Weighted) { sem.SetLimit(0) }, true},
		{"grown", func(sem *semaphore.Weighted) { sem.SetLimit(100) }, true},
		{"closed", func(sem *semaphore.Weighted) { sem.Close() }, false},
	} {
		for _, when := range []string{"before", "while"} {
			t.Run(tt.reason+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(3)
					sem.TryAcquire(3)
					if when == "before" {
						tt.before(sem)
					}
					drain := func() error { return sem.Drain(t.Context()) }
					drains := []*call{start(drain), start(drain)}
					if when == "while" {
						tt.before(sem)
					}
					for range 3 {
						for _, d := range drains {
							d.want(t, "Drain", errWaiting)
						}
						sem.Release(1)
					}
					for _, d := range drains {
						d.want(t, "Drain of an idle semaphore", nil)
					}
					start(drain).want(t, "another Drain", nil)
					if limit := sem.Stats().Limit; tt.open {
						wantIdle(t, sem, limit)
					} else {
						wantClosed(t, sem, limit, 0)
					}
				})
			})
		}
	}
}

// A release that brings what is in flight to zero may come by any way: every
// one has to look whether somebody drains.
func TestDrainSeesEveryKindOfReturn(t *testing.T) {
	oneProc(t)
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		drain := start(func() error { return sem.Drain(t.Context()) })
		ctx, cancel := context.WithCancel(t.Context())
		w := acquire(ctx, sem, 1)
		sem.Release(1) // granted to w
		cancel()       // which gives it back
		w.want(t, "waiter", context.Canceled)
		drain.want(t, "Drain", nil)
		wantIdle(t, sem, 1)
	})
}

// Permits that pass from a release to a waiter never left, and those of a
// waiter that has not run yet are in flight.
func TestDrainOutlastsHandOffs(t *testing.T) {
	oneProc(t)
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		w := acquire(t.Context(), sem, 1)
		drain := start(func() error { return sem.Drain(t.Context()) })
		sem.Release(1)
		late := begin(func() error { return sem.Drain(canceled()) })
		late.want(t, "Drain after the release", context.Canceled)
		w.want(t, "waiter", nil)
		drain.want(t, "Drain", errWaiting)
		sem.Release(1)
		drain.want(t, "Drain, after the last release", nil)
		wantIdle(t, sem, 1)
	})
}

func TestDrainReturnsThoughOthersAcquireAgainAtOnce(t *testing.T) {
	oneProc(t)
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(2)
		sem.TryAcquire(1)
		drain := start(func() error { return sem.Drain(t.Context()) })
		sem.Release(1)
		if !sem.TryAcquire(2) {
			t.Error("TryAcquire(2) = false on an idle semaphore")
		}
		drain.want(t, "Drain", nil)
		late := start(func() error { return sem.Drain(t.Context()) })
		late.want(t, "Drain that begins now", errWaiting)
		sem.Release(2)
		late.want(t, "Drain that began later", nil)
		wantIdle(t, sem, 2)
	})
}

// That others drain does not keep anybody from acquiring, waiting or trying.
func TestDrainingSemaphoreWorksAsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(3)
		sem.TryAcquire(1)
		drain := start(func() error { return sem.Drain(t.Context()) })
		acquire(t.Context(), sem, 1).want(t, "one that fits", nil)
		if !sem.TryAcquire(1) || sem.TryAcquire(1) {
			t.Error("TryAcquire: want exactly one more permit")
		}
		w := acquire(t.Context(), sem, 2)
		acquireWithin(t.Context(), sem, 1, 0).want(t, "hasty", semaphore.ErrTimeout)
		sem.Release(2)
		w.want(t, "waiter", nil)
		sem.Release(2)
		drain.want(t, "Drain with 1 in flight", errWaiting)
		sem.Release(1)
		drain.want(t, "Drain", nil)
		wantIdle(t, sem, 3)
	})
}

func TestDrainEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		start(func() error { return sem.Drain(doomed{t.Context()}) }).want(t, "Drain with a context that is done", errOwn)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gone := start(func() error { return sem.Drain(ctx) })
		stays := start(func() error { return sem.Drain(t.Context()) })
		elapse(time.Second - 1)
		gone.want(t, "Drain, before its deadline", errWaiting)
		elapse(1)
		gone.want(t, "Drain, past its deadline", context.DeadlineExceeded)
		stays.want(t, "the other Drain", errWaiting)
		sem.Release(1)
		stays.want(t, "the other Drain", nil)

		// A drain that nobody waits for any more leaves nothing behind.
		sem.TryAcquire(1)
		ctx, cancel = context.WithCancel(t.Context())
		gone = start(func() error { return sem.Drain(ctx) })
		cancel()
		gone.want(t, "Drain", context.Canceled)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// A Drain whose context ends just as nothing is in flight any more may go
// either way, but not twice: those who drain later are still counted right.
func TestDrainThatEndsAsItGetsIdleLeavesTheOthersAlone(t *testing.T) {
	oneProc(t)
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		for range 20 {
			sem.TryAcquire(1)
			ctx, cancel := context.WithCancel(t.Context())
			either := start(func() error { return sem.Drain(ctx) })
			cancel()
			sem.Release(1)
			synctest.Wait()
			if err := <-either.done; err != nil && err != context.Canceled {
				t.Errorf("Drain = %v, want nil or %v", err, context.Canceled)
			}

			sem.TryAcquire(1)
			ctx, cancel = context.WithCancel(t.Context())
			gone := start(func() error { return sem.Drain(ctx) })
			stays := start(func() error { return sem.Drain(t.Context()) })
			cancel()
			gone.want(t, "Drain with a context that ended", context.Canceled)
			sem.Release(1)
			stays.want(t, "the other Drain", nil)
		}
		wantIdle(t, sem, 1)
	})
}

// When nothing was in flight for a moment, and then ctx ended, that moment
// counts, although both are over when Drain runs.
func TestDrainThatWasIdleBeforeItsContextEndedIsNil(t *testing.T) {
	oneProc(t)
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		for range 100 { // a select with two ready cases picks either
			sem.TryAcquire(1)
			ctx, cancel := context.WithCancel(t.Context())
			drain := start(func() error { return sem.Drain(ctx) })
			sem.Release(1)
			cancel()
			if drain.want(t, "Drain", nil); t.Failed() {
				return
			}
		}
		wantIdle(t, sem, 1)
	})
}

func TestDrainAfterCloseIsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(2)
		sem.TryAcquire(2)
		w := acquire(t.Context(), sem, 1)
		drain := start(func() error { return sem.Drain(t.Context()) })
		sem.Close()
		w.want(t, "waiter", semaphore.ErrClosed)
		drain.want(t, "Drain", errWaiting)
		sem.Release(1)
		drain.want(t, "Drain with 1 in flight", errWaiting)
		sem.Release(1)
		drain.want(t, "Drain", nil)
		wantClosed(t, sem, 2, 0)
	})
}
