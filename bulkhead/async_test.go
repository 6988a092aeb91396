package bulkhead_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// asyncs are all the ways to start a call on a goroutine of its own.
var asyncs = []struct {
	name  string
	start func(context.Context, bulkhead.Any, func(context.Context) (int, error)) *bulkhead.Future[int]
}{
	{"ExecuteAsync", func(ctx context.Context, b bulkhead.Any, fn func(context.Context) (int, error)) *bulkhead.Future[int] {
		return b.(*bulkhead.Bulkhead[int]).ExecuteAsync(ctx, fn)
	}},
	{"Go", bulkhead.Go[int]},
	{"DecorateAsync", func(ctx context.Context, b bulkhead.Any, fn func(context.Context) (int, error)) *bulkhead.Future[int] {
		return bulkhead.DecorateAsync(b, fn)(ctx)
	}},
}

// until returns a function that ends when c is closed.
func until(c <-chan struct{}) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { <-c; return 42, nil }
}

// never returns a function that must not run.
func never(t *testing.T) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { t.Error("the function ran"); return 0, nil }
}

// isOver reports whether Done is closed.
func isOver(f interface{ Done() <-chan struct{} }) bool {
	select {
	case <-f.Done():
		return true
	default:
		return false
	}
}

func TestAsyncCallTakesAFreePermitAtOnce(t *testing.T) {
	for _, async := range asyncs {
		for _, maxWait := range []time.Duration{0, time.Second, bulkhead.Forever} {
			cfg := bulkhead.Config{MaxConcurrent: 3, MaxWait: maxWait, MaxQueue: 1}
			bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
				leave := make(chan struct{})
				var futures []*bulkhead.Future[int]
				for i := range 3 {
					futures = append(futures, async.start(t.Context(), b, until(leave)))
					if s := b.Stats(); s.Active != int64(i+1) || s.Waiting != 0 {
						t.Errorf("%s, MaxWait %v: on return of call %d, Stats = %+v", async.name, maxWait, i, s)
					}
				}
				close(leave)
				for _, f := range futures {
					if got, err := f.Get(t.Context()); got != 42 || err != nil {
						t.Errorf("%s: Get = %v, %v, want 42, nil", async.name, got, err)
					}
				}
			})
		}
	}
}

// The place in the queue is fixed when the call returns, and all kinds of calls
// wait in one queue, whatever they weigh.
func TestAsyncCallsAndBlockingOnesWaitInOneQueue(t *testing.T) {
	cfg := bulkhead.Config{MaxConcurrent: 3, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		var order []int
		leave := make(chan struct{})
		first := hold(t, b, 3)
		for i := range 20 {
			// Each takes all the permits while it runs, or the queue would not
			// show in the order of the starts.
			run := func(context.Context) (int, error) {
				order = append(order, i)
				time.Sleep(time.Second)
				return 0, nil
			}
			h := b.Weighing(3)
			switch i % 5 {
			case 0:
				h.ExecuteAsync(t.Context(), run)
			case 1:
				go h.Execute(t.Context(), run)
				synctest.Wait()
			case 2:
				bulkhead.Go(t.Context(), h, run)
			case 3:
				p := h.AcquireAsync(t.Context())
				go func() {
					permit, err := p.Wait(t.Context())
					run(t.Context())
					permit.Complete(err)
				}()
			case 4:
				bulkhead.DecorateAsync(h, run)(t.Context())
			}
			if got := b.Stats().Waiting; got != i+1 {
				t.Errorf("%d calls wait on return of call %d, want %d", got, i, i+1)
			}
		}
		close(leave)
		first.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("order %v, want that of the calls", order)
		}
	})
}

func TestHeavyAsyncCallHoldsUpLighterOnes(t *testing.T) {
	// https://github.com/golang/go/issues/56910
	cfg := bulkhead.Config{MaxConcurrent: 10, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		first := hold(t, b, 5)
		heavy := b.Weighing(8).ExecuteAsync(t.Context(), answer)
		light := b.ExecuteAsync(t.Context(), answer)
		synctest.Wait()
		if isOver(heavy) || isOver(light) || b.Stats().Waiting != 2 {
			t.Errorf("no barging: Stats = %+v, want both waiting", b.Stats())
		}
		if _, ok := b.TryAcquire(); ok {
			t.Error("no barging: TryAcquire = true past two waiting calls")
		}
		first.Release()
		for _, f := range []*bulkhead.Future[int]{heavy, light} {
			if _, err := f.Get(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A call that waits costs no goroutine; it gets one when its turn comes.
func TestQueuedCallsCostNoGoroutine(t *testing.T) {
	const calls = 5_000 // and as many pending permits
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever, Listener: told.listener()})
	first := hold(t, b, 1)
	before := runtime.NumGoroutine()
	ran := 0
	var futures []*bulkhead.Future[int]
	var permits []*bulkhead.PendingPermit
	for i := range calls {
		h := b
		if i%2 == 0 {
			h = b.Waiting(time.Hour)
		}
		futures = append(futures, h.ExecuteAsync(ctx, func(context.Context) (int, error) { ran++; return i, nil }))
		permits = append(permits, h.AcquireAsync(ctx))
	}
	if got := runtime.NumGoroutine(); got > before {
		t.Errorf("%d queued calls have %d goroutines, want none", 2*calls, got-before)
	}
	if got := b.Stats().Waiting; got != 2*calls {
		t.Errorf("%d calls wait, want %d", got, 2*calls)
	}
	first.Release()
	for i, f := range futures {
		if got, err := f.Get(t.Context()); got != i || err != nil {
			t.Fatalf("call %d: %v, %v", i, got, err)
		}
		permit, err := permits[i].Wait(t.Context())
		if err != nil {
			t.Fatalf("permit %d: %v", i, err)
		}
		permit.Complete(nil)
	}
	if ran != calls {
		t.Errorf("%d functions ran, want %d", ran, calls)
	}
	told.check(t, 2*calls+1, 2*calls+1)
	checkAtRest(t, b)
	wantGoroutines(t, before)
}

// wantGoroutines fails the test unless no more than so many goroutines are
// left, once those that are about to end have ended.
func wantGoroutines(t *testing.T, want int) {
	t.Helper()
	for start := time.Now(); time.Since(start) < 10*time.Second; runtime.Gosched() {
		if runtime.NumGoroutine() <= want {
			return
		}
	}
	t.Errorf("%d goroutines, want %d", runtime.NumGoroutine(), want)
}

// The call's goroutine is made by whoever makes room, and has its labels.
func TestGoroutineIsBornOnTheGrant(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
	first := hold(t, b, 1)
	var f *bulkhead.Future[string]
	labeled := func(who string, do func()) {
		pprof.Do(t.Context(), pprof.Labels("who", who), func(context.Context) { do() })
	}
	labeled("caller", func() { f = bulkhead.Go(t.Context(), b, labelsOfGoroutine) })
	labeled("releaser", first.Release)
	got, err := f.Get(t.Context())
	if want := `{"who":"releaser"}`; !strings.Contains(got, want) || err != nil {
		t.Errorf("labels of the function's goroutine: %q, %v; want %s", got, err, want)
	}
}

// labelsOfGoroutine returns the labels of the goroutine that calls it, which
// are in no context.
func labelsOfGoroutine(context.Context) (string, error) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return "", err
	}
	for stack := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(stack, "labelsOfGoroutine") {
			for line := range strings.Lines(stack) {
				if labels, ok := strings.CutPrefix(line, "# labels: "); ok {
					return labels, nil
				}
			}
		}
	}
	return "", errors.New("no labels found")
}

// Faults of asynchronous bulkheads that were reported in public.

func TestExpiredAsyncCallersLeaveNoPermitBehind(t *testing.T) {
	// https://github.com/failsafe-lib/failsafe/issues/393
	// https://github.com/failsafe-lib/failsafe/pull/400
	cfg := bulkhead.Config{MaxConcurrent: 8, MaxWait: 20 * time.Millisecond}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		for range 1000 {
			leave := make(chan struct{})
			var running, expired, next []*bulkhead.Future[int]
			for range 8 {
				running = append(running, b.ExecuteAsync(t.Context(), until(leave)))
			}
			for range 8 {
				expired = append(expired, b.ExecuteAsync(t.Context(), never(t)))
			}
			for _, f := range expired {
				if _, err := f.Get(t.Context()); !errors.Is(err, bulkhead.ErrFull) {
					t.Errorf("a call beyond the limit: %v, want ErrFull", err)
				}
			}
			if s := b.Stats(); s.Waiting != 0 || s.Active != 8 {
				t.Errorf("right after the time-outs, Stats = %+v, want 8 active and nobody waiting", s)
			}
			close(leave)
			b.Drain(t.Context())
			for range 8 {
				next = append(next, b.ExecuteAsync(t.Context(), answer))
			}
			for _, f := range append(running, next...) {
				if got, err := f.Get(t.Context()); got != 42 || err != nil {
					t.Errorf("one of the others: %v, %v, want 42, nil", got, err)
				}
			}
			synctest.Wait()
			got := told.check(t, 24, 24).calls
			if got[event.KindFinished] != 16 || got[event.KindRejected] != 8 {
				t.Errorf("told %v, want 16 finished and 8 rejected", got)
			}
		}
	})
}

// Whoever gives up on a permit by a timer of his own, and comes too late, has it.
func TestOwnTimeoutAroundAPendingPermit(t *testing.T) {
	// https://github.com/Kotlin/kotlinx.coroutines/issues/2233
	cfg := bulkhead.Config{MaxConcurrent: 10, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		var callers sync.WaitGroup
		for i := range 5000 {
			callers.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				p := b.AcquireAsync(t.Context())
				select {
				case <-p.Done():
				case <-time.After(25 * time.Millisecond): // as the winners give back
					if p.Cancel() {
						return
					}
					<-p.Done()
				}
				permit, err := p.Permit()
				if err != nil {
					t.Errorf("not canceled, and then %v", err)
				}
				time.Sleep(50 * time.Millisecond)
				permit.Complete(nil)
			})
		}
		callers.Wait()
		synctest.Wait()
		got := told.check(t, 5000, 5000).calls
		if got[event.KindCanceled] == 0 || got[event.KindFinished] == 0 {
			t.Errorf("told %v, want some canceled and some finished", got)
		}
	})
}

func TestAsyncCallThatEndsBesideAReleasePassesItOn(t *testing.T) {
	// https://github.com/agronholm/anyio/issues/947
	// https://github.com/dotnet/runtime/issues/77180
	cfg := bulkhead.Config{MaxConcurrent: 2, MaxWait: bulkhead.Forever}
	for name, end := range map[string]func(f *bulkhead.Future[int], cancel func()){
		"Cancel":  func(f *bulkhead.Future[int], _ func()) { f.Cancel() },
		"context": func(_ *bulkhead.Future[int], cancel func()) { cancel() },
	} {
		for _, releaseFirst := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
					for range 100 {
						one, other := hold(t, b, 1), hold(t, b, 1)
						ctx, cancel := context.WithCancel(t.Context())
						heavy := b.Weighing(2).ExecuteAsync(ctx, never(t))
						light := b.ExecuteAsync(t.Context(), answer)
						if releaseFirst {
							one.Release()
							end(heavy, cancel)
						} else {
							end(heavy, cancel)
							one.Release()
						}
						if _, err := heavy.Get(t.Context()); !errors.Is(err, context.Canceled) {
							t.Fatalf("the heavy call: %v, want canceled", err)
						}
						if got, err := light.Get(t.Context()); got != 42 || err != nil {
							t.Fatalf("the light call behind it: %v, %v, want 42, nil", got, err)
						}
						other.Release()
						cancel()
					}
				})
			})
		}
	}
}

func TestPermitOnItsWayToAnAsyncCallIsNotForOthers(t *testing.T) {
	// https://github.com/agronholm/anyio/issues/1170
	// https://github.com/Kotlin/kotlinx.coroutines/issues/1323
	oneProc(t) // so that the call has not begun when the permit is tried
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		first := hold(t, b, 1)
		withdrawn := b.ExecuteAsync(t.Context(), never(t))
		leave := make(chan struct{})
		f := b.ExecuteAsync(t.Context(), until(leave))
		withdrawn.Cancel()
		synctest.Wait()
		if s := b.Stats(); s.Active != 1 || s.Waiting != 1 {
			t.Errorf("after a Cancel before it, Stats = %+v, want the call waiting", s)
		}
		first.Release()
		if p, ok := b.TryAcquire(); ok {
			t.Error("no barging: TryAcquire = true for a permit on its way to a call")
			p.Release()
		}
		close(leave)
		if _, err := f.Get(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAsyncQueueBoundIsExact(t *testing.T) {
	// https://github.com/OpenLiberty/open-liberty/issues/2746
	before := runtime.NumGoroutine()
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name: "db", MaxConcurrent: 10, MaxWait: bulkhead.Forever, MaxQueue: 10, Listener: told.listener(),
	})
	const rounds = 2000
	for range rounds {
		leave := make(chan struct{})
		var futures []*bulkhead.Future[int]
		for range 20 {
			futures = append(futures, b.ExecuteAsync(t.Context(), until(leave)))
		}
		_, err := b.ExecuteAsync(t.Context(), never(t)).Get(t.Context())
		want := bulkhead.RejectedError{
			Name: "db", Reason: event.QueueFull, MaxConcurrent: 10, MaxWait: bulkhead.Forever, Weight: 1,
		}
		if err != want {
			t.Fatalf("the 21st call: %v, want %v", err, want)
		}
		if _, err := b.AcquireAsync(t.Context()).Wait(t.Context()); err != want {
			t.Fatalf("a permit beside: %v, want %v", err, want)
		}
		close(leave)
		for i, f := range futures {
			if _, err := f.Get(t.Context()); err != nil {
				t.Fatalf("call %d: %v, want nil", i, err)
			}
		}
	}
	told.check(t, 22*rounds, 22*rounds)
	checkAtRest(t, b)
	wantGoroutines(t, before)
}

func TestQueuedAsyncCallStartsWhenTheLastOneEnds(t *testing.T) {
	// https://github.com/smallrye/smallrye-fault-tolerance/commit/8594b51c
	before := runtime.NumGoroutine()
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever, MaxQueue: 1})
	for range 2000 {
		leave := make(chan struct{})
		first := b.ExecuteAsync(t.Context(), until(leave))
		var both sync.WaitGroup
		both.Go(func() { close(leave) })
		both.Go(func() {
			if got, err := b.ExecuteAsync(t.Context(), answer).Get(t.Context()); got != 42 || err != nil {
				t.Errorf("the second call: %v, %v", got, err)
			}
		})
		both.Wait()
		if _, err := first.Get(t.Context()); err != nil {
			t.Errorf("the first call: %v", err)
		}
	}
	checkAtRest(t, b)
	wantGoroutines(t, before)
}

func TestQueuedAsyncCallsNeedNoNudge(t *testing.T) {
	// https://github.com/alitto/pond/issues/115
	cfg := bulkhead.Config{MaxConcurrent: 2, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		for range 10 {
			b.ExecuteAsync(t.Context(), func(context.Context) (int, error) { time.Sleep(time.Second); return 0, nil })
		}
		start := time.Now()
		if err := b.Drain(t.Context()); err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("drained after %v: %v, want ten calls of 1s done in 5s", time.Since(start), err)
		}
	})
}

// A long queue of calls that do nothing drains in order, at a constant depth of
// the stack. Each writes what the next one reads, with no synchronization but
// the bulkhead's.
func TestLongQueueDrainsWithoutRecursion(t *testing.T) {
	// https://github.com/smallrye/smallrye-fault-tolerance/issues/1099
	before := runtime.NumGoroutine()
	const calls = 100_000
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
	first := hold(t, b, 1)
	ran, deepest := 0, 0
	var last *bulkhead.Future[int]
	for i := range calls {
		last = b.ExecuteAsync(t.Context(), func(context.Context) (int, error) {
			if ran != i {
				t.Errorf("call %d ran as number %d", i, ran)
			}
			ran++
			var stack [64]uintptr
			deepest = max(deepest, runtime.Callers(0, stack[:]))
			return i, nil
		})
	}
	first.Release()
	if got, err := last.Get(t.Context()); got != calls-1 || err != nil {
		t.Errorf("the last call: %v, %v", got, err)
	}
	if ran != calls || deepest > 16 {
		t.Errorf("%d calls ran, %d frames deep; want %d, in a few frames", ran, deepest, calls)
	}
	checkAtRest(t, b)
	wantGoroutines(t, before)
}

func TestLateCancelTouchesNoOtherCall(t *testing.T) {
	// https://github.com/smallrye/smallrye-fault-tolerance/commit/c969048f
	// https://github.com/smallrye/smallrye-fault-tolerance/commit/079e5676
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		first := b.ExecuteAsync(t.Context(), answer)
		synctest.Wait()
		second := b.ExecuteAsync(t.Context(), func(ctx context.Context) (int, error) {
			time.Sleep(time.Second)
			return 7, ctx.Err()
		})
		synctest.Wait()
		third := b.ExecuteAsync(t.Context(), answer)
		if first.Cancel() {
			t.Error("Cancel of a finished call = true, want false")
		}
		if s := b.Stats(); s.Active != 1 || s.Waiting != 1 {
			t.Errorf("after a late Cancel, Stats = %+v, want one running and one waiting", s)
		}
		for f, want := range map[*bulkhead.Future[int]]int{first: 42, second: 7, third: 42} {
			if got, err := f.Get(t.Context()); got != want || err != nil {
				t.Errorf("Get = %v, %v, want %v, nil", got, err, want)
			}
		}
	})
}

func TestCancelingARunningCallAndAQueuedOneTogether(t *testing.T) {
	// https://github.com/sindresorhus/p-queue/issues/168
	// https://github.com/connor4312/cockatiel/issues/112
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever, MaxQueue: 2}
	for _, lingers := range []time.Duration{0, time.Second} { // once its context has ended
		bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
			ctx, cancel := context.WithCancel(t.Context())
			first := b.ExecuteAsync(ctx, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(lingers)
				return 0, ctx.Err()
			})
			synctest.Wait()
			second := b.ExecuteAsync(ctx, never(t))
			third := b.ExecuteAsync(t.Context(), answer)
			cancel()
			for _, f := range []*bulkhead.Future[int]{first, second} {
				if _, err := f.Get(t.Context()); !errors.Is(err, context.Canceled) {
					t.Errorf("a canceled call: %v, want its context's error", err)
				}
			}
			if got, err := third.Get(t.Context()); got != 42 || err != nil {
				t.Errorf("the call behind them: %v, %v, want 42, nil", got, err)
			}
			synctest.Wait()
			got := told.check(t, 3, 3).calls
			if got[event.KindCanceled] != 1 || got[event.KindReleased] != 1 || got[event.KindFinished] != 1 {
				t.Errorf("told %v, want one canceled, one released and one finished", got)
			}
		})
	}
}

func TestAsyncCallWithTwoEndingsReleasesOnce(t *testing.T) {
	// https://github.com/resilience4j/resilience4j/issues/263
	// https://github.com/resilience4j/resilience4j/issues/264
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		ctx, cancel := context.WithCancel(t.Context())
		f := b.ExecuteAsync(ctx, func(context.Context) (int, error) { cancel(); return 0, errBoom })
		if _, err := f.Get(t.Context()); err != errBoom {
			t.Errorf("Get = %v, want the very error", err)
		}
		f.Cancel()
		leave := make(chan struct{})
		for range 2 {
			b.ExecuteAsync(t.Context(), until(leave))
		}
		synctest.Wait()
		if s := b.Stats(); s.Active != 1 || s.Waiting != 1 || s.Available != 0 {
			t.Errorf("Stats = %+v, want one call running and one waiting", s)
		}
		close(leave)
	})
}

func TestWaitingFollowsEveryStepOfAsyncCalls(t *testing.T) {
	// https://github.com/helidon-io/helidon/issues/11430
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		step := func(what string, waiting int, want ...event.Kind) {
			t.Helper()
			if got := b.Stats().Waiting; got != waiting {
				t.Errorf("%s: %d calls wait, want %d", what, got, waiting)
			}
			synctest.Wait()
			var kinds []event.Kind
			for _, e := range told.take() {
				kinds = append(kinds, e.Kind)
			}
			slices.Sort(kinds)
			if !slices.Equal(kinds, want) {
				t.Errorf("%s: told %v, want %v", what, kinds, want)
			}
		}
		first := hold(t, b, 1)
		told.take()
		leave := make(chan struct{})
		b.ExecuteAsync(t.Context(), until(leave))
		step("one queued", 1)
		ctx, cancel := context.WithCancel(t.Context())
		b.ExecuteAsync(ctx, never(t))
		step("two queued", 2)
		withdrawn := b.ExecuteAsync(t.Context(), never(t))
		step("three queued", 3)
		b.Waiting(time.Minute).ExecuteAsync(t.Context(), never(t))
		step("four queued", 4)
		first.Release()
		step("granted", 3, event.KindPermitted, event.KindReleased)
		withdrawn.Cancel()
		step("withdrawn", 2, event.KindCanceled)
		cancel()
		synctest.Wait() // its context's goroutine
		step("canceled", 1, event.KindCanceled)
		time.Sleep(time.Minute)
		synctest.Wait()
		step("rejected", 0, event.KindRejected)
		close(leave)
	})
}

// With nobody listening, a call that is rejected at once is over on return.
func TestAsyncRejectionIsImmediate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2})
		first := hold(t, b, 2)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		reject := func(ctx context.Context, weight int64, want error) {
			t.Helper()
			h := b.Weighing(weight)
			before := runtime.NumGoroutine()
			f, p := h.ExecuteAsync(ctx, never(t)), h.AcquireAsync(ctx)
			if got := runtime.NumGoroutine(); got > before {
				t.Errorf("%v: %d goroutines were made, want none", want, got-before)
			}
			if !isOver(f) || !isOver(p) || f.Cancel() || p.Cancel() {
				t.Errorf("%v: not over on return", want)
			}
			if _, err := f.Get(done); !errors.Is(err, want) {
				t.Errorf("Get = %v, want %v", err, want)
			}
			if _, err := p.Permit(); !errors.Is(err, want) {
				t.Errorf("Permit = %v, want %v", err, want)
			}
			// With somebody listening it is told first, and Cancel is too late.
			var told recorder
			defer b.Subscribe(told.listener())()
			f, p = h.ExecuteAsync(ctx, never(t)), h.AcquireAsync(ctx)
			if f.Cancel() || p.Cancel() {
				t.Errorf("%v: Cancel = true for a call that is rejected at once", want)
			}
			synctest.Wait()
			if _, err := f.Get(done); !isOver(f) || !errors.Is(err, want) {
				t.Errorf("Get = %v, want %v", err, want)
			}
			if _, err := p.Permit(); !errors.Is(err, want) {
				t.Errorf("Permit = %v, want %v", err, want)
			}
			told.check(t, 2, 2*weight)
		}
		reject(t.Context(), 1, bulkhead.ErrFull)
		reject(t.Context(), 3, bulkhead.ErrTooHeavy)
		reject(done, 1, context.Canceled)
		first.Release()
		reject(done, 1, context.Canceled)
		b.Close()
		reject(t.Context(), 2, bulkhead.ErrClosed)
		checkAtRest(t, b)
	})
}

// By the real clock, on which everything takes some time: a call that finds the
// queue full has not waited, and gets the ready-made error.
func TestAsyncQueueFullHasNotWaited(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever, MaxQueue: 1,
	})
	first := hold(t, b, 1)
	queued := b.ExecuteAsync(t.Context(), answer)
	want := bulkhead.RejectedError{
		Name: "db", Reason: event.QueueFull, MaxConcurrent: 1, MaxWait: bulkhead.Forever, Weight: 1,
	}
	for range 100 {
		f := b.ExecuteAsync(t.Context(), never(t))
		if f.Cancel() {
			t.Error("Cancel = true for a call that is refused")
		}
		if _, err := f.Get(t.Context()); err != want {
			t.Fatalf("ExecuteAsync: %v, want %v", err, want)
		}
		if _, err := b.AcquireAsync(t.Context()).Wait(t.Context()); err != want {
			t.Fatalf("AcquireAsync: %v, want %v", err, want)
		}
	}
	first.Release()
	if _, err := queued.Get(t.Context()); err != nil {
		t.Error(err)
	}
	checkAtRest(t, b)
}

// A bulkhead may be shared by one testing/synctest bubble after the other, with
// clocks that each start anew.
func TestAsyncBulkheadSharedByTwoBubbles(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name: "db", MaxConcurrent: 1, MaxWait: time.Second, Listener: told.listener(),
	})
	for range 3 {
		synctest.Test(t, func(t *testing.T) {
			first := hold(t, b, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f, p := b.ExecuteAsync(ctx, answer), b.AcquireAsync(ctx)
			expires := b.ExecuteAsync(ctx, never(t))
			time.Sleep(time.Second / 2)
			first.Release()
			if got, err := f.Get(t.Context()); got != 42 || err != nil {
				t.Errorf("Get = %v, %v, want 42, nil", got, err)
			}
			permit, err := p.Wait(t.Context())
			if err != nil {
				t.Error(err)
			}
			_, err = expires.Get(t.Context())
			if rejected, ok := errors.AsType[bulkhead.RejectedError](err); !ok || rejected.Waited != time.Second {
				t.Errorf("%v, want rejected after 1s", err)
			}
			permit.Release()
			synctest.Wait()
			for _, e := range told.take() {
				if e.Kind == event.KindPermitted && e.Waited != 0 && e.Waited != time.Second/2 || e.Elapsed < 0 || e.Elapsed > time.Second {
					t.Errorf("told %+v, which waited or lasted too long", e)
				}
			}
			checkAtRest(t, b)
			told.take()
		})
	}
}

func TestMisusedAsyncCall(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, Listener: told.listener()})
	for _, async := range asyncs {
		for _, tt := range []struct {
			h    bulkhead.Any
			fn   func(context.Context) (int, error)
			want string
		}{
			{b, nil, `bulkhead "db": function is nil`},
			{b.Weighing(0), nil, `bulkhead "db": function is nil`},
			{b.Weighing(0), never(t), `bulkhead "db": weight is 0, want at least 1`},
			{b.Waiting(-1), never(t), `bulkhead "db": wait is -1ns, must not be negative`},
		} {
			f := async.start(t.Context(), tt.h, tt.fn)
			if !isOver(f) || f.Cancel() {
				t.Errorf("%s: not over on return", async.name)
			}
			if _, err := f.Get(t.Context()); err == nil || err.Error() != tt.want {
				t.Errorf("%s: error %v, want %s", async.name, err, tt.want)
			}
		}
		if got := watch(func() { async.start(nil, b, never(t)) }); got.panicked == nil {
			t.Errorf("%s with a nil context ended with %+v, want a panic", async.name, got)
		}
	}
	told.check(t, 0, 0)
	checkAtRest(t, b)
}
