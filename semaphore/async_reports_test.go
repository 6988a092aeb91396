package semaphore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// Faults that users of other libraries reported, as far as they can befall an
// asynchronous request. Each test ends with all permits back and, being in a
// bubble or counting them, no goroutine left.

// A timed request that gave up stayed queued, and the next release went to it.
// https://github.com/failsafe-lib/failsafe/issues/393
func TestExpiredAsyncRequestsTakeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(8)
		for range rounds(1000) {
			sem.TryAcquire(8)
			var ps []*semaphore.Pending
			for range 8 {
				ps = append(ps, sem.AcquireAsync(t.Context(), 1, 20*time.Millisecond))
			}
			elapse(20 * time.Millisecond)
			wantStats(t, sem, 8, 8, 0)
			for range 8 {
				sem.Release(1)
			}
			for _, p := range ps {
				if err := p.Err(); err != semaphore.ErrTimeout {
					t.Fatalf("Err() = %v, want %v", err, semaphore.ErrTimeout)
				}
			}
			wantIdle(t, sem, 8)
		}
	})
}

// A home-made time-out around an acquire reported failure when the acquire had
// just succeeded: the permits were nobody's.
// https://github.com/Kotlin/kotlinx.coroutines/issues/2233
func TestHomeMadeTimeoutThatComesTooLateOwnsThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(10)
		var wg sync.WaitGroup
		for i := range rounds(5000) {
			wg.Go(func() {
				time.Sleep(time.Duration(i%50) * time.Millisecond)
				p := sem.AcquireAsync(t.Context(), 1, semaphore.Forever)
				select {
				case <-p.Done():
				case <-time.After(25 * time.Millisecond):
					if p.Cancel() {
						return
					}
				}
				if err := p.Err(); err != nil {
					t.Errorf("Err() = %v, want nil", err)
					return
				}
				time.Sleep(5 * time.Millisecond)
				sem.Release(1)
			})
		}
		wg.Wait()
		wantIdle(t, sem, 10)
	})
}

// A waiter canceled, but not yet told, was granted and did not pass it on.
// https://github.com/agronholm/anyio/issues/947
func TestCancelThenReleaseServesTheNext(t *testing.T) {
	for _, form := range forms {
		synctest.Test(t, func(t *testing.T) {
			sem := semaphore.NewWeighted(1)
			sem.TryAcquire(1)
			ctx, cancel := context.WithCancel(t.Context())
			first := form.ask(ctx, sem, 1, semaphore.Forever)
			second := form.ask(t.Context(), sem, 1, semaphore.Forever)
			cancel()
			sem.Release(1)
			if err := second.Err(); err != nil {
				t.Errorf("second = %v without another Release, want nil", err)
			}
			first.want(t, "first", context.Canceled)
			second.want(t, "second", nil)
			sem.Release(1)
			wantIdle(t, sem, 1)
		})
	}
}

// A heavy acquire took its permits one by one and lost those it had when it was
// canceled. https://github.com/typelevel/cats-effect/issues/403
func TestAsyncRequestHoldsNothingUntilItHoldsAll(t *testing.T) {
	for _, form := range forms {
		synctest.Test(t, func(t *testing.T) {
			sem := semaphore.NewWeighted(5)
			sem.TryAcquire(4)
			ctx, cancel := context.WithCancel(t.Context())
			p := form.ask(ctx, sem, 5, semaphore.Forever)
			for held := int64(3); held >= 2; held-- {
				sem.Release(1)
				wantStats(t, sem, 5, held, 1)
			}
			cancel()
			p.want(t, "the request", context.Canceled)
			sem.Release(2)
			wantIdle(t, sem, 5)
		})
	}
}

// Requests canceled while the pool is contended left slots to nobody.
// https://github.com/encode/httpcore/issues/1093
func TestChurnOfShortDeadlinesLosesNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(10)
		granted := 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for worker := range 20 {
			r := rand.New(rand.NewPCG(uint64(worker), 0))
			wg.Go(func() {
				for i := range rounds(500) {
					// So that deadlines and releases meet, at one instant.
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(13))*250*time.Microsecond)
					request, waiting := ctx, t.Context()
					if i%2 == 0 { // and who waits withdraws it
						request, waiting = waiting, request
					}
					if sem.AcquireAsync(request, 1, semaphore.Forever).Wait(waiting) == nil {
						time.Sleep(time.Millisecond)
						sem.Release(1)
						mu.Lock()
						granted++
						mu.Unlock()
					}
					cancel()
				}
			})
		}
		wg.Wait()
		if granted == 0 || granted == 20*rounds(500) {
			t.Errorf("%d of %d were granted: nothing was contended", granted, 20*rounds(500))
		}
		wantIdle(t, sem, 10)
	})
}

// A heavy head was canceled, and those behind it waited for a Release that
// might never come. https://github.com/golang/go/issues/37852
func TestCanceledAsyncHeadLetsOthersPass(t *testing.T) {
	for _, form := range forms {
		synctest.Test(t, func(t *testing.T) {
			sem := semaphore.NewWeighted(2)
			sem.TryAcquire(1)
			ctx, cancel := context.WithCancel(t.Context())
			head := form.ask(ctx, sem, 2, semaphore.Forever)
			behind := form.ask(t.Context(), sem, 1, semaphore.Forever)
			cancel()
			head.want(t, "head", context.Canceled)
			behind.want(t, "behind", nil)
			sem.Release(2)
			wantIdle(t, sem, 2)
		})
	}
}

// One that gave up in the middle deadlocked the queue, or woke the wrong one.
// https://github.com/awslabs/shuttle/issues/167
func TestCanceledMiddleIsSkippedLater(t *testing.T) {
	for _, form := range forms {
		synctest.Test(t, func(t *testing.T) {
			sem := semaphore.NewWeighted(4)
			sem.TryAcquire(2)
			ctxA, cancelA := context.WithCancel(t.Context())
			ctxB, cancelB := context.WithCancel(t.Context())
			a := form.ask(ctxA, sem, 4, semaphore.Forever)
			b := form.ask(ctxB, sem, 3, semaphore.Forever)
			c := form.ask(t.Context(), sem, 2, semaphore.Forever)
			cancelB()
			b.want(t, "b", context.Canceled)
			a.want(t, "a", semaphore.ErrPending)
			c.want(t, "c", semaphore.ErrPending)
			cancelA()
			c.want(t, "c", nil)
			sem.Release(4)
			wantIdle(t, sem, 4)
		})
	}
}

// The weight of a canceled head was still what others had to wait for.
// https://github.com/dotnet/runtime/issues/77180
func TestWeightOfACanceledAsyncHeadCountsNoMore(t *testing.T) {
	for _, form := range forms {
		synctest.Test(t, func(t *testing.T) {
			sem := semaphore.NewWeighted(2)
			sem.TryAcquire(2)
			a := form.ask(t.Context(), sem, 2, semaphore.Forever)
			b := form.ask(t.Context(), sem, 1, semaphore.Forever)
			a.Cancel()
			b.want(t, "b", semaphore.ErrPending)
			sem.Release(1)
			b.want(t, "b", nil)
			sem.Release(2)
			wantIdle(t, sem, 2)
		})
	}
}

// A release between a failed check and the queueing was seen by nobody.
// https://github.com/marusama/semaphore/issues/2
func TestReleaseWhileQueueingIsNotMissed(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	for range rounds(100_000) {
		go sem.Release(1)
		p := sem.AcquireAsync(context.Background(), 1, semaphore.Forever)
		<-p.Done() // no other Release will come
		if err := p.Err(); err != nil {
			t.Fatalf("Err() = %v, want nil", err)
		}
	}
	sem.Release(1)
	wantIdle(t, sem, 1)
	wantGoroutines(t, goroutines)
}

// A cancellation between the check of the context and the parking was lost.
// https://github.com/e2b-dev/infra/pull/3629
func TestContextThatEndsWhileQueueingIsNotMissed(t *testing.T) {
	for at := 1; at <= 8; at++ {
		for _, form := range forms {
			for _, released := range []int64{0, 1} { // just after the context's end
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(1)
					sem.TryAcquire(1)
					ctx, here, calls := newManual(sem), goroutine(), 0
					ctx.hook = func(string) {
						if goroutine() != here {
							return
						}
						if calls++; calls == at {
							ctx.end(errCustom)
							sem.Release(released)
						}
					}
					p := form.ask(ctx, sem, 1, semaphore.Forever)
					if calls < at { // there are no more
						calls = at
						ctx.end(errCustom)
						sem.Release(released)
					}
					ctx.tell() // what was registered after the end
					p.want(t, fmt.Sprintf("ended at call %d", at), errCustom)
					wantStats(t, sem, 1, 1-released, 0)
					sem.Release(1 - released)
					wantIdle(t, sem, 1)
				})
			}
		}
	}
}

// A task was taken off the queue, found no permit and was put back, while the
// one that ended saw an empty queue.
// https://github.com/smallrye/smallrye-fault-tolerance/commit/8594b51c
func TestWorkQueuedWhileOtherWorkEndsIsStarted(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	sem := semaphore.NewWeighted(1)
	finish, finished := make(chan struct{}), make(chan struct{})
	f := func(err error) {
		if err != nil {
			t.Errorf("f was called with %v, want nil", err)
		}
		<-finish
		sem.Release(1)
		finished <- struct{}{}
	}
	for range rounds(10_000) {
		sem.AcquireFunc(context.Background(), 1, semaphore.Forever, f)
		finish <- struct{}{} // the first ends while the second is queued
		sem.AcquireFunc(context.Background(), 1, semaphore.Forever, f)
		<-finished
		finish <- struct{}{}
		<-finished
	}
	wantIdle(t, sem, 1)
	wantGoroutines(t, goroutines)
}

// Cancellation and release met, and one waited for the other for ever.
// https://github.com/jackc/puddle/issues/2
// https://github.com/dotnet/runtime/issues/85523
func TestCancellationAndReleaseMeet(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	outcomes := make(map[error]int)
	for range rounds(100_000) {
		ctx, cancel := context.WithCancel(context.Background())
		p := sem.AcquireAsync(ctx, 1, semaphore.Forever)
		together(cancel, func() { sem.Release(1) })
		<-p.Done()
		err := p.Err()
		outcomes[err]++
		if err != nil && !sem.TryAcquire(1) {
			t.Fatalf("Err() = %v, and the permit is gone", err)
		}
	}
	t.Log(outcomes)
	sem.Release(1)
	wantIdle(t, sem, 1)
	wantNobodyInside(t)
	wantGoroutines(t, goroutines)
}

// Those who waited needed a newcomer to be woken.
// https://github.com/alitto/pond/issues/115
func TestQueuedFuncsNeedNoNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(2)
		var wg sync.WaitGroup
		wg.Add(10)
		for range 10 {
			sem.AcquireFunc(t.Context(), 1, semaphore.Forever, func(error) {
				time.Sleep(time.Second)
				sem.Release(1)
				wg.Done()
			})
		}
		begun := time.Now()
		wg.Wait()
		if got := time.Since(begun); got != 5*time.Second {
			t.Errorf("10 calls of a second each, 2 at a time, took %v", got)
		}
		wantIdle(t, sem, 2)
	})
}

// Between the grant and its collection a newcomer took the same permit.
// https://github.com/agronholm/anyio/issues/1170
// https://github.com/golang/go/issues/29889
func TestGrantNotCollectedIsTaken(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	p := sem.AcquireAsync(t.Context(), 1, semaphore.Forever)
	sem.Release(1)
	if sem.TryAcquire(1) {
		t.Error("the permit of p was taken by another")
	}
	wantStats(t, sem, 1, 1, 0)
	if err := p.Err(); err != nil {
		t.Errorf("Err() = %v, want nil", err)
	}
	sem.Release(1)
	wantIdle(t, sem, 1)
}

// Canceling one resumed the next although no permit had come.
// https://github.com/Kotlin/kotlinx.coroutines/issues/1323
func TestCanceledAsyncRequestPassesNothingOn(t *testing.T) {
	for _, form := range forms {
		synctest.Test(t, func(t *testing.T) {
			sem := semaphore.NewWeighted(1)
			sem.TryAcquire(1)
			ctx, cancel := context.WithCancel(t.Context())
			a := form.ask(ctx, sem, 1, semaphore.Forever)
			b := form.ask(t.Context(), sem, 1, semaphore.Forever)
			c := form.ask(t.Context(), sem, 1, semaphore.Forever)
			cancel()
			a.want(t, "a", context.Canceled)
			b.Cancel()
			c.want(t, "c", semaphore.ErrPending)
			wantStats(t, sem, 1, 1, 1)
			sem.Release(1)
			c.want(t, "c", nil)
			sem.Release(1)
			wantIdle(t, sem, 1)
		})
	}
}

// A holder that released and asked again took its own permit back, over and
// over. https://github.com/python/cpython/issues/90155
func TestReleasingHolderAsksBehindTheAsyncWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		waiter := askFunc(t.Context(), sem, 1, semaphore.Forever)
		sem.Release(1)
		again := askAsync(t.Context(), sem, 1, semaphore.Forever)
		waiter.want(t, "waiter", nil)
		again.want(t, "the former holder", semaphore.ErrPending)
		sem.Release(1)
		again.want(t, "the former holder", nil)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// Room was looked for but not reserved, so more got in than fit.
// https://github.com/joshrotenberg/tower-resilience/issues/365
func TestFuncsAtABarrierStayWithinTheLimit(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	const limit, callers = 4, 64
	sem := semaphore.NewWeighted(limit)
	var (
		mu           sync.Mutex
		inside, peak int
		barrier      = make(chan struct{})
		wg           sync.WaitGroup
	)
	wg.Add(callers)
	for range callers {
		go func() {
			<-barrier
			sem.AcquireFunc(context.Background(), 1, semaphore.Forever, func(error) {
				mu.Lock()
				inside++
				peak = max(peak, inside)
				mu.Unlock()
				runtime.Gosched()
				mu.Lock()
				inside--
				mu.Unlock()
				sem.Release(1)
				wg.Done()
			})
		}()
	}
	close(barrier)
	wg.Wait()
	if peak > limit {
		t.Errorf("%d inside at once, limit %d", peak, limit)
	}
	wantIdle(t, sem, limit)
	wantGoroutines(t, goroutines)
}

// Nobody looked at the outcome: that changes nothing about who owns the permit,
// and holds nobody up. https://github.com/resilience4j/resilience4j/issues/332
func TestOutcomeThatNobodyLooksAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		for range 3 {
			sem.AcquireAsync(t.Context(), 1, semaphore.Forever).Done()
		}
		for range 3 {
			sem.Release(1)
			wantInUse(t, sem, 1)
		}
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// Canceling what has begun must not give its permit back while it runs.
// https://github.com/resilience4j/resilience4j/pull/729
func TestCancelAfterTheCallOfFGivesNothingBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		ctx, cancel := context.WithCancel(t.Context())
		finish := make(chan struct{})
		p := sem.AcquireFunc(ctx, 1, semaphore.Forever, func(error) {
			<-finish
			sem.Release(1)
		})
		synctest.Wait()
		if p.Cancel() {
			t.Error("Cancel while f runs = true, want false")
		}
		cancel()
		if err := p.Wait(ctx); err != nil {
			t.Errorf("Wait while f runs = %v, want nil", err)
		}
		synctest.Wait()
		wantInUse(t, sem, 1)
		close(finish)
		synctest.Wait()
		wantIdle(t, sem, 1)
	})
}

// What can never fit waited until its context ended, which may be never.
// https://github.com/golang/sync/pull/7
// https://github.com/temporalio/temporal/pull/6034
func TestAsyncRequestAboveTheLimitFailsAtOnce(t *testing.T) {
	for _, form := range forms {
		synctest.Test(t, func(t *testing.T) {
			sem := semaphore.NewWeighted(2)
			form.ask(t.Context(), sem, 3, semaphore.Forever).want(t, "too heavy", semaphore.ErrExceedsLimit)
			form.ask(t.Context(), sem, 2, 0).want(t, "another", nil)
			sem.Release(2)
			wantIdle(t, sem, 2)
		})
	}
}

// The one early return forgot to unlock: the first rejection froze everything.
// https://github.com/letsencrypt/boulder/pull/7272
func TestEveryAsyncRefusalLeavesTheSemaphoreUsable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem, err := semaphore.New(semaphore.Config{Limit: 2, MaxWaiters: 1})
		if err != nil {
			t.Fatal(err)
		}
		sem.TryAcquire(2)
		waiter := askAsync(t.Context(), sem, 1, semaphore.Forever)
		for _, form := range forms {
			form.ask(t.Context(), sem, 1, semaphore.Forever).want(t, "queue full", semaphore.ErrQueueFull)
			form.ask(t.Context(), sem, 3, semaphore.Forever).want(t, "too heavy", semaphore.ErrExceedsLimit)
			form.ask(t.Context(), sem, 1, 0).want(t, "no wait", semaphore.ErrTimeout)
			form.ask(canceled(), sem, 1, semaphore.Forever).want(t, "done", context.Canceled)
		}
		sem.Release(1)
		waiter.want(t, "the waiter", nil)
		sem.Release(2)
		wantIdle(t, sem, 2)
	})
}

// Each call's end started the next from within itself: long queues of short
// work overflowed the stack.
// https://github.com/smallrye/smallrye-fault-tolerance/issues/1099
func TestChainOfQueuedFuncsDoesNotRecurse(t *testing.T) {
	calls := rounds(1_000_000)
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	var deepest, called int // guarded by the permit
	pcs := make([]uintptr, 100)
	finished := make(chan struct{})
	for range calls {
		sem.AcquireFunc(context.Background(), 1, semaphore.Forever, func(err error) {
			if err != nil {
				t.Errorf("f was called with %v, want nil", err)
			}
			deepest = max(deepest, runtime.Callers(0, pcs))
			if called++; called == calls {
				defer close(finished)
			}
			sem.Release(1)
		})
	}
	goroutines := runtime.NumGoroutine()
	sem.Release(1)
	<-finished
	if deepest > 10 {
		t.Errorf("f was called %d frames deep, in a chain of %d", deepest, calls)
	}
	wantGoroutines(t, goroutines)
	wantIdle(t, sem, 1)
}

// A cancellation that came after the call had ended hit what ran next.
// https://github.com/smallrye/smallrye-fault-tolerance/commit/c969048f
func TestLateCancelHitsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		var earlier []*semaphore.Pending
		for range 100 {
			sem.TryAcquire(1)
			p := askFunc(t.Context(), sem, 1, time.Second)
			for _, e := range earlier {
				if e.Cancel() {
					t.Fatal("Cancel of a request decided earlier = true")
				}
			}
			p.want(t, "the present request", semaphore.ErrPending)
			sem.Release(1)
			p.want(t, "the present request", nil)
			sem.Release(1)
			earlier = append(earlier, p.Pending)
		}
		wantIdle(t, sem, 1)
	})
}

// Dead requests stayed in line until a holder released.
// https://github.com/thomhurst/AsyncSemaphore/issues/566
// https://github.com/nozzlegear/ShopifySharp/issues/1055
func TestDeadAsyncRequestsLeaveWithoutARelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		var ps []*asked
		for i := range 1000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			ps = append(ps, forms[i%2].ask(t.Context(), sem, 1, time.Millisecond), forms[i%2].ask(ctx, sem, 1, time.Second))
		}
		elapse(time.Millisecond)
		wantStats(t, sem, 1, 1, 0)
		for i, p := range ps {
			p.want(t, "dead", []error{semaphore.ErrTimeout, context.DeadlineExceeded}[i%2])
		}
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// Ending the running and a queued task together stuck the queue.
// https://github.com/sindresorhus/p-queue/issues/168
func TestHolderAndQueuedEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		ctx, cancel := context.WithCancel(t.Context())
		sem.AcquireFunc(ctx, 1, semaphore.Forever, func(error) {
			<-ctx.Done()
			sem.Release(1)
		})
		b := askFunc(ctx, sem, 1, semaphore.Forever)
		c := askFunc(t.Context(), sem, 1, semaphore.Forever)
		b.want(t, "b", semaphore.ErrPending)
		cancel()
		b.want(t, "b", context.Canceled)
		c.want(t, "c", nil)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// Twenty quick calls did not always fit ten permits and ten places.
// https://github.com/OpenLiberty/open-liberty/issues/2746
func TestQuickFuncsFillLimitAndQueueExactly(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	sem, err := semaphore.New(semaphore.Config{Limit: 10, MaxWaiters: 10})
	if err != nil {
		t.Fatal(err)
	}
	for range rounds(10_000) {
		finish := make(chan struct{})
		outcomes := make(chan error, 20)
		for range 20 {
			sem.AcquireFunc(context.Background(), 1, semaphore.Forever, func(err error) {
				if err == nil {
					<-finish
					sem.Release(1)
				}
				outcomes <- err
			})
		}
		if err := sem.AcquireAsync(context.Background(), 1, semaphore.Forever).Err(); err != semaphore.ErrQueueFull {
			t.Fatalf("the 21st: %v, want %v", err, semaphore.ErrQueueFull)
		}
		close(finish)
		for range 20 {
			if err := <-outcomes; err != nil {
				t.Fatalf("one of 20: %v, want nil", err)
			}
		}
		wantIdle(t, sem, 10)
	}
	wantGoroutines(t, goroutines)
}

// The gauge of waiters went down while calls were still blocked, and the one in
// use up before they were admitted.
// https://github.com/helidon-io/helidon/issues/11430
// https://github.com/mperham/connection_pool/pull/167
func TestStatsFollowAsyncRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		a := askAsync(t.Context(), sem, 1, semaphore.Forever)
		wantStats(t, sem, 1, 1, 1)
		b := askFunc(t.Context(), sem, 1, time.Second)
		askAsync(t.Context(), sem, 1, 0)
		wantStats(t, sem, 1, 1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		askFunc(ctx, sem, 1, semaphore.Forever)
		wantStats(t, sem, 1, 1, 3)
		sem.Release(1)
		a.want(t, "a", nil)
		wantStats(t, sem, 1, 1, 2)
		cancel()
		synctest.Wait()
		wantStats(t, sem, 1, 1, 1)
		elapse(time.Second)
		b.want(t, "b", semaphore.ErrTimeout)
		wantStats(t, sem, 1, 1, 0)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// A deadline handler ran after the end had cleared the list, and removed its
// entry a second time. https://github.com/microsoft/vs-threading/pull/924
func TestDeadlineAndCloseMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcomes := make(map[error]int)
		for i := range rounds(100_000) {
			sem := semaphore.NewWeighted(1)
			sem.TryAcquire(1)
			p := forms[i%2].ask(t.Context(), sem, 1, time.Second)
			closing := begin(func() error {
				time.Sleep(time.Second)
				sem.Close()
				return nil
			})
			elapse(time.Second)
			closing.want(t, "Close", nil)
			err := p.Err()
			if err != semaphore.ErrTimeout && err != semaphore.ErrClosed {
				t.Fatalf("Err() = %v, want %v or %v", err, semaphore.ErrTimeout, semaphore.ErrClosed)
			}
			p.want(t, "the request", err)
			outcomes[err]++
			wantInUse(t, sem, 1)
			sem.Release(1)
			wantInUse(t, sem, 0)
		}
		t.Log(outcomes)
	})
}

// On the end nothing woke those who waited.
// https://github.com/tokio-rs/tokio/issues/3061
func TestCloseTellsAsyncWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		var ps []*asked
		for i := range 3 {
			ps = append(ps, forms[i%2].ask(context.Background(), sem, 1, semaphore.Forever))
		}
		sem.Close()
		for _, p := range ps {
			p.want(t, "the request", semaphore.ErrClosed)
		}
		if sem.TryAcquire(1) {
			t.Error("TryAcquire after Close = true")
		}
		sem.Release(1)
		wantInUse(t, sem, 0)
	})
}
