package bulkhead_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// wherePanics returns a function that panics before it could block.
func wherePanics(v any) func(context.Context) (int, error) {
	return func(context.Context) (int, error) { panic(v) }
}

// TestEveryGetSeesTheOutcome has a function end in each way, and three Gets
// arrive before the function starts, while it runs, and when it is over.
func TestEveryGetSeesTheOutcome(t *testing.T) {
	value := new(int)
	tests := []struct {
		name string
		end  func() (int, error)
		want func(t *testing.T, who string, got int, err error, panicked any)
		told event.Record
	}{
		{
			name: "value",
			end:  func() (int, error) { return 42, nil },
			want: func(t *testing.T, who string, got int, err error, panicked any) {
				if got != 42 || err != nil || panicked != nil {
					t.Errorf("%s: %v, %v, panic %v; want 42, nil", who, got, err, panicked)
				}
			},
			told: event.Record{Outcome: event.OK},
		},
		{
			name: "value and error",
			end:  func() (int, error) { return 7, errBoom },
			want: func(t *testing.T, who string, got int, err error, panicked any) {
				if got != 7 || err != errBoom || panicked != nil {
					t.Errorf("%s: %v, %v, panic %v; want 7 and the very error", who, got, err, panicked)
				}
			},
			told: event.Record{Outcome: event.Failed, Err: errBoom},
		},
		{
			name: "panic",
			end:  func() (int, error) { return wherePanics(value)(context.Background()) },
			want: func(t *testing.T, who string, got int, err error, panicked any) {
				e, _ := panicked.(*bulkhead.PanicError)
				if e == nil || e.Value != value || !strings.Contains(string(e.Stack), "wherePanics") {
					t.Errorf("%s: %v, %v, panic %v; want the very value and its stack", who, got, err, panicked)
				}
			},
			told: event.Record{Outcome: event.Panicked},
		},
		{
			name: "goexit",
			end:  func() (int, error) { runtime.Goexit(); return 42, nil },
			want: func(t *testing.T, who string, got int, err error, panicked any) {
				if got != 0 || err != bulkhead.ErrGoexit || panicked != nil {
					t.Errorf("%s: %v, %v, panic %v; want ErrGoexit", who, got, err, panicked)
				}
			},
			told: event.Record{Outcome: event.Panicked},
		},
	}
	for _, tt := range tests {
		for _, full := range []bool{false, true} {
			for _, arrival := range []string{"before", "during", "after"} {
				name := tt.name + "/" + map[bool]string{false: "free", true: "queued"}[full] + "/" + arrival
				t.Run(name, func(t *testing.T) {
					cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
					bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
						var first *bulkhead.Permit
						if full {
							first = hold(t, b, 1)
						}
						leave := make(chan struct{})
						f := b.ExecuteAsync(t.Context(), func(context.Context) (int, error) { <-leave; return tt.end() })
						var gets sync.WaitGroup
						get := func(when string) {
							if when != arrival {
								return
							}
							for range 3 {
								gets.Go(func() {
									var got int
									var err error
									e := watch(func() { got, err = f.Get(t.Context()) })
									tt.want(t, "Get", got, err, e.panicked)
								})
							}
							synctest.Wait()
						}
						get("before")
						first.Release()
						synctest.Wait()
						get("during")
						told.take()
						time.Sleep(time.Second)
						close(leave)
						synctest.Wait()
						if !isOver(f) || b.Stats().Active != 0 {
							t.Errorf("not over, or the permit is not back: %+v", b.Stats())
						}
						get("after")
						gets.Wait()

						// It stays so, and a done context does not matter.
						done, cancel := context.WithCancel(t.Context())
						cancel()
						var got int
						var err error
						e := watch(func() { got, err = f.Get(done) })
						tt.want(t, "a late Get", got, err, e.panicked)

						want := tt.told
						want.Kind, want.Name, want.Weight, want.Time, want.Elapsed = event.KindFinished, "db", 1, time.Now(), time.Second
						if got := told.take(); len(got) != 1 || got[0] != want {
							t.Errorf("told %+v, want only %+v", got, want)
						}
					})
				})
			}
		}
	}
}

func TestPanicErrorSaysWhatAndWhere(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	for _, tt := range []struct {
		value any
		is    error
		text  string
	}{
		{"boom", nil, "bulkhead: panic in asynchronous call: boom\n"},
		{io.ErrUnexpectedEOF, io.ErrUnexpectedEOF, "bulkhead: panic in asynchronous call: unexpected EOF\n"},
		{nil, nil, "bulkhead: panic in asynchronous call: panic called with nil argument"},
	} {
		f := b.ExecuteAsync(t.Context(), wherePanics(tt.value))
		err, _ := watch(func() { f.Get(t.Context()) }).panicked.(error)
		if err == nil || !strings.HasPrefix(err.Error(), tt.text) || !strings.Contains(err.Error(), "wherePanics") {
			t.Errorf("panic(%v): %v, want the value and the stack", tt.value, err)
		}
		if tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("panic(%v) does not match the value", tt.value)
		}
	}
	checkAtRest(t, b)
}

func TestGetGivesUp(t *testing.T) {
	// https://github.com/Netflix/Hystrix/issues/1867
	// https://github.com/resilience4j/resilience4j/pull/729
	bubble(t, bulkhead.Config{MaxConcurrent: 1}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		start := time.Now()
		f := b.ExecuteAsync(t.Context(), func(context.Context) (int, error) {
			time.Sleep(200 * time.Millisecond)
			return 42, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if got, err := f.Get(ctx); got != 0 || err != context.DeadlineExceeded || time.Since(start) != 10*time.Millisecond {
			t.Errorf("Get = %v, %v after %v; want 0 and the very error after 10ms", got, err, time.Since(start))
		}
		for time.Since(start) < 190*time.Millisecond {
			if f.Cancel() {
				t.Error("Cancel = true while the function runs")
			}
			if p, ok := b.TryAcquire(); ok || b.Stats().Active != 1 {
				t.Errorf("the permit is free after %v, while the function runs", time.Since(start))
				p.Release()
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got, err := f.Get(t.Context()); got != 42 || err != nil {
			t.Errorf("then Get = %v, %v, want 42, nil", got, err)
		}
		hold(t, b, 1).Release()
	})
}

func TestPermitComesBackAlthoughNobodyWantsTheResult(t *testing.T) {
	// https://github.com/resilience4j/resilience4j/issues/332
	// https://github.com/resilience4j/resilience4j/issues/543
	for _, fn := range []func(context.Context) (int, error){
		answer,
		func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() },
		func(ctx context.Context) (int, error) { <-ctx.Done(); return 42, nil },
		wherePanics("boom"),
		func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
	} {
		bubble(t, bulkhead.Config{MaxConcurrent: 1}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			b.ExecuteAsync(ctx, fn)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			hold(t, b, 1).Release()
		})
	}
}

func TestDoneIsOneChannel(t *testing.T) {
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		leave := make(chan struct{})
		running := b.ExecuteAsync(t.Context(), until(leave))
		queued := b.ExecuteAsync(t.Context(), answer)
		before := []<-chan struct{}{running.Done(), queued.Done()}
		synctest.Wait()
		if isOver(running) || isOver(queued) {
			t.Error("Done is closed before the call is over")
		}
		close(leave)
		synctest.Wait()
		if !isOver(running) || !isOver(queued) {
			t.Error("Done is open although the call is over")
		}
		if after := []<-chan struct{}{running.Done(), queued.Done()}; !slices.Equal(before, after) {
			t.Error("Done has changed")
		}
	})
}

// Cancel takes a call out of the queue: those behind it go, if they fit now.
func TestCancelInTheQueue(t *testing.T) {
	cfg := bulkhead.Config{MaxConcurrent: 2, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		first := hold(t, b, 1)
		heavy := b.Weighing(2).ExecuteAsync(t.Context(), never(t))
		leave := make(chan struct{})
		light := b.ExecuteAsync(t.Context(), until(leave))
		told.take()
		time.Sleep(time.Second)
		if !heavy.Cancel() {
			t.Error("Cancel = false for a call that waits")
		}
		if s := b.Stats(); s.Waiting != 0 || s.Active != 2 {
			t.Errorf("on return of Cancel, Stats = %+v, want the light call in", s)
		}
		if heavy.Cancel() {
			t.Error("Cancel again = true, want false")
		}
		for range 2 {
			got, err := heavy.Get(t.Context())
			c, ok := err.(*bulkhead.CanceledError)
			if got != 0 || !ok || c.Name != "db" || c.Waited != time.Second || c.Err != context.Canceled {
				t.Errorf("Get = %v, %#v, want canceled after 1s", got, err)
			}
			if !errors.Is(err, context.Canceled) || errors.Is(err, bulkhead.ErrFull) {
				t.Errorf("%q must match Canceled, and not ErrFull", err)
			}
		}
		synctest.Wait()
		for _, e := range told.take() {
			switch e.Kind {
			case event.KindCanceled:
				if e.Weight != 2 || e.Waited != time.Second || e.Err != context.Canceled {
					t.Errorf("told %+v, want weight 2 canceled after 1s", e)
				}
			case event.KindPermitted:
				if e.Weight != 1 {
					t.Errorf("told %+v of the canceled call", e)
				}
			default:
				t.Errorf("told %+v", e)
			}
		}
		close(leave)
		if _, err := light.Get(t.Context()); err != nil {
			t.Error(err)
		}
		first.Release()
	})
}

// Granted, and its goroutine has not begun: Cancel, or the end of the context,
// keeps the function from running. With one processor that goroutine has no
// chance before.
func TestCallEndedBetweenGrantAndStart(t *testing.T) {
	oneProc(t)
	for _, how := range []string{"Cancel", "context"} {
		for _, full := range []bool{false, true} {
			for _, listening := range []bool{false, true} {
				name := how + "/" + map[bool]string{false: "free", true: "queued"}[full] +
					"/" + map[bool]string{false: "nobody listens", true: "somebody listens"}[listening]
				t.Run(name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var told recorder
						b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, MaxWait: bulkhead.Forever})
						if listening {
							b.Subscribe(told.listener())
						}
						canceled := 0
						for range 100 {
							errCause := errors.New("client gone")
							ctx, cancel := context.WithCancelCause(t.Context())
							var first *bulkhead.Permit
							if full {
								first = hold(t, b, 2)
							}
							ran := false
							f := b.Weighing(2).ExecuteAsync(ctx, func(context.Context) (int, error) { ran = true; return 42, nil })
							first.Release()
							if how == "context" {
								cancel(errCause)
							} else if f.Cancel() && (b.Stats().Active != 0 || b.Stats().Available != 2) {
								t.Fatalf("on return of Cancel, Stats = %+v, want the permits back", b.Stats())
							}
							got, err := f.Get(t.Context())
							cancel(nil)
							if !ran {
								canceled++
								var c *bulkhead.CanceledError
								if got != 0 || !errors.As(err, &c) || !errors.Is(err, context.Canceled) || errors.Is(err, errCause) != (how == "context") {
									t.Fatalf("Get = %v, %v, want canceled", got, err)
								}
							} else if got != 42 || err != nil {
								t.Fatalf("Get = %v, %v, want 42, nil", got, err)
							}
							if listening {
								calls, weight := int64(1), int64(2)
								if full {
									calls, weight = 2, 4
								}
								got := told.check(t, calls, weight).calls
								if (got[event.KindCanceled] == 1) == ran {
									t.Fatalf("the function ran: %v, told %v", ran, got)
								}
							}
						}
						if canceled == 0 {
							t.Error("none of 100 was ended in between: the test does not reach that")
						}
						checkAtRest(t, b)
					})
				})
			}
		}
	}
}

// A context that is done by the time the call's goroutine looks at it, seen
// from there alone.
type doneElsewhere struct {
	context.Context
	caller string
}

func (c doneElsewhere) Err() error {
	if goroutine() == c.caller {
		return nil
	}
	return context.Canceled
}

func TestCallWhoseContextIsDoneWhenItsTurnComes(t *testing.T) {
	cfg := bulkhead.Config{MaxConcurrent: 2, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		ctx := doneElsewhere{context.Background(), goroutine()}
		f := b.Weighing(2).ExecuteAsync(ctx, never(t)) // starts at once
		queued := b.ExecuteAsync(ctx, never(t))
		next := b.ExecuteAsync(t.Context(), answer)
		for _, f := range []*bulkhead.Future[int]{f, queued} {
			_, err := f.Get(t.Context())
			if c, ok := err.(*bulkhead.CanceledError); !ok || c.Err != context.Canceled {
				t.Errorf("Get = %v, want canceled", err)
			}
		}
		if got, err := next.Get(t.Context()); got != 42 || err != nil {
			t.Errorf("the next call: %v, %v, want 42, nil", got, err)
		}
		synctest.Wait()
		got := told.check(t, 3, 4).calls
		if got[event.KindCanceled] != 2 || got[event.KindPermitted] != 1 {
			t.Errorf("told %v, want two canceled and one permitted", got)
		}
	})
}

// A context whose methods panic when the call's turn comes ends that call, and
// no permit is lost.
func TestCallWhoseContextPanicsWhenItsTurnComes(t *testing.T) {
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		told.take()
		f := b.ExecuteAsync(panicsElsewhere{context.Background(), goroutine()}, never(t))
		got := watch(func() { f.Get(t.Context()) })
		if e, ok := got.panicked.(*bulkhead.PanicError); !ok || e.Value != "context" {
			t.Errorf("Get ended with %+v, want the context's panic", got)
		}
		if s := b.Stats(); s.Active != 0 {
			t.Errorf("Stats = %+v, want the permit back", s)
		}
	})
}

type panicsElsewhere struct {
	context.Context
	caller string
}

func (c panicsElsewhere) Err() error {
	if goroutine() != c.caller {
		panic("context")
	}
	return nil
}

func TestCancelAfterTheStartChangesNothing(t *testing.T) {
	// https://github.com/resilience4j/resilience4j/pull/729
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}
	for _, full := range []bool{false, true} {
		bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
			var first *bulkhead.Permit
			if full {
				first = hold(t, b, 1)
			}
			leave := make(chan struct{})
			f := b.ExecuteAsync(t.Context(), func(ctx context.Context) (int, error) { <-leave; return 42, ctx.Err() })
			first.Release()
			synctest.Wait()
			told.take()
			for range 3 {
				if f.Cancel() {
					t.Error("Cancel = true while the function runs")
				}
				synctest.Wait()
				if s := b.Stats(); isOver(f) || s.Active != 1 {
					t.Errorf("after Cancel, over: %v, Stats = %+v; want it running", isOver(f), s)
				}
			}
			close(leave)
			if got, err := f.Get(t.Context()); got != 42 || err != nil {
				t.Errorf("Get = %v, %v, want 42, nil", got, err)
			}
			if f.Cancel() {
				t.Error("Cancel = true when the call is over")
			}
			if got := told.take(); len(got) != 1 || got[0].Kind != event.KindFinished {
				t.Errorf("told %+v, want only finished", got)
			}
		})
	}
}

// Cancel meets the grant: either the function runs or Cancel says that it does
// not, and never both.
func TestCancelRacesTheGrant(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever, Listener: told.listener()})
	const rounds = 1000
	for range rounds {
		first := hold(t, b, 1)
		var ran atomic.Bool
		f := b.ExecuteAsync(t.Context(), func(context.Context) (int, error) { ran.Store(true); return 42, nil })
		var canceled [3]bool
		var both sync.WaitGroup
		both.Go(first.Release)
		for i := range canceled {
			both.Go(func() { canceled[i] = f.Cancel() })
		}
		both.Wait()
		got, err := f.Get(t.Context())
		successes := 0
		for _, ok := range canceled {
			if ok {
				successes++
			}
		}
		switch {
		case successes > 1:
			t.Fatalf("%d of several Cancels say that they did it", successes)
		case ran.Load() == (successes == 1):
			t.Fatalf("the function ran: %v, canceled: %v", ran.Load(), canceled)
		case ran.Load() && (got != 42 || err != nil), !ran.Load() && !errors.Is(err, context.Canceled):
			t.Fatalf("the function ran: %v, Get = %v, %v", ran.Load(), got, err)
		}
	}
	told.check(t, 2*rounds, 2*rounds)
	checkAtRest(t, b)
}

// Listeners of an asynchronous call run on its own goroutine, and those of one
// that never gets one run on one of theirs, not on the caller's.
func TestListenersOfAsyncCallsRunOnTheirGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		told := map[event.Kind]string{}
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever,
			Listener: event.All(func(_ context.Context, e event.Record) {
				mu.Lock()
				defer mu.Unlock()
				told[e.Kind] = goroutine()
			}),
		})
		take := func() map[event.Kind]string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			defer func() { told = map[event.Kind]string{} }()
			return told
		}
		own := ""
		fn := func(ctx context.Context) (int, error) { own = goroutine(); return 0, ctx.Err() }

		b.ExecuteAsync(t.Context(), fn)
		got := take()
		if own == goroutine() || got[event.KindPermitted] != own || got[event.KindFinished] != own {
			t.Errorf("told on %v, want the function's %s", got, own)
		}
		ctx, cancel := context.WithCancel(t.Context())
		f := b.ExecuteAsync(ctx, func(ctx context.Context) (int, error) { <-ctx.Done(); return fn(ctx) })
		synctest.Wait()
		withdrawn, rejected := b.ExecuteAsync(t.Context(), fn), b.Waiting(0).ExecuteAsync(t.Context(), fn)
		withdrawn.Cancel()
		got = take()
		for _, k := range []event.Kind{event.KindCanceled, event.KindRejected} {
			if got[k] == "" || got[k] == goroutine() {
				t.Errorf("%v was told on %q, want neither the caller's nor nowhere", k, got[k])
			}
		}
		if !isOver(withdrawn) || !isOver(rejected) {
			t.Error("told, and not over")
		}
		cancel()
		if got := take(); got[event.KindReleased] != own || !isOver(f) {
			t.Errorf("told on %v, want the function's %s", got, own)
		}
	})
}

// A listener that blocks holds up the call it is told of, and no other call,
// nor whoever made it, makes room for it or cancels it.
func TestListenerThatBlocksAnAsyncCall(t *testing.T) {
	type bulk = *bulkhead.Bulkhead[int]
	for _, tt := range []struct {
		in   event.Kind
		full bool
		call func(ctx context.Context, b bulk, end func()) *bulkhead.Future[int]
	}{
		{in: event.KindPermitted, call: func(ctx context.Context, b bulk, _ func()) *bulkhead.Future[int] {
			return b.ExecuteAsync(ctx, answer)
		}},
		{in: event.KindFinished, call: func(ctx context.Context, b bulk, _ func()) *bulkhead.Future[int] {
			return b.ExecuteAsync(ctx, answer)
		}},
		{in: event.KindReleased, call: func(ctx context.Context, b bulk, end func()) *bulkhead.Future[int] {
			return b.ExecuteAsync(ctx, func(ctx context.Context) (int, error) { end(); return 0, ctx.Err() })
		}},
		{in: event.KindCanceled, full: true, call: func(ctx context.Context, b bulk, end func()) *bulkhead.Future[int] {
			f := b.ExecuteAsync(ctx, answer)
			end()
			return f
		}},
		{in: event.KindCanceled, full: true, call: func(ctx context.Context, b bulk, _ func()) *bulkhead.Future[int] {
			f := b.ExecuteAsync(ctx, answer)
			f.Cancel()
			return f
		}},
		{in: event.KindRejected, full: true, call: func(ctx context.Context, b bulk, _ func()) *bulkhead.Future[int] {
			return b.Waiting(0).ExecuteAsync(ctx, answer)
		}},
		{in: event.KindRejected, full: true, call: func(ctx context.Context, b bulk, _ func()) *bulkhead.Future[int] {
			return b.Waiting(1).ExecuteAsync(ctx, answer)
		}},
	} {
		t.Run(tt.in.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told recorder
				b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, MaxWait: bulkhead.Forever, Listener: told.listener()})
				calls := int64(0)
				var first *bulkhead.Permit
				if tt.full {
					first = hold(t, b, 2)
					calls++
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				unblock := make(chan struct{})
				unsubscribe := b.Subscribe(event.All(func(ctx context.Context, e event.Record) {
					if e.Kind == tt.in && ctx.Value(blocks{}) != nil {
						<-unblock
					}
				}))
				f := tt.call(context.WithValue(ctx, blocks{}, true), b, cancel)
				time.Sleep(time.Second)
				if isOver(f) {
					t.Error("over before the listener is done")
				}
				active := int64(0)
				if tt.in == event.KindPermitted {
					active = 1 // the call's own
				} else if tt.full {
					active = 2
				}
				if s := b.Stats(); s.Active != active || s.Waiting != 0 {
					t.Errorf("Stats = %+v, want %d active and nobody waiting", s, active)
				}
				next := b.ExecuteAsync(t.Context(), answer)
				first.Release()
				if got, err := next.Get(t.Context()); got != 42 || err != nil {
					t.Errorf("the next call: %v, %v, want 42, nil", got, err)
				}
				short, stop := context.WithTimeout(t.Context(), time.Second)
				defer stop()
				if _, err := f.Get(short); err != context.DeadlineExceeded {
					t.Errorf("Get = %v, want its own context's error", err)
				}
				unsubscribe() // the call's end is still its listener's
				close(unblock)
				synctest.Wait()
				if !isOver(f) {
					t.Error("not over although the listener is done")
				}
				told.check(t, calls+2, 2*calls+2)
				checkAtRest(t, b)
			})
		})
	}
}

type blocks struct{}

// A listener may use the bulkhead, by asynchronous calls as well.
func TestListenerMakesAsyncCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bulkhead.Bulkhead[int]
		var depth atomic.Int64
		kinds := map[event.Kind]bool{}
		var mu sync.Mutex
		b = bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 20, MaxWait: time.Second,
			Listener: event.All(func(ctx context.Context, e event.Record) {
				mu.Lock()
				kinds[e.Kind] = true
				mu.Unlock()
				if depth.Add(1) > 50 {
					return
				}
				b.ExecuteAsync(ctx, answer).Get(context.Background())
				b.ExecuteAsync(ctx, answer).Cancel()
				b.Weighing(21).ExecuteAsync(ctx, answer)
				p, _ := b.AcquireAsync(ctx).Wait(context.Background())
				p.Release()
				b.Subscribe(event.Listener{})()
			}),
		})
		if got, err := b.ExecuteAsync(t.Context(), answer).Get(t.Context()); got != 42 || err != nil {
			t.Errorf("Get = %v, %v, want 42, nil", got, err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, k := range []event.Kind{event.KindPermitted, event.KindFinished, event.KindRejected, event.KindReleased} {
			if !kinds[k] {
				t.Errorf("no call was %v: the test does not reach that", k)
			}
		}
		if s := b.Stats(); s.Active != 0 || s.Waiting != 0 {
			t.Errorf("at rest, Stats = %+v", s)
		}
	})
}

// A listener that unsubscribes when it is told of a call hears of that call's
// end, if it has begun, and of no other.
func TestListenerUnsubscribesInAnAsyncCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
		for _, tt := range []struct {
			call func()
			want []event.Kind
		}{
			{func() { b.ExecuteAsync(t.Context(), answer) }, []event.Kind{event.KindPermitted, event.KindFinished}},
			{func() { b.ExecuteAsync(t.Context(), wherePanics("boom")) }, []event.Kind{event.KindPermitted, event.KindFinished}},
			{func() { b.Weighing(2).ExecuteAsync(t.Context(), answer) }, []event.Kind{event.KindRejected}},
			{func() {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				b.ExecuteAsync(ctx, answer)
			}, []event.Kind{event.KindCanceled}},
			{func() {
				p, _ := b.AcquireAsync(t.Context()).Wait(t.Context())
				p.Release()
			}, []event.Kind{event.KindPermitted, event.KindReleased}},
		} {
			var told recorder
			var unsubscribe func()
			unsubscribe = b.Subscribe(event.Join(told.listener(), event.All(func(context.Context, event.Record) { unsubscribe() })))
			for range 3 {
				tt.call()
				synctest.Wait()
			}
			var kinds []event.Kind
			for _, e := range told.take() {
				kinds = append(kinds, e.Kind)
			}
			if !slices.Equal(kinds, tt.want) {
				t.Errorf("told %v, want %v", kinds, tt.want)
			}
		}
		checkAtRest(t, b)
	})
}

// As far as listeners go, an asynchronous call starts when its turn comes.
func TestSubscriptionReachesAsyncCallsWhoseTurnComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
		var early, running, late recorder
		unsubscribe := b.Subscribe(early.listener())
		first := hold(t, b, 1)
		early.take()
		leave := make(chan struct{})
		b.ExecuteAsync(t.Context(), until(leave))
		withdrawn := b.ExecuteAsync(t.Context(), never(t))
		unsubscribe()
		unsubscribe = b.Subscribe(running.listener())
		first.Release()
		synctest.Wait()
		unsubscribe() // it has begun, so its end is told all the same
		b.Subscribe(late.listener())
		close(leave)
		withdrawn.Cancel()
		synctest.Wait()
		if got := early.take(); len(got) != 1 || got[0].Kind != event.KindReleased {
			t.Errorf("unsubscribed before their turn, told %+v of the calls, want nothing", got)
		}
		if got := running.check(t, 1, 1).calls; got[event.KindFinished] != 1 {
			t.Errorf("subscribed at its turn, told %v of the call, want its end too", got)
		}
		if got := late.check(t, 1, 1).calls; got[event.KindCanceled] != 1 {
			t.Errorf("subscribed before Cancel, told %v, want that call canceled", got)
		}
		checkAtRest(t, b)
	})
}

// A listener's panic in a call that Cancel withdraws is not Cancel's: it comes
// out of every Get.
func TestListenerMisbehavesToACanceledCall(t *testing.T) {
	for _, mis := range misbehaviours {
		t.Run(mis.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var after recorder
				b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
				first := hold(t, b, 1)
				b.Subscribe(event.Listener{Canceled: func(context.Context, event.Canceled) { mis.do() }})
				b.Subscribe(after.listener())
				f := b.ExecuteAsync(t.Context(), never(t))
				if got := watch(func() {
					if !f.Cancel() {
						t.Error("Cancel = false for a call that waits")
					}
				}); got != (ended{}) {
					t.Errorf("Cancel ended with %+v", got)
				}
				for range 2 {
					var err error
					got := watch(func() { _, err = f.Get(t.Context()) })
					e, _ := got.panicked.(*bulkhead.PanicError)
					switch {
					case mis.name == "panics" && (e == nil || e.Value != "listener"),
						mis.name == "goexit" && (got != ended{} || err != bulkhead.ErrGoexit):
						t.Errorf("Get = %v, ended with %+v", err, got)
					}
				}
				if got := after.check(t, 1, 1).calls; got[event.KindCanceled] != 1 {
					t.Errorf("the other listener was told %v, want canceled", got)
				}
				first.Release()
				checkAtRest(t, b)
			})
		})
	}
}
