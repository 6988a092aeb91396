package bulkhead_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// Faults that users of other libraries reported in public, played on this one.

// bubble runs f with a bulkhead on fake time. When f is over, the calls that it
// left must add up and every permit must be back.
func bubble(t *testing.T, cfg bulkhead.Config, f func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder)) {
	synctest.Test(t, func(t *testing.T) {
		var told, whole recorder
		cfg.Name = "db"
		cfg.Listener = event.Join(told.listener(), whole.listener())
		b := bulkhead.MustNew[int](cfg)
		f(t, b, &told)
		synctest.Wait()
		var calls, weight int64
		for _, r := range whole.records {
			switch r.Kind {
			case event.KindPermitted, event.KindRejected, event.KindCanceled:
				calls, weight = calls+1, weight+r.Weight
			}
		}
		whole.check(t, calls, weight)
		checkAtRest(t, b)
	})
}

func TestExpiredCallersLeaveNoPermitBehind(t *testing.T) {
	// https://github.com/failsafe-lib/failsafe/issues/393
	// https://github.com/failsafe-lib/failsafe/pull/400
	cfg := bulkhead.Config{MaxConcurrent: 8, MaxWait: 20 * time.Millisecond}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		for range 1000 {
			var running sync.WaitGroup
			finish := make(chan struct{})
			for range 8 {
				running.Go(func() {
					b.Run(t.Context(), func(context.Context) error { <-finish; return nil })
				})
			}
			synctest.Wait()
			errs := make(chan error, 8)
			for range 8 {
				go func() { errs <- b.Run(t.Context(), nop) }()
			}
			for range 8 {
				if err := <-errs; !errors.Is(err, bulkhead.ErrFull) {
					t.Errorf("a call beyond the limit: %v, want ErrFull", err)
				}
			}
			synctest.Wait()
			if s := b.Stats(); s.Waiting != 0 || s.Active != 8 {
				t.Errorf("right after the time-outs, Stats = %+v, want 8 active and nobody waiting", s)
			}
			close(finish)
			running.Wait()
			for range 8 {
				running.Go(func() {
					if _, err := b.Execute(t.Context(), answer); err != nil {
						t.Errorf("a call after the spell: %v, want nil", err)
					}
				})
			}
			running.Wait()
			got := told.check(t, 24, 24).calls
			if got[event.KindFinished] != 16 || got[event.KindRejected] != 8 {
				t.Errorf("told %v, want 16 finished and 8 rejected", got)
			}
		}
	})
}

func TestContendedCallersWithShortDeadlinesLoseNoPermit(t *testing.T) {
	// https://github.com/encode/httpcore/issues/1093
	// https://github.com/encode/httpcore/issues/830
	// https://github.com/encode/httpcore/issues/658
	// https://github.com/encode/httpx/issues/1461
	cfg := bulkhead.Config{MaxConcurrent: 10, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		end := time.Now().Add(5 * time.Second)
		var calls atomic.Int64
		var workers sync.WaitGroup
		for i := range uint64(20) {
			random := rand.New(rand.NewPCG(i, 1))
			workers.Go(func() {
				for time.Now().Before(end) {
					// So that deadlines and releases meet, at one instant.
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(13))*250*time.Microsecond)
					calls.Add(1)
					b.Execute(ctx, func(context.Context) (int, error) {
						time.Sleep(time.Millisecond)
						return 0, ctx.Err()
					})
					cancel()
				}
			})
		}
		workers.Wait()
		if s := b.Stats(); s.Active != 0 || s.Waiting != 0 {
			t.Errorf("idle, Stats = %+v, want nothing active or waiting", s)
		}
		got := told.check(t, calls.Load(), calls.Load()).calls
		for _, k := range []event.Kind{event.KindFinished, event.KindReleased, event.KindCanceled} {
			if got[k] == 0 {
				t.Errorf("no call was %v: the test does not reach that", k)
			}
		}
		arrive := make(chan struct{}, 10)
		leave := make(chan struct{})
		for range 10 {
			workers.Go(func() {
				b.Run(t.Context(), func(context.Context) error {
					arrive <- struct{}{}
					<-leave
					return nil
				})
			})
		}
		synctest.Wait()
		if len(arrive) != 10 {
			t.Errorf("%d of ten calls run at once, want all", len(arrive))
		}
		close(leave)
		workers.Wait()
	})
}

func TestQueuedCallsNeedNoNudge(t *testing.T) {
	// https://github.com/alitto/pond/issues/115
	cfg := bulkhead.Config{MaxConcurrent: 2, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				b.Run(t.Context(), func(context.Context) error { time.Sleep(time.Second); return nil })
			})
		}
		start := time.Now()
		calls.Wait()
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("ten calls of 1s took %v, want 5s", got)
		}
	})
}

func TestPermitOnItsWayToAWaiterIsNotForOthers(t *testing.T) {
	// https://github.com/agronholm/anyio/issues/1170
	// https://github.com/golang/go/issues/29889
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		p := hold(t, b, 1)
		leave := make(chan struct{})
		go b.Run(t.Context(), func(context.Context) error { <-leave; return nil })
		synctest.Wait()
		p.Release()
		if q, ok := b.TryAcquire(); ok { // before the waiter has run
			t.Error("no barging: TryAcquire = true for a waiter's permit")
			q.Release()
		}
		synctest.Wait()
		if q, ok := b.TryAcquire(); ok || b.Stats().Active != 1 {
			t.Errorf("with the waiter in, TryAcquire = %v and %d active, want false and 1", ok, b.Stats().Active)
			q.Release()
		}
		close(leave)
	})
}

func TestCanceledWaiterPassesNothingOn(t *testing.T) {
	// https://github.com/Kotlin/kotlinx.coroutines/issues/1323
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		p := hold(t, b, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go b.Run(ctx, nop)
		synctest.Wait()
		second := false
		go b.Run(t.Context(), func(context.Context) error { second = true; return nil })
		synctest.Wait()
		cancel()
		synctest.Wait()
		if s := b.Stats(); second || s.Active != 1 || s.Waiting != 1 {
			t.Errorf("second ran: %v, Stats = %+v; want it waiting and 1 active", second, s)
		}
		p.Release()
		synctest.Wait()
		if !second {
			t.Error("the second did not run when the permit was back")
		}
	})
}

func TestLighterCallGoesWhenTheHeavyOneBeforeItIsCanceled(t *testing.T) {
	// https://github.com/golang/go/issues/37852
	cfg := bulkhead.Config{MaxConcurrent: 2, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		p := hold(t, b, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go b.Weighing(2).Run(ctx, nop)
		synctest.Wait()
		ran := false
		go b.Run(t.Context(), func(context.Context) error { ran = true; return nil })
		synctest.Wait()
		if ran {
			t.Error("no barging: the light call passed the heavy one")
		}
		cancel()
		synctest.Wait()
		if !ran {
			t.Error("the light call still waits, although it fits")
		}
		p.Release()
	})
}

func TestHolderThatComesBackAtOnceQueuesBehindTheWaiter(t *testing.T) {
	// https://github.com/python/cpython/pull/31910
	// https://github.com/vectorize-io/hindsight/issues/4157
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		turns, served := 0, false
		p := hold(t, b, 1)
		go b.Run(t.Context(), func(context.Context) error { served = true; return nil })
		synctest.Wait()
		p.Release()
		for range 100 {
			b.Run(t.Context(), func(context.Context) error {
				if !served {
					turns++
				}
				return nil
			})
		}
		if turns != 0 {
			t.Errorf("the holder had %d more turns before the waiter, want 0", turns)
		}
	})
}

func TestCrowdNeverExceedsTheLimit(t *testing.T) {
	// https://github.com/joshrotenberg/tower-resilience/issues/365
	cfg := bulkhead.Config{MaxConcurrent: 4, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		var inside, peak atomic.Int64
		var calls sync.WaitGroup
		barrier := make(chan struct{})
		for range 64 {
			calls.Go(func() {
				<-barrier
				b.Execute(t.Context(), func(context.Context) (int, error) {
					n := inside.Add(1)
					for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
					}
					time.Sleep(time.Second)
					inside.Add(-1)
					return 0, nil
				})
			})
		}
		start := time.Now()
		close(barrier)
		calls.Wait()
		if peak.Load() != 4 || time.Since(start) != 16*time.Second {
			t.Errorf("peak %d in %v, want exactly 4 in 16s", peak.Load(), time.Since(start))
		}
	})
}

func TestBulkheadsShareNothing(t *testing.T) {
	// https://github.com/Netflix/Hystrix/issues/118
	a := bulkhead.MustNew[int](bulkhead.Config{Name: "a", MaxConcurrent: 1})
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "b", MaxConcurrent: 1})
	p := hold(t, a, 1)
	if _, err := b.Execute(t.Context(), answer); err != nil {
		t.Errorf("with the other full, Execute = %v, want nil", err)
	}
	if _, err := a.Execute(t.Context(), answer); !errors.Is(err, bulkhead.ErrFull) {
		t.Errorf("full, Execute = %v, want ErrFull", err)
	}
	p.Release()
	checkAtRest(t, a)
	checkAtRest(t, b)
}

func TestCallWithTwoEndingsReleasesOnce(t *testing.T) {
	// https://github.com/resilience4j/resilience4j/issues/263
	// https://github.com/resilience4j/resilience4j/issues/264
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		ctx, cancel := context.WithCancel(t.Context())
		b.Run(ctx, func(context.Context) error { cancel(); return errBoom })
		leave := make(chan struct{})
		for range 2 {
			go b.Run(t.Context(), func(context.Context) error { <-leave; return nil })
		}
		synctest.Wait()
		if s := b.Stats(); s.Active != 1 || s.Waiting != 1 || s.Available != 0 {
			t.Errorf("Stats = %+v, want one call running and one waiting", s)
		}
		close(leave)
	})
}

func TestPanickingCallsLeaveTheBulkheadUsable(t *testing.T) {
	// https://github.com/valyala/fasthttp/issues/2219
	// https://github.com/mauricio/postgresql-async/issues/140
	cfg := bulkhead.Config{MaxConcurrent: 1}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		value := new(int)
		for range 100 {
			got := watch(func() {
				b.Execute(t.Context(), func(context.Context) (int, error) { panic(value) })
			})
			if got.panicked != value {
				t.Errorf("ended with %+v, want the very panic value", got)
			}
		}
		if got, err := b.Execute(t.Context(), answer); got != 42 || err != nil {
			t.Errorf("then Execute = %v, %v, want 42, nil", got, err)
		}
		if got := told.check(t, 101, 101).calls[event.KindFinished]; got != 101 {
			t.Errorf("Finished was told %d times, want once for each of 101 calls", got)
		}
	})
}

func TestWorkThatCannotBeStartedKeepsNoPermit(t *testing.T) {
	// No thread could be had, and the permit was to come back at the end of the
	// work, which so never began.
	// https://github.com/spring-projects/spring-framework/issues/35708
	starters := map[string]func() error{
		"fails":   func() error { return errBoom },
		"panics":  func() error { panic(errBoom) },
		"goexits": func() error { runtime.Goexit(); return nil },
	}
	for entry, submit := range map[string]func(ctx context.Context, b *bulkhead.Bulkhead[int], start func() error) error{
		"DecorateChan": func(ctx context.Context, b *bulkhead.Bulkhead[int], start func() error) error {
			_, err := bulkhead.DecorateChan(b, func(context.Context) (<-chan int, error) {
				results := make(chan int) // that the work would close
				return results, start()
			})(ctx)
			return err
		},
		"Acquire": func(ctx context.Context, b *bulkhead.Bulkhead[int], start func() error) error {
			p, err := b.Acquire(ctx)
			if err != nil {
				return err
			}
			started := false
			defer func() {
				if !started { // or else the work is to give it back
					p.Release()
				}
			}()
			err = start()
			started = err == nil
			return err
		},
	} {
		for how, start := range starters {
			t.Run(entry+"/"+how, func(t *testing.T) {
				bubble(t, bulkhead.Config{MaxConcurrent: 1}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
					for range 10 {
						var err error
						got := watch(func() { err = submit(t.Context(), b, start) })
						want := map[string]ended{"panics": {panicked: errBoom}, "goexits": {goexit: true}}[how]
						if got != want || how == "fails" && err != errBoom {
							t.Errorf("ended with %+v, %v, want %+v or the starter's error", got, err, want)
						}
						if _, err := b.Execute(t.Context(), answer); err != nil {
							t.Errorf("then Execute = %v, want nil", err)
						}
					}
					told.check(t, 20, 20)
				})
			})
		}
	}
}

func TestCancelInFlightGivesThePermitBackByEveryEntry(t *testing.T) {
	// Permits leaked through one of two entries.
	// https://github.com/failsafe-go/failsafe-go/releases/tag/v0.9.2
	for _, entry := range entries {
		t.Run(entry.name, func(t *testing.T) {
			bubble(t, bulkhead.Config{MaxConcurrent: 2}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
				for range 10 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					err := entry.call(ctx, b, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
					cancel()
					if err != context.DeadlineExceeded || b.Stats().Active != 0 {
						t.Errorf("%v with %d active, want the very error and 0", err, b.Stats().Active)
					}
				}
				if got := told.check(t, 10, 10).calls[event.KindReleased]; got != 10 {
					t.Errorf("%d calls were released, want 10", got)
				}
			})
		})
	}
}

func TestDeadlineDoesNotFreeThePermitOfARunningFunction(t *testing.T) {
	// https://github.com/Netflix/Hystrix/issues/1867
	// https://github.com/resilience4j/resilience4j/pull/729
	for _, entry := range entries {
		t.Run(entry.name, func(t *testing.T) {
			bubble(t, bulkhead.Config{MaxConcurrent: 1}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
				defer cancel()
				go entry.call(ctx, b, func(context.Context) error { // it does not look at ctx
					time.Sleep(200 * time.Millisecond)
					return nil
				})
				for time.Since(start) < 190*time.Millisecond {
					time.Sleep(10 * time.Millisecond)
					if p, ok := b.TryAcquire(); ok {
						t.Errorf("a permit is free after %v, while the function runs", time.Since(start))
						p.Release()
					}
				}
				time.Sleep(20 * time.Millisecond)
				if p, ok := b.TryAcquire(); !ok {
					t.Error("no permit is free after the function's end")
				} else {
					p.Release()
				}
			})
		})
	}
}

func TestDoneContextFailsEvenIfAPermitIsFree(t *testing.T) {
	// https://github.com/golang/go/issues/63615
	for _, maxWait := range []time.Duration{0, time.Second, bulkhead.Forever} {
		cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: maxWait}
		bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for _, entry := range entries {
				err := entry.call(ctx, b, func(context.Context) error {
					t.Errorf("%s ran the function", entry.name)
					return nil
				})
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%s: %v, want the context's error", entry.name, err)
				}
			}
			if got := told.check(t, int64(len(entries)), int64(len(entries))).calls; got[event.KindCanceled] != int64(len(entries)) {
				t.Errorf("told %v, want only canceled", got)
			}
		})
	}
}

func TestContextThatEndedBeforeTheReleaseNeverGetsThePermit(t *testing.T) {
	// https://github.com/golang/go/issues/63615
	// https://github.com/bufbuild/buf/issues/913
	// https://github.com/agronholm/anyio/issues/947
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		for range 10_000 {
			p := hold(t, b, 1)
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() {
				first <- b.Run(ctx, func(context.Context) error { t.Error("the canceled call ran"); return nil })
			}()
			synctest.Wait()
			go func() { second <- b.Run(t.Context(), nop) }()
			synctest.Wait()
			cancel()
			p.Release()
			if err := <-first; !errors.Is(err, context.Canceled) {
				t.Fatalf("the canceled call: %v, want its context's error", err)
			}
			if err := <-second; err != nil {
				t.Fatalf("the call behind it: %v, want nil", err)
			}
		}
	})
}

func TestFullAndCanceledAreToldApart(t *testing.T) {
	// https://github.com/failsafe-go/failsafe-go/commit/3113968
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: time.Second}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		p := hold(t, b, 1)
		told.take()
		for _, tt := range []struct {
			deadline time.Duration
			want     event.Kind
			is, not  error
		}{
			{10 * time.Millisecond, event.KindCanceled, context.DeadlineExceeded, bulkhead.ErrFull},
			{time.Minute, event.KindRejected, bulkhead.ErrFull, context.DeadlineExceeded},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), tt.deadline)
			err := b.Run(ctx, nop)
			cancel()
			if !errors.Is(err, tt.is) || errors.Is(err, tt.not) {
				t.Errorf("deadline %v: %v, want one that matches %v and not %v", tt.deadline, err, tt.is, tt.not)
			}
			if got := told.take(); len(got) != 1 || got[0].Kind != tt.want {
				t.Errorf("deadline %v: told %+v, want one event, %v", tt.deadline, got, tt.want)
			}
		}
		p.Release()
	})
}

func TestCallerThatLeavesTheQueueIsNotRun(t *testing.T) {
	// https://github.com/dotnet/aspnetcore/pull/43320
	// https://github.com/sindresorhus/p-queue/issues/168
	// https://github.com/connor4312/cockatiel/issues/112
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever, MaxQueue: 2}
	for _, lingers := range []time.Duration{0, time.Second} { // once its context has ended
		bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
			ctx, cancel := context.WithCancel(t.Context())
			errs := make(chan error, 2)
			go func() {
				errs <- b.Run(ctx, func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(lingers)
					return ctx.Err()
				})
			}()
			synctest.Wait()
			go func() {
				errs <- b.Run(ctx, func(context.Context) error { t.Error("the canceled call ran"); return nil })
			}()
			synctest.Wait()
			third := make(chan error, 1)
			go func() { third <- b.Run(t.Context(), nop) }()
			synctest.Wait()
			cancel() // the one that runs and the one next in line, together
			for range 2 {
				if err := <-errs; !errors.Is(err, context.Canceled) {
					t.Errorf("a canceled call: %v, want its context's error", err)
				}
			}
			if err := <-third; err != nil {
				t.Errorf("the call behind them: %v, want nil", err)
			}
			got := told.check(t, 3, 3).calls
			if got[event.KindCanceled] != 1 || got[event.KindReleased] != 1 || got[event.KindFinished] != 1 {
				t.Errorf("told %v, want one canceled, one released and one finished", got)
			}
		})
	}
}

func TestRejectionLeavesEverythingUsable(t *testing.T) {
	// https://github.com/letsencrypt/boulder/pull/7272
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever, MaxQueue: 1}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		p := hold(t, b, 1)
		queued := make(chan error, 1)
		go func() { queued <- b.Run(t.Context(), nop) }()
		synctest.Wait()
		for range 3 {
			if err := b.Run(t.Context(), nop); !errors.Is(err, bulkhead.ErrFull) {
				t.Errorf("beyond the queue: %v, want ErrFull", err)
			}
		}
		p.Release()
		if err := <-queued; err != nil {
			t.Errorf("the queued call: %v, want nil", err)
		}
		hold(t, b, 1).Release()
	})
}

func TestQueueBoundIsExact(t *testing.T) {
	// https://github.com/OpenLiberty/open-liberty/issues/2746
	cfg := bulkhead.Config{MaxConcurrent: 10, MaxWait: bulkhead.Forever, MaxQueue: 10}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		for range 100 {
			leave := make(chan struct{})
			errs := make(chan error, 20)
			for range 20 {
				go func() {
					errs <- b.Run(t.Context(), func(context.Context) error { <-leave; return nil })
				}()
			}
			synctest.Wait()
			if s := b.Stats(); s.Active != 10 || s.Waiting != 10 {
				t.Errorf("Stats = %+v, want 10 active and 10 waiting", s)
			}
			err := b.Run(t.Context(), nop)
			if got, _ := errors.AsType[bulkhead.RejectedError](err); got.Reason != event.QueueFull {
				t.Errorf("the 21st call: %v, want queue full", err)
			}
			close(leave)
			for range 20 {
				if err := <-errs; err != nil {
					t.Errorf("one of the first twenty: %v, want nil", err)
				}
			}
		}
	})
}

func TestByDefaultNobodyWaitsAndMaxQueueIsNoBound(t *testing.T) {
	// https://github.com/App-vNext/Polly/issues/810
	bubble(t, bulkhead.Config{MaxConcurrent: 1}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		p := hold(t, b, 1)
		start := time.Now()
		err := b.Run(t.Context(), nop)
		if got, _ := errors.AsType[bulkhead.RejectedError](err); got.Reason != event.Full || time.Since(start) != 0 {
			t.Errorf("%v after %v, want full at once", err, time.Since(start))
		}
		for range 1000 {
			go b.Waiting(bulkhead.Forever).Run(t.Context(), nop)
		}
		synctest.Wait()
		if got := b.Stats().Waiting; got != 1000 {
			t.Errorf("%d calls wait, want 1000", got)
		}
		p.Release()
	})
}

func TestWaitingFollowsEveryStep(t *testing.T) {
	// https://github.com/helidon-io/helidon/issues/11430
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		step := func(waiting int, want event.Kind) {
			t.Helper()
			synctest.Wait()
			if got := b.Stats().Waiting; got != waiting {
				t.Errorf("%d calls wait, want %d", got, waiting)
			}
			records := told.take()
			if want == 0 {
				if len(records) != 0 {
					t.Errorf("told %+v of calls that only wait", records)
				}
				return
			}
			for _, r := range records {
				if r.Kind == want {
					return
				}
			}
			t.Errorf("told %+v, want %v among it", records, want)
		}
		p := hold(t, b, 1)
		told.take()
		leave := make(chan struct{})
		go b.Run(t.Context(), func(context.Context) error { <-leave; return nil })
		step(1, 0)
		ctx, cancel := context.WithCancel(t.Context())
		go b.Run(ctx, nop)
		step(2, 0)
		go b.Waiting(time.Minute).Run(t.Context(), nop)
		step(3, 0)
		p.Release()
		step(2, event.KindPermitted)
		cancel()
		step(1, event.KindCanceled)
		time.Sleep(time.Minute)
		step(0, event.KindRejected)
		close(leave)
	})
}

func TestEveryReasonIsToldApart(t *testing.T) {
	// https://github.com/envoyproxy/envoy/issues/44164
	// https://github.com/envoyproxy/envoy/issues/36771
	cfg := bulkhead.Config{MaxConcurrent: 2, MaxWait: time.Second, MaxQueue: 1}
	synctest.Test(t, func(t *testing.T) {
		var told recorder
		cfg.Name, cfg.Listener = "db", told.listener()
		b := bulkhead.MustNew[int](cfg)
		p := hold(t, b, 2)
		told.take()
		var got []event.Reason
		reject := func(h *bulkhead.Bulkhead[int]) {
			err := h.Run(t.Context(), nop)
			rejected, ok := errors.AsType[bulkhead.RejectedError](err)
			records := told.take()
			if last := len(records) - 1; !ok || last < 0 || records[last].Reason != rejected.Reason {
				t.Errorf("%v, told %+v, want the same reason in both", err, records)
			}
			got = append(got, rejected.Reason)
		}
		reject(b.Waiting(0))
		reject(b)
		go b.Waiting(bulkhead.Forever).Run(t.Context(), nop)
		synctest.Wait()
		reject(b)
		reject(b.Weighing(3))
		b.Close()
		synctest.Wait()
		reject(b)
		want := []event.Reason{event.Full, event.TimedOut, event.QueueFull, event.TooHeavy, event.Closed}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("reasons %v, want %v", got, want)
				break
			}
		}
		p.Release()
		checkAtRest(t, b)
	})
}

func TestActiveChangesOnlyOnAGrant(t *testing.T) {
	// https://github.com/mperham/connection_pool/pull/167
	// https://github.com/typelevel/cats-effect/issues/403
	cfg := bulkhead.Config{MaxConcurrent: 5, MaxWait: time.Second}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		p, q, r, s := hold(t, b, 1), hold(t, b, 1), hold(t, b, 1), hold(t, b, 1)
		failed := make(chan error, 1)
		go func() { failed <- b.Weighing(5).Run(t.Context(), nop) }()
		for i, permit := range []*bulkhead.Permit{p, q} {
			synctest.Wait()
			if got := b.Stats().Active; got != int64(4-i) {
				t.Errorf("%d permits active while a call waits, want the %d that are held", got, 4-i)
			}
			permit.Release()
		}
		if err := <-failed; !errors.Is(err, bulkhead.ErrFull) {
			t.Errorf("the heavy call: %v, want ErrFull", err)
		}
		if got := b.Stats().Active; got != 2 {
			t.Errorf("%d permits active after a call failed, want the 2 that are held", got)
		}
		r.Release()
		s.Release()
	})
}
