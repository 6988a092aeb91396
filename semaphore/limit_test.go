package semaphore_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

func TestNegativeLimitPanicsBeforeAnythingChanges(t *testing.T) {
	inEverySituation(t, func(t *testing.T, sem *semaphore.Weighted, inUse int64) {
		for _, limit := range []int64{-1, math.MinInt64} {
			wantUnchanged(t, sem, func() {
				wantPanic(t, negativeLimit, func() { sem.SetLimit(limit) })
			})
		}
	})
}

func TestSameLimitChangesNothing(t *testing.T) {
	inEverySituation(t, func(t *testing.T, sem *semaphore.Weighted, inUse int64) {
		wantUnchanged(t, sem, func() {
			sem.SetLimit(sem.Stats().Limit)
			synctest.Wait()
		})
	})
}

// The surplus permits were taken by an acquire that waited. The call hung for
// as long as the holders, and with a room full of free permits everybody was
// refused.
// https://github.com/resilience4j/resilience4j/issues/979
func TestShrinkBelowWhatIsInFlightReturnsAtOnce(t *testing.T) {
	sem := semaphore.NewWeighted(20)
	sem.TryAcquire(2)
	sem.SetLimit(1)
	wantStats(t, sem, 1, 2, 0)
	if sem.TryAcquire(1) || sem.TryAcquire(0) {
		t.Error("something was granted with 2 in flight at a limit of 1")
	}
	sem.SetLimit(5)
	wantStats(t, sem, 5, 2, 0)
	if !sem.TryAcquire(3) {
		t.Error("TryAcquire(3) = false with 2 in flight at a limit of 5")
	}
	if sem.TryAcquire(1) {
		t.Error("TryAcquire(1) = true with 5 in flight at a limit of 5")
	}
	sem.Release(5)
	wantIdle(t, sem, 5)
}

// Does a release that brings what is in flight exactly to the limit wake
// anyone?
// https://github.com/knative/serving/pull/3111
// https://github.com/knative/serving/pull/9019
func TestReleasesPayTheDebtBeforeAnythingIsGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(4)
		sem.TryAcquire(4)
		w := acquire(t.Context(), sem, 1)
		sem.SetLimit(2)
		wantStats(t, sem, 2, 4, 1)
		for inUse := int64(4); inUse > 2; {
			sem.Release(1)
			inUse--
			w.want(t, fmt.Sprintf("waiter with %d in flight", inUse), errWaiting)
			wantStats(t, sem, 2, inUse, 1)
		}
		sem.Release(1)
		w.want(t, "waiter with 1 in flight", nil)
		wantStats(t, sem, 2, 2, 0)
		sem.Release(2)
		wantIdle(t, sem, 2)
	})
}

func TestDebtWithNobodyWaiting(t *testing.T) {
	sem := semaphore.NewWeighted(5)
	sem.TryAcquire(5)
	sem.SetLimit(2)
	for _, inUse := range []int64{4, 3, 2} {
		sem.Release(1)
		wantStats(t, sem, 2, inUse, 0)
		if sem.TryAcquire(1) {
			t.Errorf("TryAcquire(1) = true with %d in flight at a limit of 2", inUse)
		}
	}
	sem.Release(1)
	if !sem.TryAcquire(1) {
		t.Error("TryAcquire(1) = false with 1 in flight at a limit of 2")
	}
	sem.Release(2)
	wantIdle(t, sem, 2)
}

// Raising the limit woke the waiters and left them in the queue, where they
// kept newcomers out.
// https://github.com/agronholm/anyio/issues/646
func TestGrowGrantsWaitersAtOnceInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(2)
		sem.TryAcquire(2)
		one := acquire(t.Context(), sem, 1)
		two := acquire(t.Context(), sem, 2)
		three := acquire(t.Context(), sem, 1)
		sem.SetLimit(4)
		one.want(t, "first", nil)
		two.want(t, "second, heavy", errWaiting)
		three.want(t, "third, which would fit", errWaiting)
		wantStats(t, sem, 4, 3, 2)
		sem.SetLimit(7)
		two.want(t, "second", nil)
		three.want(t, "third", nil)
		wantStats(t, sem, 7, 6, 0)
		acquireWithin(t.Context(), sem, 1, 0).want(t, "newcomer", nil)
		sem.Release(7)
		wantIdle(t, sem, 7)
	})
}

// A request above the limit was parked outside the queue, where no later growth
// reached it, or became impossible while it waited, and blocked those behind it
// for ever.
// https://github.com/golang/sync/pull/3
// https://github.com/golang/go/issues/29721
func TestShrinkEvictsWhatHasBecomeImpossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(5)
		acquire(t.Context(), sem, 9).want(t, "above the limit", semaphore.ErrExceedsLimit)
		sem.TryAcquire(5)
		front := acquire(t.Context(), sem, 4)
		fits := acquire(t.Context(), sem, 3)
		timed := acquireWithin(t.Context(), sem, 5, time.Hour)
		light := acquire(t.Context(), sem, 1)
		sem.SetLimit(3)
		front.want(t, "front of 4", semaphore.ErrExceedsLimit)
		timed.want(t, "timed one of 5", semaphore.ErrExceedsLimit)
		fits.want(t, "one of exactly the limit", errWaiting)
		light.want(t, "light one", errWaiting)
		wantStats(t, sem, 3, 5, 2)
		acquire(t.Context(), sem, 4).want(t, "newcomer of 4", semaphore.ErrExceedsLimit)
		sem.Release(5)
		fits.want(t, "one of exactly the limit, after a release", nil)
		sem.SetLimit(5)
		light.want(t, "light one, after growth", nil)
		wantStats(t, sem, 5, 4, 0)
		sem.Release(4)
		wantIdle(t, sem, 5)
	})
}

// The limit itself is not above it, one more is, wherever it stands.
func TestShrinkEvictsFromTheLimitOn(t *testing.T) {
	for _, place := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			sem := semaphore.NewWeighted(4)
			sem.TryAcquire(4)
			var calls []*call
			for i := range 3 {
				n := int64(3)
				if i == place {
					n = 4
				}
				calls = append(calls, acquire(t.Context(), sem, n))
			}
			sem.SetLimit(3)
			for i, c := range calls {
				want := errWaiting
				if i == place {
					want = semaphore.ErrExceedsLimit
				}
				c.want(t, fmt.Sprintf("waiter %d", i), want)
			}
			sem.Close()
		})
	}
}

// An eviction is a leaving like any other: whoever fits then goes at once.
func TestEvictionOfTheFrontGrantsThoseBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(5)
		sem.TryAcquire(2)
		front := acquire(t.Context(), sem, 4)
		behind := acquire(t.Context(), sem, 1)
		sem.SetLimit(3)
		front.want(t, "front", semaphore.ErrExceedsLimit)
		behind.want(t, "behind", nil)
		sem.Release(3)
		wantIdle(t, sem, 3)
	})
}

func TestLimitZeroIsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(4)
		sem.TryAcquire(2)
		sem.SetLimit(0)
		if sem.TryAcquire(1) || sem.TryAcquire(0) {
			t.Error("something was granted in debt")
		}
		light := acquire(t.Context(), sem, 1)
		heavy := acquire(t.Context(), sem, 3)
		huge := acquire(t.Context(), sem, math.MaxInt64)
		last := acquire(t.Context(), sem, 2)
		sem.Release(2)
		wantStats(t, sem, 0, 0, 4)
		for who, c := range map[string]*call{"light": light, "heavy": heavy, "huge": huge, "last": last} {
			c.want(t, who+", paused", errWaiting)
		}
		sem.SetLimit(2) // resumes; what is above it has become impossible
		light.want(t, "light", nil)
		heavy.want(t, "heavy", semaphore.ErrExceedsLimit)
		huge.want(t, "huge", semaphore.ErrExceedsLimit)
		last.want(t, "last", errWaiting)
		sem.Release(1)
		last.want(t, "last, after a release", nil)
		sem.Release(2)
		wantIdle(t, sem, 2)
	})
}

// In a pause without debt weight 0 fits, unless others wait.
func TestPausedAndIdleGrantsWeightZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.SetLimit(0)
		acquire(t.Context(), sem, 0).want(t, "of weight 0", nil)
		w := acquire(t.Context(), sem, 1)
		if sem.TryAcquire(0) {
			t.Error("TryAcquire(0) = true while somebody waits")
		}
		sem.SetLimit(1)
		w.want(t, "waiter", nil)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

func TestLimitOfAllThereCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = math.MaxInt64
		sem := semaphore.NewWeighted(most)
		sem.TryAcquire(most - 1)
		acquireWithin(t.Context(), sem, 2, 0).want(t, "more than is left", semaphore.ErrTimeout)
		acquireWithin(t.Context(), sem, most, 0).want(t, "all", semaphore.ErrTimeout)
		if !sem.TryAcquire(1) {
			t.Error("TryAcquire(1) = false with one permit left")
		}
		all := acquire(t.Context(), sem, most)
		sem.SetLimit(1)
		all.want(t, "all, at a limit of 1", semaphore.ErrExceedsLimit)
		wantStats(t, sem, 1, most, 0)
		sem.SetLimit(0) // the deepest debt there can be
		wantStats(t, sem, 0, most, 0)
		one := acquire(t.Context(), sem, 1)
		sem.Release(most)
		one.want(t, "one, paused", errWaiting)
		sem.SetLimit(most)
		one.want(t, "one", nil)
		wantPanic(t, overRelease, func() { sem.Release(most) })
		sem.Release(1)
		wantIdle(t, sem, most)
	})
}

// A permit belongs to the one semaphore for life, whatever becomes of its
// limit. Elsewhere a change replaced the channel under the holders.
// https://github.com/golang/sync/pull/14
func TestHoldersReleaseIntoWhateverLimitThereIs(t *testing.T) {
	for _, limits := range [][]int64{{1}, {math.MaxInt64}, {0}, {0, 3}, {1, 20, 10}, {20, 1, 0, 5}} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			sem := semaphore.NewWeighted(10)
			sem.TryAcquire(10)
			last := int64(10)
			for i, limit := range limits {
				sem.SetLimit(limit)
				sem.Release(int64(1 + i))
				last = limit
			}
			sem.Release(sem.Stats().InUse)
			wantPanic(t, overRelease, func() { sem.Release(1) })
			wantIdle(t, sem, last)
		})
	}
}

// Against a plain model of what waits and what is in flight: any walk of the
// limit, with releases between.
func TestAnyWalkOfTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(7, 7))
		for round := range rounds(100) {
			limit := rng.Int64N(8)
			sem := semaphore.NewWeighted(limit)
			type request struct {
				*call
				n int64
			}
			var inUse int64
			var waiting []request
			settle := func() {
				t.Helper()
				for _, evicting := range []bool{true, false} {
					kept := waiting[:0]
					for _, r := range waiting {
						switch {
						case evicting && limit > 0 && r.n > limit:
							r.want(t, "one above the limit", semaphore.ErrExceedsLimit)
						case !evicting && len(kept) == 0 && inUse <= limit && r.n <= limit-inUse:
							inUse += r.n
							r.want(t, "one that fits", nil)
						default:
							kept = append(kept, r)
						}
					}
					waiting = kept
				}
				for _, r := range waiting {
					r.want(t, "one that does not fit", errWaiting)
				}
				wantStats(t, sem, limit, inUse, len(waiting))
				if t.Failed() {
					t.Fatalf("in round %d", round)
				}
			}
			for range 30 {
				switch rng.IntN(3) {
				case 0:
					n := rng.Int64N(8)
					c := acquire(t.Context(), sem, n)
					if limit > 0 && n > limit {
						c.want(t, "newcomer above the limit", semaphore.ErrExceedsLimit)
					} else {
						waiting = append(waiting, request{c, n})
					}
				case 1:
					limit = rng.Int64N(8)
					sem.SetLimit(limit)
				case 2:
					n := rng.Int64N(inUse + 1)
					sem.Release(n)
					inUse -= n
				}
				settle()
			}
			limit = 100
			sem.SetLimit(limit)
			for len(waiting) > 0 {
				settle()
				sem.Release(inUse)
				inUse = 0
			}
			sem.Release(inUse)
			wantIdle(t, sem, limit)
		}
	})
}
