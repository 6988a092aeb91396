package semaphore_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

func TestWaitExpiresAfterExactlyItsMaximum(t *testing.T) {
	for _, maxWait := range []time.Duration{1, time.Microsecond, time.Second, 1000 * time.Hour, 200 * 365 * 24 * time.Hour} {
		t.Run(maxWait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				sem.TryAcquire(1)
				began := time.Now()
				err := sem.AcquireWithin(t.Context(), 1, maxWait)
				if waited := time.Since(began); err != semaphore.ErrTimeout || waited != maxWait {
					t.Errorf("got %v after %v, want %v after %v", err, waited, semaphore.ErrTimeout, maxWait)
				}
				sem.Release(1)
				wantIdle(t, sem, 1)
			})
		})
	}
}

// One timer serves all: whoever is added or leaves, each of the others expires
// at its own time.
func TestEachWaitExpiresAtItsOwnTime(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		reason string
		waits  []time.Duration // one request each; 0: no maximum
		every  time.Duration   // between their arrivals
		leave  map[int]time.Duration
	}{
		{"the same for all", []time.Duration{5 * s, 5 * s, 5 * s}, s, nil},
		{"the same for all, at one instant", []time.Duration{s, s, s, s}, 0, nil},
		{"each shorter than the one before", []time.Duration{9 * s, 7 * s, 5 * s, 3 * s}, s, nil},
		{"each longer than the one before", []time.Duration{3 * s, 5 * s, 7 * s}, s, nil},
		{"some without", []time.Duration{0, 3 * s, 0, 5 * s, 0}, s, nil},
		{"the earliest leaves", []time.Duration{3 * s, 9 * s}, 0, map[int]time.Duration{0: s}},
		{"the earliest, a late comer, leaves", []time.Duration{9 * s, 3 * s}, s, map[int]time.Duration{1: 2 * s}},
		{"all but the last leave", []time.Duration{4 * s, 3 * s, 9 * s}, 0, map[int]time.Duration{0: s, 1: s}},
		{"one comes when the timed ones are gone", []time.Duration{s, 0, s}, 2 * s, nil},
		{"in no order", []time.Duration{5 * s, 2 * s, 8 * s, 0, 1 * s, 7 * s, 3 * s}, 100 * time.Millisecond, map[int]time.Duration{2: s}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				sem.TryAcquire(1)
				var calls []*call
				for i, maxWait := range tt.waits {
					want := error(semaphore.ErrTimeout)
					wait := maxWait
					if wait == 0 {
						wait = semaphore.Forever
						want = semaphore.ErrClosed
					}
					ctx := t.Context()
					ends := maxWait
					if after, ok := tt.leave[i]; ok {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, after)
						defer cancel()
						want, ends = context.DeadlineExceeded, after
					}
					began := time.Now()
					calls = append(calls, begin(func() error {
						err := sem.AcquireWithin(ctx, 1, wait)
						if waited := time.Since(began); ends != 0 && waited != ends {
							t.Errorf("request %d waited %v, want %v", i, waited, ends)
						}
						if err != want {
							t.Errorf("request %d: got %v, want %v", i, err, want)
						}
						return nil
					}))
					elapse(tt.every)
				}
				elapse(time.Minute)
				sem.Close() // ends those without a maximum
				for _, c := range calls {
					c.want(t, "request", nil)
				}
				if got := sem.Stats(); got.InUse != 1 || got.Waiting != 0 {
					t.Errorf("Stats = %+v, want 1 in use and nobody waiting", got)
				}
			})
		})
	}
}

// A permit that is free is taken however short the wait may be.
func TestFreePermitIsTakenWithoutTimeToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(2)
		for _, maxWait := range []time.Duration{math.MinInt64, -1, 0, 1, semaphore.Forever} {
			if err := sem.AcquireWithin(t.Context(), 2, maxWait); err != nil {
				t.Errorf("AcquireWithin(%d) = %v, want nil", maxWait, err)
				continue
			}
			if err := sem.AcquireWithin(t.Context(), 0, maxWait); err != nil {
				t.Errorf("AcquireWithin(%d) of nothing = %v, want nil", maxWait, err)
			}
			sem.Release(2)
		}
		wantIdle(t, sem, 2)
	})
}

// Neither now + maxWait nor anything else overflows into the past.
func TestHugeMaximumWaitsForTheContextAlone(t *testing.T) {
	const centuries = 250 * 365 * 24 * time.Hour
	for _, maxWait := range []time.Duration{semaphore.Forever, semaphore.Forever - 1, semaphore.Forever / 8 * 7} {
		t.Run(maxWait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				sem.TryAcquire(1)
				ctx, cancel := context.WithCancel(t.Context())
				w := acquireWithin(ctx, sem, 1, maxWait)
				next := acquireWithin(ctx, sem, 1, maxWait)
				short := acquireWithin(ctx, sem, 1, time.Second)
				elapse(centuries)
				short.want(t, "one with a short maximum", semaphore.ErrTimeout)
				w.want(t, "waiter, after 250 years", errWaiting)
				sem.Release(1)
				w.want(t, "waiter, after a release", nil)
				next.want(t, "next", errWaiting)
				cancel()
				next.want(t, "next, after its context ended", context.Canceled)
				sem.Release(1)
				wantIdle(t, sem, 1)
			})
		})
	}
}

// Outside a bubble, whose time is that of the year 2000 and so leaves room, the
// sum does overflow. It must not make the request the most urgent of all.
func TestDeadlineBeyondTheEndOfTheClockIsNone(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	huge := begin(func() error { return sem.AcquireWithin(context.Background(), 1, semaphore.Forever-1) })
	untilWaiting(sem, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := sem.AcquireWithin(ctx, 1, time.Millisecond); err != semaphore.ErrTimeout {
		t.Errorf("a short wait ended with %v, want %v", err, semaphore.ErrTimeout)
	}
	sem.Release(1)
	if err := <-huge.done; err != nil {
		t.Errorf("the huge wait ended with %v, want nil", err)
	}
	sem.Release(1)
	wantIdle(t, sem, 1)
}

// A wait that its context had ended was told as one that had timed out.
// https://github.com/failsafe-go/failsafe-go/commit/3113968
func TestContextAndMaximumWhicheverEndsFirst(t *testing.T) {
	for _, tt := range []struct {
		reason       string
		ctx, maxWait time.Duration
		want         error
	}{
		{"context first", 10 * time.Millisecond, time.Second, context.DeadlineExceeded},
		{"maximum first", time.Second, 10 * time.Millisecond, semaphore.ErrTimeout},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				sem.TryAcquire(1)
				ctx, cancel := context.WithTimeout(t.Context(), tt.ctx)
				defer cancel()
				began := time.Now()
				err := sem.AcquireWithin(ctx, 1, tt.maxWait)
				if err != tt.want || time.Since(began) != 10*time.Millisecond {
					t.Errorf("got %v after %v, want %v after 10ms", err, time.Since(began), tt.want)
				}
				sem.Release(1)
				wantIdle(t, sem, 1)
			})
		})
	}
}

// Whoever was granted in time has left the timer behind: it must not expire
// the next one early, nor anybody twice.
func TestGrantInTimeDisarmsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		for range 20 {
			w := acquireWithin(t.Context(), sem, 1, time.Second)
			elapse(time.Second - 1)
			sem.Release(1)
			w.want(t, "granted at the last moment", nil)
		}
		// The queue was empty in between; now it is not.
		first := acquireWithin(t.Context(), sem, 1, 2*time.Second)
		elapse(time.Second)
		second := acquireWithin(t.Context(), sem, 1, 2*time.Second)
		sem.Release(1)
		first.want(t, "first", nil)
		elapse(2*time.Second - 1)
		second.want(t, "second, before its time", errWaiting)
		elapse(1)
		second.want(t, "second", semaphore.ErrTimeout)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// With a time-out wrapped around an acquire, the acquire succeeded and the
// time-out reported failure. Here grants and deadlines fall on the same
// instants, and either may win.
// https://github.com/Kotlin/kotlinx.coroutines/issues/2233
func TestGrantAndExpiryAtOneInstantHaveOneOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, callers, hold = 10, 300, 25 * time.Millisecond
		sem := semaphore.NewWeighted(limit)
		var calls []*call
		for i := range callers {
			calls = append(calls, begin(func() error {
				err := sem.AcquireWithin(t.Context(), 1, hold*time.Duration(1+i%4))
				if err != nil {
					return err
				}
				if inUse := sem.Stats().InUse; inUse > limit {
					t.Errorf("%d in flight at a limit of %d", inUse, limit)
				}
				time.Sleep(hold)
				sem.Release(1)
				return nil
			}))
		}
		elapse(time.Second)
		served := 0
		for _, c := range calls {
			switch err := <-c.done; err {
			case nil:
				served++
			case semaphore.ErrTimeout:
			default:
				t.Errorf("got %v, want nil or %v", err, semaphore.ErrTimeout)
			}
		}
		if served < 4*limit || served > 5*limit { // five shifts, the last at the last deadline
			t.Errorf("%d served, want %d to %d", served, 4*limit, 5*limit)
		}
		wantIdle(t, sem, limit)
	})
}

// Expiry, as any leaving, lets those behind go who fit now, and it does so at
// that very instant.
func TestExpiryOfAHeavyFrontGrantsThoseBehindAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(3)
		sem.TryAcquire(1)
		acquireWithin(t.Context(), sem, 3, time.Second)
		began := time.Now()
		if err := sem.Acquire(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got != time.Second {
			t.Errorf("granted after %v, want 1s", got)
		}
		sem.Release(3)
		wantIdle(t, sem, 3)
	})
}

// Requests that were canceled while the pool was contended left places that
// nobody had, and after ten of those every request timed out.
// https://github.com/encode/httpcore/issues/1093
func TestChurnOfDeadlinesLosesNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, workers = 10, 20
		sem := semaphore.NewWeighted(limit)
		var calls []*call
		for id := range uint64(workers) {
			calls = append(calls, begin(func() error {
				rng := rand.New(rand.NewPCG(9, id))
				for range rounds(300) {
					// So that deadlines and releases meet, at one instant.
					patience := time.Duration(rng.IntN(13)) * 250 * time.Microsecond
					ctx, cancel := context.WithTimeout(t.Context(), patience)
					maxWait := semaphore.Forever
					if rng.IntN(2) == 0 {
						maxWait = patience // at the same instant, or nearly so
					}
					err := sem.AcquireWithin(ctx, 1, maxWait)
					cancel()
					switch err {
					case nil:
						time.Sleep(time.Millisecond)
						sem.Release(1)
					case semaphore.ErrTimeout, context.DeadlineExceeded:
					default:
						return err
					}
				}
				return nil
			}))
		}
		elapse(time.Hour)
		for _, c := range calls {
			c.want(t, "worker", nil)
		}
		wantIdle(t, sem, limit)
	})
}
