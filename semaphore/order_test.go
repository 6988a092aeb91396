package semaphore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// oneProc runs the test on one processor, where the goroutine that decides a
// request goes on before the one that waits for it runs: what is a rare race
// elsewhere happens each time.
func oneProc(t *testing.T) {
	procs := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
}

func TestWaitersAreGrantedInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, waiters = 7, 200
		rng := rand.New(rand.NewPCG(1, 1))
		sem := semaphore.NewWeighted(limit)
		sem.TryAcquire(limit)

		weights := make([]int64, waiters)
		granted := make(chan int, waiters)
		for i := range weights {
			weights[i] = rng.Int64N(limit + 1)
			start(func() error {
				defer func() { granted <- i }()
				// Those with a maximum wait are in the same line.
				return sem.AcquireWithin(t.Context(), weights[i], []time.Duration{time.Hour, semaphore.Forever}[i%2])
			})
		}
		// The order in which those run who were granted by one release is not
		// ours; that nobody was granted before an earlier one is.
		held, next := int64(limit), 0
		for next < waiters {
			if len(granted) == 0 {
				n := 1 + rng.Int64N(held)
				held -= n
				sem.Release(n)
				synctest.Wait()
			}
			var batch []int
			for len(granted) > 0 {
				batch = append(batch, <-granted)
			}
			slices.Sort(batch)
			for _, i := range batch {
				if i != next {
					t.Fatalf("order: waiter %d was granted before waiter %d", i, next)
				}
				held += weights[i]
				next++
			}
			wantStats(t, sem, limit, held, waiters-next)
			if next < waiters && weights[next] <= limit-held {
				t.Fatalf("waiter %d fits and waits: weight %d, %d of %d in flight", next, weights[next], held, limit)
			}
		}
		sem.Release(held)
		wantIdle(t, sem, limit)
	})
}

// A heavy request in front holds up lighter ones, or a stream of those would
// starve it.
// https://github.com/golang/go/issues/56910
func TestHeavyFrontHoldsUpLightOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(10)
		sem.TryAcquire(5)
		heavy := acquire(t.Context(), sem, 8)
		light := acquire(t.Context(), sem, 1)
		none := acquire(t.Context(), sem, 0)
		heavy.want(t, "heavy", errWaiting)
		light.want(t, "light, behind it", errWaiting)
		none.want(t, "of weight 0, behind it", errWaiting)
		for _, n := range []int64{0, 1, 5} {
			if sem.TryAcquire(n) {
				t.Errorf("no barging: TryAcquire(%d) = true while somebody waits", n)
			}
		}
		sem.Release(2)
		heavy.want(t, "heavy, 3 in flight", errWaiting)
		sem.Release(1)
		heavy.want(t, "heavy, 2 in flight", nil)
		light.want(t, "light, 10 in flight", errWaiting)
		none.want(t, "of weight 0, behind light", errWaiting)
		sem.Release(1)
		light.want(t, "light", nil)
		none.want(t, "of weight 0", nil)
		sem.Release(10)
		wantIdle(t, sem, 10)
	})
}

// leavings are the ways to leave the queue without a permit.
var leavings = []struct {
	name  string
	leave func(cancel func())
	want  error
}{
	{"canceled", func(cancel func()) { cancel() }, context.Canceled},
	{"past its context's deadline", func(func()) { elapse(time.Minute) }, context.DeadlineExceeded},
	{"expired", func(func()) { elapse(30 * time.Second) }, semaphore.ErrTimeout},
}

// leaver queues a request of weight n that leaves in the given way.
func leaver(t *testing.T, sem *semaphore.Weighted, n int64, want error) (c *call, cancel func()) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	maxWait := semaphore.Forever
	if want == semaphore.ErrTimeout {
		maxWait = 30 * time.Second
	}
	return acquireWithin(ctx, sem, n, maxWait), cancel
}

// Those behind a heavy request that had been canceled, and who fitted all
// along, waited for the next Release.
// https://github.com/golang/go/issues/37852
func TestWithdrawFrontGrantsWhoeverFitsNow(t *testing.T) {
	for _, by := range leavings {
		t.Run(by.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(4)
				sem.TryAcquire(2)
				front, cancel := leaver(t, sem, 4, by.want)
				defer cancel()
				none := acquire(t.Context(), sem, 0)
				light := acquire(t.Context(), sem, 1)
				timed := acquireWithin(t.Context(), sem, 1, time.Hour)
				last := acquire(t.Context(), sem, 1)
				none.want(t, "of weight 0, behind", errWaiting)
				by.leave(cancel)
				front.want(t, "front", by.want)
				none.want(t, "of weight 0", nil)
				light.want(t, "first that fits", nil)
				timed.want(t, "second that fits", nil)
				last.want(t, "one that does not fit", errWaiting)
				wantStats(t, sem, 4, 4, 1)
				sem.Release(4)
				last.want(t, "last", nil)
				sem.Release(1)
				wantIdle(t, sem, 4)
			})
		})
	}
}

// A waiter that left woke the next one though no permit was free.
// https://github.com/awslabs/shuttle/issues/167
// https://github.com/Kotlin/kotlinx.coroutines/issues/1323
func TestWithdrawWithoutAFreePermitGrantsNobody(t *testing.T) {
	for _, by := range leavings {
		for _, place := range []int{0, 1, 2} {
			t.Run(fmt.Sprintf("%s at %d", by.name, place), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(4)
					sem.TryAcquire(4)
					var left *call
					var stay []*call
					cancel := func() {}
					for i := range 3 {
						if i == place {
							left, cancel = leaver(t, sem, 1, by.want)
						} else {
							stay = append(stay, acquire(t.Context(), sem, 2))
						}
					}
					defer cancel()
					by.leave(cancel)
					left.want(t, "leaver", by.want)
					wantStats(t, sem, 4, 4, 2)
					for _, c := range stay {
						c.want(t, "one that stayed", errWaiting)
					}
					sem.Release(4)
					for _, c := range stay {
						c.want(t, "one that stayed, after a release", nil)
					}
					sem.Release(4)
					wantIdle(t, sem, 4)
				})
			})
		}
	}
}

// And with permits free that the front one waits for: they are not for those
// behind it.
func TestWithdrawFromTheMiddleGrantsNobody(t *testing.T) {
	for _, by := range leavings {
		t.Run(by.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(4)
				sem.TryAcquire(2)
				front := acquire(t.Context(), sem, 4)
				middle, cancel := leaver(t, sem, 3, by.want)
				defer cancel()
				back := acquire(t.Context(), sem, 2)
				by.leave(cancel)
				middle.want(t, "middle", by.want)
				front.want(t, "front", errWaiting)
				back.want(t, "back, which fits", errWaiting)
				wantStats(t, sem, 4, 2, 2)
				sem.Release(2)
				front.want(t, "front, after a release", nil)
				sem.Release(4)
				back.want(t, "back", nil)
				sem.Release(2)
				wantIdle(t, sem, 4)
			})
		})
	}
}

// The free permits were compared with the weight of a request that had gone.
// https://github.com/dotnet/runtime/issues/77180
func TestWeightOfOneThatLeftCountsNoMore(t *testing.T) {
	for _, by := range leavings {
		t.Run(by.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(2)
				sem.TryAcquire(2)
				heavy, cancel := leaver(t, sem, 2, by.want)
				defer cancel()
				light := acquire(t.Context(), sem, 1)
				by.leave(cancel)
				heavy.want(t, "heavy", by.want)
				sem.Release(1)
				light.want(t, "light", nil)
				sem.Release(2)
				wantIdle(t, sem, 2)
			})
		})
	}
}

// A request for many collected them one by one, and those it had were lost when
// it was canceled.
// https://github.com/typelevel/cats-effect/issues/403
func TestWaiterHoldsNothingUntilItHoldsAll(t *testing.T) {
	for _, by := range leavings {
		t.Run(by.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(5)
				sem.TryAcquire(4)
				w, cancel := leaver(t, sem, 5, by.want)
				defer cancel()
				for inUse := int64(4); inUse > 2; {
					sem.Release(1)
					inUse--
					w.want(t, "waiter", errWaiting)
					wantStats(t, sem, 5, inUse, 1)
				}
				by.leave(cancel)
				w.want(t, "waiter", by.want)
				wantStats(t, sem, 5, 2, 0)
				sem.Release(2)
				wantIdle(t, sem, 5)
			})
		})
	}
}

// Every wait that timed out left a request behind, and a later release gave it
// a permit that nobody ever returned.
// https://github.com/failsafe-lib/failsafe/issues/393
func TestThoseWhoGaveUpTakeNothing(t *testing.T) {
	for _, by := range leavings {
		t.Run(by.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const limit = 8
				sem := semaphore.NewWeighted(limit)
				for range rounds(200) {
					sem.TryAcquire(limit)
					ctx, cancel := context.WithCancel(t.Context())
					var calls []*call
					for range limit {
						if by.want == semaphore.ErrTimeout {
							calls = append(calls, acquireWithin(ctx, sem, 1, 30*time.Second))
							continue
						}
						ctx, stop := context.WithTimeout(ctx, time.Minute)
						defer stop()
						calls = append(calls, acquire(ctx, sem, 1))
					}
					by.leave(cancel)
					for _, c := range calls {
						c.want(t, "waiter", by.want)
					}
					wantStats(t, sem, limit, limit, 0)
					for range limit {
						sem.Release(1)
					}
					wantIdle(t, sem, limit)
					cancel()
				}
			})
		})
	}
}

// The context ended first, and the waiter, or the permit meant for it, was
// taken for granted nevertheless.
// https://github.com/agronholm/anyio/issues/947
// https://github.com/golang/go/issues/63615
// https://github.com/bufbuild/buf/issues/913
func TestPermitsReleasedAfterTheContextEndedGoToTheNext(t *testing.T) {
	oneProc(t)
	for _, tt := range []struct {
		reason string
		ended  int // how many in front are canceled before the release
	}{{"one", 1}, {"a run of them", 5}} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				for range 200 {
					sem.TryAcquire(1)
					ctx, cancel := context.WithCancel(t.Context())
					var ended []*call
					for range tt.ended {
						ended = append(ended, acquire(ctx, sem, 1))
					}
					next := acquire(t.Context(), sem, 1)
					cancel()
					sem.Release(1)
					// None of the ended even held it for a moment.
					wantStats(t, sem, 1, 1, 0)
					for _, c := range ended {
						c.want(t, "canceled before the release", context.Canceled)
					}
					next.want(t, "next", nil)
					sem.Release(1)
					wantIdle(t, sem, 1)
				}
			})
		})
	}
}

// The other way round, the taker has been granted when its context ends, but
// has not run: it reports the cancellation, and what it was granted goes on.
func TestGrantThatMeetsACancellationGoesToTheNext(t *testing.T) {
	oneProc(t)
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(2)
		for range 200 {
			sem.TryAcquire(2)
			ctx, cancel := context.WithCancel(t.Context())
			first := acquire(ctx, sem, 2)
			next := acquire(t.Context(), sem, 2)
			sem.Release(2)
			cancel()
			first.want(t, "first", context.Canceled)
			next.want(t, "next", nil)
			wantStats(t, sem, 2, 2, 0)
			sem.Release(2)
			wantIdle(t, sem, 2)
		}
	})
}

// Between the release and the moment the waiter ran, somebody else took the
// same permit.
// https://github.com/agronholm/anyio/issues/1170
// https://github.com/golang/go/issues/29889
func TestPermitOfAWaiterThatHasNotRunIsTaken(t *testing.T) {
	oneProc(t)
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		for range 200 {
			sem.TryAcquire(1)
			w := acquire(t.Context(), sem, 1)
			sem.Release(1)
			if sem.TryAcquire(1) {
				t.Fatal("TryAcquire(1) = true: two holders of one permit")
			}
			if err := sem.AcquireWithin(t.Context(), 1, 0); err != semaphore.ErrTimeout {
				t.Fatalf("AcquireWithin = %v, want %v", err, semaphore.ErrTimeout)
			}
			wantStats(t, sem, 1, 1, 0)
			w.want(t, "waiter", nil)
			sem.Release(1)
			wantIdle(t, sem, 1)
		}
	})
}

// A holder that released and acquired again at once took its own permit back
// over and over, and a waiter starved.
// https://github.com/python/cpython/pull/31910
func TestReleasingHolderQueuesBehindTheWaiter(t *testing.T) {
	oneProc(t)
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		turns := 0
		w := acquire(t.Context(), sem, 1)
		holder := begin(func() error {
			for range 10 {
				sem.Release(1)
				if err := sem.Acquire(t.Context(), 1); err != nil {
					return err
				}
				turns++
			}
			return nil
		})
		w.want(t, "waiter", nil)
		if turns != 0 {
			t.Errorf("the holder had %d more turns before the waiter was served", turns)
		}
		sem.Release(1)
		holder.want(t, "holder", nil)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

func TestNewcomerWaitsBehindAWaiterThoughItFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(3)
		sem.TryAcquire(1)
		front := acquire(t.Context(), sem, 3)
		for _, n := range []int64{0, 1, 2} {
			acquireWithin(t.Context(), sem, n, time.Second).want(t, "newcomer that fits", errWaiting)
		}
		elapse(time.Second)
		wantStats(t, sem, 3, 1, 1)
		sem.Release(1)
		front.want(t, "front", nil)
		sem.Release(3)
		wantIdle(t, sem, 3)
	})
}

// A request of weight 0 needs nothing, but it stands in line, and must not
// strand there when the one it stood behind is gone.
func TestWeightZeroNeverStrands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []int64{0, 1} {
			sem := semaphore.NewWeighted(limit)
			sem.TryAcquire(limit)
			ctx, cancel := context.WithCancel(t.Context())
			front := acquire(ctx, sem, 1)
			zero := acquire(t.Context(), sem, 0)
			zero.want(t, "of weight 0, behind a waiter", errWaiting)
			cancel()
			front.want(t, "front", context.Canceled)
			zero.want(t, "of weight 0, alone", nil)
			sem.Release(limit)
			wantIdle(t, sem, limit)
		}
	})
}

func TestWeightZeroWaitsWhileInDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(3)
		sem.TryAcquire(3)
		sem.SetLimit(1)
		if sem.TryAcquire(0) {
			t.Error("TryAcquire(0) = true with 3 in flight at a limit of 1")
		}
		zero := acquire(t.Context(), sem, 0)
		sem.Release(1)
		zero.want(t, "of weight 0, with 2 in flight", errWaiting)
		sem.Release(1)
		zero.want(t, "of weight 0, with 1 in flight", nil)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// Single outcome: what comes first decides, whatever comes next; only a grant
// gives way to the end of the context afterwards.
func TestFirstEventDecides(t *testing.T) {
	oneProc(t)
	type scene struct {
		sem     *semaphore.Weighted
		cancel  func()
		granted int64 // released by grant and not returned
	}
	type event struct {
		name string
		do   func(*scene)
		want error // of a waiter to which it happens first
	}
	grant := event{"granted", func(x *scene) { x.sem.Release(1); x.granted++ }, nil}
	cancel := event{"canceled", func(x *scene) { x.cancel() }, context.Canceled}
	evict := event{"evicted", func(x *scene) { x.sem.SetLimit(1) }, semaphore.ErrExceedsLimit}
	shut := event{"closed", func(x *scene) { x.sem.Close() }, semaphore.ErrClosed}

	for _, tt := range []struct {
		first, second event
		want          error
	}{
		{grant, cancel, context.Canceled}, // the correction after the fact
		{grant, evict, nil},
		{grant, shut, nil},
		{cancel, grant, context.Canceled},
		{evict, grant, semaphore.ErrExceedsLimit},
		{evict, cancel, semaphore.ErrExceedsLimit},
		{evict, shut, semaphore.ErrExceedsLimit},
		{shut, grant, semaphore.ErrClosed},
		{shut, cancel, semaphore.ErrClosed},
		{shut, evict, semaphore.ErrClosed},
	} {
		t.Run(tt.first.name+" then "+tt.second.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				for range 100 {
					ctx, cancel := context.WithCancel(t.Context())
					x := &scene{sem: semaphore.NewWeighted(2), cancel: cancel}
					x.sem.TryAcquire(1)
					w := acquire(ctx, x.sem, 2) // would fit after a release
					tt.first.do(x)
					tt.second.do(x)
					if w.want(t, "waiter", tt.want); t.Failed() {
						t.FailNow()
					}
					inUse := 1 - x.granted
					if tt.want == nil {
						inUse += 2
					}
					if got := x.sem.Stats(); got.InUse != inUse || got.Waiting != 0 {
						t.Fatalf("conservation: %d in flight and %d waiting, want %d and none", got.InUse, got.Waiting, inUse)
					}
					cancel()
				}
			})
		})
	}
}
