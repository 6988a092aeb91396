package semaphore_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnstile-go/turnstile/semaphore"
)

const (
	negativeWeight = "semaphore: negative weight"
	negativeLimit  = "semaphore: negative limit"
	overRelease    = "semaphore: released more than held"
)

func TestNewNamesTheFieldAndTheValueThatIsOutOfRange(t *testing.T) {
	for _, tt := range []struct {
		reason string
		cfg    semaphore.Config
		want   string
	}{
		{"negative limit", semaphore.Config{Limit: -1}, "semaphore: Config.Limit is -1, must not be negative"},
		{"least limit", semaphore.Config{Limit: math.MinInt64}, "semaphore: Config.Limit is -9223372036854775808, must not be negative"},
		{"negative bound", semaphore.Config{Limit: 1, MaxWaiters: -2}, "semaphore: Config.MaxWaiters is -2, must not be negative"},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			sem, err := semaphore.New(tt.cfg)
			if sem != nil || err == nil || err.Error() != tt.want {
				t.Errorf("got %v, %v, want nil, %q", sem, err, tt.want)
			}
		})
	}
}

func TestNewTakesTheEndsOfEachRange(t *testing.T) {
	for _, cfg := range []semaphore.Config{
		{},
		{Limit: 1, MaxWaiters: 1},
		// Their sum overflowed: https://github.com/smallrye/smallrye-fault-tolerance/issues/1099
		{Limit: math.MaxInt64, MaxWaiters: math.MaxInt},
	} {
		sem, err := semaphore.New(cfg)
		if err != nil {
			t.Errorf("New(%+v): %v", cfg, err)
			continue
		}
		wantIdle(t, sem, cfg.Limit)
	}
}

func TestNewWeightedPanicsOnANegativeLimit(t *testing.T) {
	wantPanic(t, "semaphore: Config.Limit is -1, must not be negative", func() { semaphore.NewWeighted(-1) })
}

func TestZeroValueIsOpenAndPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sem semaphore.Weighted
		wantIdle(t, &sem, 0)
		w := acquire(t.Context(), &sem, 2)
		w.want(t, "waiter at limit 0", errWaiting)
		sem.SetLimit(2)
		w.want(t, "waiter after SetLimit", nil)
		sem.Release(2)
		wantIdle(t, &sem, 2)
	})
}

// As in x/sync, a semaphore may be a field that is set to *NewWeighted(n). What
// makes that work must not be lost in one of the slow paths.
func TestFreshCopyWorksOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		original := semaphore.NewWeighted(2)
		sem := copyOf(original)

		if !sem.TryAcquire(2) {
			t.Fatal("TryAcquire(2) = false")
		}
		waiter := acquire(t.Context(), sem, 1)
		timed := acquireWithin(t.Context(), sem, 1, time.Second)
		drain := start(func() error { return sem.Drain(t.Context()) })
		elapse(time.Second)
		timed.want(t, "timed waiter", semaphore.ErrTimeout)
		sem.Release(2)
		waiter.want(t, "waiter", nil)
		drain.want(t, "Drain while the waiter holds", errWaiting)
		sem.Release(1)
		drain.want(t, "Drain", nil)
		wantIdle(t, sem, 2)
		sem.Close()

		wantIdle(t, original, 2)
	})
}

// copyOf copies in a way that vet's copylocks, which is right to warn, lets
// pass.
func copyOf[T any](p *T) *T {
	c := *p
	return &c
}

func TestTryAcquireTakesWhatFits(t *testing.T) {
	for _, tt := range []struct {
		reason          string
		limit, inUse, n int64
		want            bool
	}{
		{"free", 2, 0, 1, true},
		{"exactly the limit", 2, 0, 2, true},
		{"exactly what is left", 2, 1, 1, true},
		{"one more than is left", 2, 1, 2, false},
		{"nothing left", 2, 2, 1, false},
		{"above the limit", 2, 0, 3, false},
		{"nothing asked, nothing left", 2, 2, 0, true},
		{"nothing asked at limit 0", 0, 0, 0, true},
		{"anything at limit 0", 0, 0, 1, false},
		{"all there can be", math.MaxInt64, 0, math.MaxInt64, true},
		{"in flight + n overflows", math.MaxInt64, math.MaxInt64 - 1, 2, false},
		{"far above the limit", 1, 1, math.MaxInt64, false},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			sem := semaphore.NewWeighted(tt.limit)
			if !sem.TryAcquire(tt.inUse) {
				t.Fatalf("TryAcquire(%d) = false on a free semaphore", tt.inUse)
			}
			if got := sem.TryAcquire(tt.n); got != tt.want {
				t.Errorf("TryAcquire(%d) = %v, want %v", tt.n, got, tt.want)
			}
			if tt.want {
				tt.inUse += tt.n
			}
			wantStats(t, sem, tt.limit, tt.inUse, 0)
			sem.Release(tt.inUse)
			wantIdle(t, sem, tt.limit)
		})
	}
}

// situations are all a semaphore can be in, with a limit of 4. Each returns
// the number of permits in flight, as its callers count them.
var situations = []struct {
	name  string
	enter func(t *testing.T, sem *semaphore.Weighted) (inUse int64)
}{
	{"idle", func(*testing.T, *semaphore.Weighted) int64 { return 0 }},
	{"partly in use", func(t *testing.T, sem *semaphore.Weighted) int64 {
		sem.TryAcquire(3)
		return 3
	}},
	{"full", func(t *testing.T, sem *semaphore.Weighted) int64 {
		sem.TryAcquire(4)
		return 4
	}},
	{"with a waiter", func(t *testing.T, sem *semaphore.Weighted) int64 {
		sem.TryAcquire(2)
		acquire(t.Context(), sem, 4)
		return 2
	}},
	{"with a timed waiter", func(t *testing.T, sem *semaphore.Weighted) int64 {
		sem.TryAcquire(2)
		acquireWithin(t.Context(), sem, 4, time.Hour)
		return 2
	}},
	{"in debt", func(t *testing.T, sem *semaphore.Weighted) int64 {
		sem.SetLimit(9)
		sem.TryAcquire(9)
		sem.SetLimit(4)
		return 9
	}},
	{"paused", func(t *testing.T, sem *semaphore.Weighted) int64 {
		sem.TryAcquire(1)
		sem.SetLimit(0)
		return 1
	}},
	{"being drained", func(t *testing.T, sem *semaphore.Weighted) int64 {
		sem.TryAcquire(1)
		start(func() error { return sem.Drain(t.Context()) })
		return 1
	}},
	{"closed", func(t *testing.T, sem *semaphore.Weighted) int64 {
		sem.TryAcquire(1)
		sem.Close()
		return 1
	}},
}

// inEverySituation runs f in each, and ends whatever still waits then.
func inEverySituation(t *testing.T, f func(t *testing.T, sem *semaphore.Weighted, inUse int64)) {
	for _, s := range situations {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(4)
				f(t, sem, s.enter(t, sem))
				sem.Close()
				synctest.Wait() // whoever f has granted something has it now
				sem.Release(sem.Stats().InUse)
			})
		})
	}
}

// wantUnchanged fails the test if f changes what Stats shows.
func wantUnchanged(t *testing.T, sem *semaphore.Weighted, f func()) {
	t.Helper()
	before := sem.Stats()
	f()
	if diff := cmp.Diff(before, sem.Stats()); diff != "" {
		t.Errorf("Stats (-before +after):\n%s", diff)
	}
}

// Negative weights passed the guards of x/sync and raised the count of free
// permits.
// https://github.com/golang/go/issues/80183
func TestNegativeWeightPanicsBeforeAnythingChanges(t *testing.T) {
	for _, n := range []int64{-1, math.MinInt64} {
		inEverySituation(t, func(t *testing.T, sem *semaphore.Weighted, inUse int64) {
			for _, ctx := range []context.Context{t.Context(), canceled(), nil} {
				wantUnchanged(t, sem, func() {
					wantPanic(t, negativeWeight, func() { sem.Acquire(ctx, n) })
					wantPanic(t, negativeWeight, func() { sem.AcquireWithin(ctx, n, 0) })
					wantPanic(t, negativeWeight, func() { sem.AcquireWithin(ctx, n, time.Hour) })
				})
			}
			wantUnchanged(t, sem, func() {
				wantPanic(t, negativeWeight, func() { sem.TryAcquire(n) })
				wantPanic(t, negativeWeight, func() { sem.Release(n) })
			})
		})
	}
}

// Such a release raised the limit, silently and for good.
// https://github.com/vercel/async-sema/issues/36
func TestReleaseOfMoreThanIsInFlightPanicsBeforeAnythingChanges(t *testing.T) {
	inEverySituation(t, func(t *testing.T, sem *semaphore.Weighted, inUse int64) {
		for _, n := range []int64{inUse + 1, math.MaxInt64} {
			wantUnchanged(t, sem, func() {
				wantPanic(t, overRelease, func() { sem.Release(n) })
			})
		}
		// Not the mutex either is left behind, and what is in flight still is.
		sem.Release(inUse)
		wantPanic(t, overRelease, func() { sem.Release(sem.Stats().InUse + 1) })
	})
}

func TestReleaseOfNothingDoesNothing(t *testing.T) {
	inEverySituation(t, func(t *testing.T, sem *semaphore.Weighted, inUse int64) {
		wantUnchanged(t, sem, func() { sem.Release(0) })
	})
}

func TestPermitsMayBeReleasedInAnyPortions(t *testing.T) {
	sem := semaphore.NewWeighted(10)
	sem.TryAcquire(4)
	sem.TryAcquire(6)
	for _, n := range []int64{1, 7, 2} {
		sem.Release(n)
	}
	wantIdle(t, sem, 10)
}

// A nil context panicked with the mutex held.
// https://github.com/jackc/puddle/issues/8
func TestNilContextPanicsBeforeAnythingIsTaken(t *testing.T) {
	inEverySituation(t, func(t *testing.T, sem *semaphore.Weighted, inUse int64) {
		for _, n := range []int64{0, 1, 5} {
			for name, f := range map[string]func(ctx context.Context){
				"Acquire":       func(ctx context.Context) { sem.Acquire(ctx, n) },
				"AcquireWithin": func(ctx context.Context) { sem.AcquireWithin(ctx, n, 0) },
				"Drain":         func(ctx context.Context) { sem.Drain(ctx) },
			} {
				wantUnchanged(t, sem, func() {
					defer func() {
						if recover() == nil {
							t.Errorf("%s(nil): no panic", name)
						}
					}()
					f(nil)
				})
			}
		}
	})
}

// errOwn is the error of a context that has an own idea of errors.
var errOwn = errors.New("own error")

// doomed is a context that is done with errOwn.
type doomed struct{ context.Context }

func (doomed) Done() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func (doomed) Err() error { return errOwn }

// Each row gives a request two reasons at once, neighbours in the order of the
// checks, and says which wins.
func TestOrderOfChecks(t *testing.T) {
	inUse := func(n int64) func(*testing.T, *semaphore.Weighted) {
		return func(t *testing.T, sem *semaphore.Weighted) { sem.TryAcquire(n) }
	}
	closed := func(inUse int64) func(*testing.T, *semaphore.Weighted) {
		return func(t *testing.T, sem *semaphore.Weighted) {
			sem.TryAcquire(inUse)
			sem.Close()
		}
	}
	// queued puts as many waiters as may wait behind what is in use.
	queued := func(inUse, heavy int64) func(*testing.T, *semaphore.Weighted) {
		return func(t *testing.T, sem *semaphore.Weighted) {
			sem.TryAcquire(inUse)
			acquire(t.Context(), sem, heavy)
			acquire(t.Context(), sem, heavy)
		}
	}
	ended := func(context.Context) context.Context { return doomed{} }
	endedWithCause := func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(errOwn)
		return ctx
	}
	const forever = semaphore.Forever

	for _, tt := range []struct {
		reason  string
		limit   int64 // and two may wait
		state   func(*testing.T, *semaphore.Weighted)
		ctx     func(context.Context) context.Context // nil: not done
		n       int64
		maxWait time.Duration
		want    error
	}{
		{"done and closed", 2, closed(0), ended, 1, forever, errOwn},
		{"done and above the limit", 2, inUse(0), ended, 3, forever, errOwn},
		{"done and it fits", 2, inUse(0), ended, 1, forever, errOwn},
		{"done and nothing asked", 2, inUse(0), ended, 0, forever, errOwn},
		{"done and no time to wait", 2, inUse(2), ended, 1, 0, errOwn},
		{"done and queue full", 2, queued(2, 1), ended, 1, forever, errOwn},
		{"done with a cause", 2, inUse(0), endedWithCause, 1, forever, context.Canceled},

		{"closed and above the limit", 2, closed(0), nil, 3, forever, semaphore.ErrClosed},
		{"closed and it fits", 2, closed(0), nil, 1, forever, semaphore.ErrClosed},
		{"closed and nothing asked", 2, closed(0), nil, 0, forever, semaphore.ErrClosed},
		{"closed and no time to wait", 2, closed(2), nil, 1, 0, semaphore.ErrClosed},
		{"closed, holders in flight", 2, closed(1), nil, 1, forever, semaphore.ErrClosed},
		{"closed and paused", 0, closed(0), nil, 1, forever, semaphore.ErrClosed},

		{"above the limit and no time to wait", 2, inUse(2), nil, 3, 0, semaphore.ErrExceedsLimit},
		{"above the limit, all free, no time to wait", 2, inUse(0), nil, 3, 0, semaphore.ErrExceedsLimit},
		{"above the limit and queue full", 2, queued(2, 1), nil, 3, forever, semaphore.ErrExceedsLimit},
		{"far above the limit", 2, inUse(2), nil, math.MaxInt64, forever, semaphore.ErrExceedsLimit},

		{"it fits and no time to wait", 2, inUse(1), nil, 1, 0, nil},
		{"it fits and less than no time to wait", 2, inUse(1), nil, 1, math.MinInt64, nil},
		{"nothing asked, nothing free, no time to wait", 2, inUse(2), nil, 0, 0, nil},
		{"nothing asked at limit 0", 0, inUse(0), nil, 0, 0, nil},

		{"it fits, but others wait, and no time to", 2, queued(1, 2), nil, 1, 0, semaphore.ErrTimeout},
		{"nothing asked, but others wait, and no time to", 2, queued(1, 2), nil, 0, 0, semaphore.ErrTimeout},
		{"no time to wait and queue full", 2, queued(2, 1), nil, 1, 0, semaphore.ErrTimeout},
		{"less than no time to wait", 2, inUse(2), nil, 1, -time.Hour, semaphore.ErrTimeout},
		{"heavy, and no time to wait", 2, inUse(1), nil, 2, 0, semaphore.ErrTimeout},
		{"paused: above the limit is not too heavy", 0, inUse(0), nil, math.MaxInt64, 0, semaphore.ErrTimeout},

		{"queue full", 2, queued(2, 1), nil, 1, forever, semaphore.ErrQueueFull},
		{"queue full, however little time to wait", 2, queued(2, 1), nil, 1, 1, semaphore.ErrQueueFull},
		{"queue full, it would fit", 2, queued(1, 2), nil, 1, forever, semaphore.ErrQueueFull},
		{"queue full, nothing asked", 2, queued(1, 2), nil, 0, forever, semaphore.ErrQueueFull},
		{"queue full, paused", 0, queued(0, 5), nil, 9, forever, semaphore.ErrQueueFull},

		{"none of them: it waits", 2, inUse(2), nil, 1, forever, errWaiting},
		{"none of them: it waits its time", 2, inUse(2), nil, 1, 1, errWaiting},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem, err := semaphore.New(semaphore.Config{Limit: tt.limit, MaxWaiters: 2})
				if err != nil {
					t.Fatal(err)
				}
				tt.state(t, sem)
				want := sem.Stats()
				ctx := t.Context()
				if tt.ctx != nil {
					ctx = tt.ctx(ctx)
				}
				acquireWithin(ctx, sem, tt.n, tt.maxWait).want(t, "acquire", tt.want)
				// Whoever is refused holds nothing and leaves nothing behind.
				switch tt.want {
				case nil:
					want.InUse += tt.n
					want.Available -= tt.n
				case errWaiting:
					want.Waiting++
				}
				if diff := cmp.Diff(want, sem.Stats()); diff != "" {
					t.Errorf("Stats (-want +got):\n%s", diff)
				}
				sem.Close()
			})
		})
	}
}

// The early return of the first refusal kept the mutex, and everything froze.
// https://github.com/letsencrypt/boulder/pull/7272
func TestRefusalsLeaveTheSemaphoreUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem, _ := semaphore.New(semaphore.Config{Limit: 1, MaxWaiters: 1})
		sem.TryAcquire(1)
		waiter := acquire(t.Context(), sem, 1)
		acquire(t.Context(), sem, 1).want(t, "third", semaphore.ErrQueueFull)
		acquire(t.Context(), sem, 2).want(t, "heavy", semaphore.ErrExceedsLimit)
		acquire(canceled(), sem, 1).want(t, "canceled", context.Canceled)
		acquireWithin(t.Context(), sem, 1, 0).want(t, "hasty", semaphore.ErrTimeout)
		sem.Release(1)
		waiter.want(t, "waiter", nil)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// MaxWaiters is a bound on those who wait: a place is free the moment a waiter
// is decided, not when it runs. Elsewhere, of twenty quick calls for 10 permits
// and 10 places some were refused.
// https://github.com/OpenLiberty/open-liberty/issues/2746
func TestQueueIsFullExactlyAtTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, bound = 10, 10
		sem, _ := semaphore.New(semaphore.Config{Limit: limit, MaxWaiters: bound})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for round := range 50 {
			var calls []*call
			for range limit + bound {
				calls = append(calls, begin(func() error { return sem.Acquire(ctx, 1) }))
			}
			synctest.Wait()
			wantStats(t, sem, limit, limit, bound)
			acquire(ctx, sem, 1).want(t, "one too many", semaphore.ErrQueueFull)

			for range bound {
				sem.Release(1)
				// The waiter that got it may not have run yet.
				late := begin(func() error { return sem.Acquire(ctx, 1) })
				calls = append(calls, late)
				late.want(t, "one after a release", errWaiting)
				acquire(ctx, sem, 1).want(t, "one too many after a release", semaphore.ErrQueueFull)
			}
			for range limit + bound {
				sem.Release(1)
			}
			for i, c := range calls {
				if c.want(t, "caller", nil); t.Failed() {
					t.Fatalf("in round %d, caller %d", round, i)
				}
			}
			wantIdle(t, sem, limit)
		}
	})
}

func TestEveryWayToLeaveTheQueueMakesRoomInIt(t *testing.T) {
	for _, tt := range []struct {
		reason string
		leave  func(sem *semaphore.Weighted, cancel func())
	}{
		{"granted", func(sem *semaphore.Weighted, _ func()) { sem.Release(2) }},
		{"canceled", func(_ *semaphore.Weighted, cancel func()) { cancel() }},
		{"expired", func(*semaphore.Weighted, func()) { elapse(time.Minute) }},
		{"evicted", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(1) }},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem, _ := semaphore.New(semaphore.Config{Limit: 2, MaxWaiters: 1})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				sem.TryAcquire(2)
				acquireWithin(ctx, sem, 2, time.Minute)
				acquire(t.Context(), sem, 1).want(t, "second", semaphore.ErrQueueFull)
				tt.leave(sem, cancel)
				synctest.Wait()
				next := acquire(t.Context(), sem, 1)
				next.want(t, "next", errWaiting)
				sem.Release(2)
				next.want(t, "next after a release", nil)
				sem.Release(1)
				wantStats(t, sem, sem.Stats().Limit, 0, 0)
			})
		})
	}
}

// Permits were shared by accident among all semaphores.
// https://github.com/Netflix/Hystrix/issues/118
func TestSemaphoresShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := semaphore.NewWeighted(1), semaphore.NewWeighted(1)
		a.TryAcquire(1)
		w := acquire(t.Context(), a, 1)
		if !b.TryAcquire(1) {
			t.Error("the second semaphore is full because the first is")
		}
		b.Release(1)
		b.Close()
		w.want(t, "waiter of the first", errWaiting)
		a.Release(1)
		w.want(t, "waiter of the first", nil)
		a.Release(1)
		wantIdle(t, a, 1)
	})
}

// A holder that acquires again waits for itself. It can bound that wait.
// https://github.com/ledgerwatch/erigon-lib/issues/566
func TestHolderThatAcquiresAgainTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		began := time.Now()
		if err := sem.AcquireWithin(t.Context(), 1, 50*time.Millisecond); err != semaphore.ErrTimeout {
			t.Errorf("inner acquire = %v, want %v", err, semaphore.ErrTimeout)
		}
		if got, want := time.Since(began), 50*time.Millisecond; got != want {
			t.Errorf("it waited %v, want %v", got, want)
		}
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// Every release without a waiter left a wake-up behind, and after 2³¹ of them
// the count overflowed.
// https://github.com/Log2n-io/Typhon/issues/844
func TestReleasesWithoutWaitersLeaveNothingBehind(t *testing.T) {
	sem := semaphore.NewWeighted(3)
	releases := rounds(10_000_000)
	if raceEnabled { // which costs much and, in one goroutine, sees nothing
		releases = 100_000
	}
	for range releases {
		sem.TryAcquire(2)
		sem.Release(2)
	}
	wantIdle(t, sem, 3)
	synctest.Test(t, func(t *testing.T) {
		sem.TryAcquire(3)
		acquire(t.Context(), sem, 1).want(t, "waiter on a full semaphore", errWaiting)
		sem.Release(3)
		synctest.Wait()
		sem.Release(1)
	})
	wantIdle(t, sem, 3)
}

// The count of waiters went down while the call still waited, and the count in
// use up before a wait that then failed.
// https://github.com/helidon-io/helidon/issues/11430
// https://github.com/mperham/connection_pool/pull/167
func TestStatsFollowEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(4)
		wantStats(t, sem, 4, 0, 0)
		sem.TryAcquire(3)
		wantStats(t, sem, 4, 3, 0)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range 3 {
			acquireWithin(ctx, sem, 2, time.Duration(1+i)*time.Minute)
			wantStats(t, sem, 4, 3, i+1)
		}
		sem.Release(1)
		wantStats(t, sem, 4, 4, 2) // a grant counts before its taker runs
		elapse(2 * time.Minute)
		wantStats(t, sem, 4, 4, 1)
		cancel()
		synctest.Wait()
		wantStats(t, sem, 4, 4, 0)
		sem.Release(4)
		sem.Close()
		if got := sem.Stats(); got != (semaphore.Stats{Limit: 4, Available: 4, Closed: true}) {
			t.Errorf("Stats after Close = %+v", got)
		}
	})
}
