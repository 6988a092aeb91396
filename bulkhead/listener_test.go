package bulkhead_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
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

// TestListenerPanics has a listener panic or call Goexit in each of its
// functions, between two others, while the call ends in each way there is.
func TestListenerPanics(t *testing.T) {
	const limit = 3
	panics := func(s string) func(context.Context) error {
		return func(context.Context) error { panic(s) }
	}
	untilDone := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	canceled := func(t *testing.T) context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return ctx
	}
	canceledLater := func(t *testing.T) context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		return ctx
	}
	tests := []struct {
		name string
		in   []event.Kind // the functions in which the listener misbehaves
		full bool
		ctx  func(*testing.T) context.Context // nil means t's
		fn   func(context.Context) error

		ran       bool         // whether fn runs
		told      []event.Kind // what the others are told
		fns       ended        // fn's own panic or Goexit, which then counts
		notPermit bool         // does not apply to the holder of a permit
	}{
		{
			name: "permitted", in: []event.Kind{event.KindPermitted},
			fn:   nop,
			told: []event.Kind{event.KindPermitted, event.KindReleased},
		},
		{
			name: "permitted and released", in: []event.Kind{event.KindPermitted, event.KindReleased},
			fn:   nop,
			told: []event.Kind{event.KindPermitted, event.KindReleased},
		},
		{
			name: "rejected", in: []event.Kind{event.KindRejected},
			full: true, fn: nop,
			told: []event.Kind{event.KindRejected},
		},
		{
			name: "canceled", in: []event.Kind{event.KindCanceled},
			ctx: canceled, fn: nop,
			told: []event.Kind{event.KindCanceled},
		},
		{
			name: "finished", in: []event.Kind{event.KindFinished},
			fn: nop, ran: true,
			told: []event.Kind{event.KindPermitted, event.KindFinished},
		},
		{
			name: "finished, failed", in: []event.Kind{event.KindFinished},
			fn: func(context.Context) error { return errBoom }, ran: true,
			told: []event.Kind{event.KindPermitted, event.KindFinished},
		},
		{
			name: "finished, panicked", in: []event.Kind{event.KindFinished},
			fn: panics("fn"), ran: true,
			told: []event.Kind{event.KindPermitted, event.KindFinished},
			fns:  ended{panicked: "fn"}, notPermit: true,
		},
		{
			name: "finished, goexit", in: []event.Kind{event.KindFinished},
			fn: func(context.Context) error { runtime.Goexit(); return nil }, ran: true,
			told: []event.Kind{event.KindPermitted, event.KindFinished},
			fns:  ended{goexit: true}, notPermit: true,
		},
		{
			name: "released", in: []event.Kind{event.KindReleased},
			ctx: canceledLater, fn: untilDone, ran: true,
			told: []event.Kind{event.KindPermitted, event.KindReleased},
		},
	}
	misbehaviours := []struct {
		name string
		do   func(event.Kind)
		want func(first event.Kind) ended
	}{
		{
			"panics",
			func(k event.Kind) { panic(k) },
			func(first event.Kind) ended { return ended{panicked: first} },
		},
		{
			"goexit",
			func(event.Kind) { runtime.Goexit() },
			func(event.Kind) ended { return ended{goexit: true} },
		},
	}
	for _, tt := range tests {
		for _, mis := range misbehaviours {
			for _, entry := range entries {
				if tt.notPermit && entry.name == "Acquire" {
					continue
				}
				t.Run(tt.name+"/"+mis.name+"/"+entry.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var before, after recorder
						b := bulkhead.MustNew[int](bulkhead.Config{
							Name:          "db",
							MaxConcurrent: limit,
							Listener:      before.listener(),
						})
						var holder *bulkhead.Permit
						if tt.full {
							holder = hold(t, b, limit)
							before.take()
						}
						b.Subscribe(event.All(func(_ context.Context, e event.Record) {
							if e.Kind != event.KindPermitted && !tt.full && b.Stats().Active != 0 {
								t.Errorf("%v is told with %d permits in flight, want 0", e.Kind, b.Stats().Active)
							}
							for _, k := range tt.in {
								if e.Kind == k {
									mis.do(k)
								}
							}
						}))
						unsubscribe := b.Subscribe(after.listener())

						ctx := t.Context()
						if tt.ctx != nil {
							ctx = tt.ctx(t)
						}
						ran := false
						got := watch(func() {
							entry.call(ctx, b, func(ctx context.Context) error { ran = true; return tt.fn(ctx) })
						})

						want := mis.want(tt.in[0])
						if (tt.fns != ended{}) {
							want = tt.fns
						}
						if got != want {
							t.Errorf("ended with %+v, want %+v", got, want)
						}
						if ran != tt.ran {
							t.Errorf("function ran: %v, want %v", ran, tt.ran)
						}
						for name, r := range map[string]*recorder{"before": &before, "after": &after} {
							var told []event.Kind
							r.mu.Lock()
							for _, e := range r.records {
								told = append(told, e.Kind)
							}
							r.mu.Unlock()
							if !slices.Equal(told, tt.told) {
								t.Errorf("the listener %s it was told %v, want %v", name, told, tt.told)
							}
							r.check(t, 1, 1)
						}
						unsubscribe()
						holder.Release()
						watch(func() { checkAtRest(t, b) }) // the listener still misbehaves
						if s := b.Stats(); s.Active != 0 || s.Available != limit {
							t.Errorf("in the end, Stats = %+v, want all permits back", s)
						}
					})
				})
			}
		}
	}
}

func TestListenerPanicInLimitChanged(t *testing.T) {
	var after recorder
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name:          "db",
		MaxConcurrent: 1,
		Listener: event.Listener{
			LimitChanged: func(context.Context, event.LimitChanged) { panic("listener") },
		},
	})
	b.Subscribe(after.listener())
	if got := watch(func() { b.SetMaxConcurrent(4) }); got.panicked != "listener" {
		t.Errorf("SetMaxConcurrent ended with %+v, want the listener's panic", got)
	}
	if got := after.take(); len(got) != 1 || got[0].From != 1 || got[0].To != 4 {
		t.Errorf("the other listener was told %+v, want the change from 1 to 4", got)
	}
	if got := watch(func() { b.SetMaxConcurrent(5) }); got.panicked != "listener" {
		t.Errorf("the next SetMaxConcurrent ended with %+v, want the listener's panic", got)
	}
	if got := b.Stats().MaxConcurrent; got != 5 {
		t.Errorf("limit %d, want 5", got)
	}
	checkAtRest(t, b)
}

// A Clock is the caller's code, too.
func TestClockThatPanics(t *testing.T) {
	bad := false
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name:          "db",
		MaxConcurrent: 1,
		Listener:      told.listener(),
		Clock: func() time.Time {
			if bad {
				panic("clock")
			}
			return time.Time{}
		},
	})
	bad = true
	got := watch(func() {
		b.Execute(t.Context(), func(context.Context) (int, error) {
			t.Error("the function ran although Permitted could not be told")
			return 0, nil
		})
	})
	if got.panicked != "clock" {
		t.Errorf("ended with %+v, want the clock's panic", got)
	}
	bad = false
	got = watch(func() {
		b.Execute(t.Context(), func(context.Context) (int, error) { bad = true; panic("fn") })
	})
	if got.panicked != "fn" {
		t.Errorf("ended with %+v, want the function's panic", got)
	}
	bad = false
	checkAtRest(t, b)
}

func TestPermitsAreBackBeforeTheEndIsTold(t *testing.T) {
	for _, fn := range []func(context.Context) (int, error){
		answer,
		func(context.Context) (int, error) { return 0, errBoom },
		func(context.Context) (int, error) { panic("boom") },
		func(context.Context) (int, error) { runtime.Goexit(); return 0, nil },
	} {
		var b *bulkhead.Bulkhead[int]
		told := 0
		b = bulkhead.MustNew[int](bulkhead.Config{
			Name:          "db",
			MaxConcurrent: 1,
			Listener: event.Listener{
				Permitted: func(_ context.Context, e event.Permitted) {
					if e.Active != 1 {
						t.Errorf("Permitted.Active = %d, want 1", e.Active)
					}
				},
				Finished: func(_ context.Context, e event.Finished) {
					if e.Active != 0 {
						t.Errorf("Finished.Active = %d, want 0", e.Active)
					}
					if told++; told == 1 {
						// It may call back, too.
						if _, err := b.Execute(context.Background(), answer); err != nil {
							t.Errorf("Execute in a listener: %v, want nil", err)
						}
					}
				},
			},
		})
		watch(func() { b.Execute(t.Context(), fn) })
		if told != 2 {
			t.Errorf("Finished was told %d times, want 2", told)
		}
		checkAtRest(t, b)
	}
}

func TestActiveIsWhatIsInFlight(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 10, Listener: told.listener()})
	p := hold(t, b, 1)
	b.Weighing(2).Run(t.Context(), func(context.Context) error {
		q := hold(t, b, 4)
		q.Release()
		return nil
	})
	p.Release()
	var got []int64
	for _, e := range told.take() {
		got = append(got, e.Active)
	}
	if want := []int64{1, 3, 7, 3, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("Active of the events: %v, want %v", got, want)
	}
	checkAtRest(t, b)
}

func TestListenersRunOnTheCallersGoroutine(t *testing.T) {
	var mu sync.Mutex
	told := map[event.Kind]string{}
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name:          "db",
		MaxConcurrent: 1,
		Listener: event.All(func(_ context.Context, e event.Record) {
			mu.Lock()
			defer mu.Unlock()
			told[e.Kind] = goroutine()
		}),
	})
	done, cancel := context.WithCancel(t.Context())
	cancel()
	b.Run(t.Context(), func(context.Context) error {
		b.Run(t.Context(), nop)
		b.Run(done, nop)
		return nil
	})
	b.Run(done, nop)
	p, _ := b.TryAcquire()
	p.Release()
	b.SetMaxConcurrent(2)
	for _, k := range []event.Kind{
		event.KindPermitted, event.KindRejected, event.KindCanceled,
		event.KindFinished, event.KindReleased, event.KindLimitChanged,
	} {
		if told[k] != goroutine() {
			t.Errorf("%v was told on %q, want the caller's %q", k, told[k], goroutine())
		}
	}
}

// goroutine names the running goroutine.
func goroutine() string {
	buf := make([]byte, 64)
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), " [")
	return name
}

func TestListenerCallsBack(t *testing.T) {
	var b *bulkhead.Bulkhead[int]
	var late recorder
	depth, limit := 0, int64(10)
	b = bulkhead.MustNew[int](bulkhead.Config{
		Name:          "db",
		MaxConcurrent: limit,
		Listener: event.All(func(ctx context.Context, e event.Record) {
			if depth++; depth > 4 {
				return
			}
			b.Stats()
			b.Config()
			b.SetMaxWait(time.Duration(depth))
			limit++
			b.SetMaxConcurrent(limit)
			defer b.Subscribe(late.listener())()
			b.Run(ctx, nop)
			p, _ := b.TryAcquire()
			p.Complete(nil)
		}),
	})
	if err := b.Run(t.Context(), nop); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if depth <= 4 || len(late.take()) == 0 {
		t.Errorf("%d events, want calls back from within a listener", depth)
	}
	checkAtRest(t, b)
}

func TestSubscriptionReachesCallsThatStartLater(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2})
	var early, late recorder
	unsubscribeEarly := b.Subscribe(early.listener())
	var unsubscribeLate func()
	b.Run(t.Context(), func(context.Context) error {
		// The outer call is early's until its end, and never late's.
		unsubscribeEarly()
		unsubscribeLate = b.Subscribe(late.listener())
		return b.Run(t.Context(), nop)
	})
	early.check(t, 1, 1)
	late.check(t, 1, 1)

	unsubscribeLate()
	unsubscribeLate()
	b.Run(t.Context(), nop)
	if got := append(early.take(), late.take()...); len(got) != 0 {
		t.Errorf("after unsubscribing, told %+v, want nothing", got)
	}
}

func TestUnsubscribingLeavesTheOthers(t *testing.T) {
	var a, b1, b2, c recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, Listener: a.listener()})
	same := b1.listener()
	unsubscribe := b.Subscribe(same)
	b.Subscribe(same) // a listener subscribed twice is told twice
	b.Subscribe(c.listener())
	b.Subscribe(event.Listener{})
	unsubscribe()
	unsubscribe()
	b.Run(t.Context(), nop)
	for name, r := range map[string]*recorder{"config's": &a, "the second of two alike": &b1, "last": &c} {
		if got := r.check(t, 1, 1).calls[event.KindFinished]; got != 1 {
			t.Errorf("%s listener was told %d calls, want 1", name, got)
		}
	}
	if got := b2.take(); len(got) != 0 {
		t.Errorf("never subscribed, told %v", got)
	}
}

func TestListenerUnsubscribesItself(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	var unsubscribe func()
	told := 0
	unsubscribe = b.Subscribe(event.Listener{
		Finished: func(context.Context, event.Finished) { told++; unsubscribe() },
	})
	for range 3 {
		b.Run(t.Context(), nop)
	}
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
}

// TestEachFunctionAlone sets one function of the listener at a time: the others
// are not to be called, nor missed.
func TestEachFunctionAlone(t *testing.T) {
	got := map[event.Kind]int{}
	count := func(k event.Kind) { got[k]++ }
	listeners := map[event.Kind]event.Listener{
		event.KindPermitted:    {Permitted: func(context.Context, event.Permitted) { count(event.KindPermitted) }},
		event.KindRejected:     {Rejected: func(context.Context, event.Rejected) { count(event.KindRejected) }},
		event.KindCanceled:     {Canceled: func(context.Context, event.Canceled) { count(event.KindCanceled) }},
		event.KindFinished:     {Finished: func(context.Context, event.Finished) { count(event.KindFinished) }},
		event.KindReleased:     {Released: func(context.Context, event.Released) { count(event.KindReleased) }},
		event.KindLimitChanged: {LimitChanged: func(context.Context, event.LimitChanged) { count(event.KindLimitChanged) }},
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for kind, l := range listeners {
		clear(got)
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, Listener: l})
		b.Run(t.Context(), func(context.Context) error {
			b.Run(t.Context(), nop) // rejected
			return nil
		})
		b.Run(done, nop)
		watch(func() { b.Run(t.Context(), func(context.Context) error { panic("boom") }) })
		p, _ := b.TryAcquire()
		p.Release()
		b.SetMaxConcurrent(2)
		want := map[event.Kind]int{
			event.KindPermitted: 3, event.KindRejected: 1, event.KindCanceled: 1,
			event.KindFinished: 2, event.KindReleased: 1, event.KindLimitChanged: 1,
		}[kind]
		if len(got) != 1 || got[kind] != want {
			t.Errorf("only %v is set, told %v, want %d of it", kind, got, want)
		}
		checkAtRest(t, b)
	}
}

func TestListenerGetsTheCallersContext(t *testing.T) {
	type key struct{}
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name:          "db",
		MaxConcurrent: 1,
		Listener: event.All(func(ctx context.Context, e event.Record) {
			want := any("caller")
			if e.Kind == event.KindLimitChanged {
				want = nil
			}
			if got := ctx.Value(key{}); got != want {
				t.Errorf("%v is told with %v in its context, want %v", e.Kind, got, want)
			}
		}),
	})
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "caller"))
	b.Run(ctx, func(ctx context.Context) error { return b.Run(ctx, nop) }) // finished, rejected
	p, _ := b.Acquire(ctx)
	p.Release()
	p, _ = b.Acquire(ctx)
	p.Complete(nil)
	cancel()
	b.Run(ctx, nop)
	b.SetMaxConcurrent(2)
}

// With nobody listening, Clock is not called, whatever becomes of the calls;
// and with somebody, it is what stamps events and nothing else.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		stamp := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name:          "db",
			MaxConcurrent: 1,
			MaxWait:       time.Minute,
			MaxQueue:      1,
			Clock:         func() time.Time { calls.Add(1); return stamp },
		})
		everything := func() {
			done, cancel := context.WithCancel(t.Context())
			cancel()
			b.Run(t.Context(), nop)
			b.Run(t.Context(), func(context.Context) error { return errBoom })
			b.Run(done, nop)
			watch(func() { b.Run(t.Context(), func(context.Context) error { panic("boom") }) })
			b.Weighing(2).Run(t.Context(), nop) // too heavy
			p := hold(t, b, 1)
			b.TryAcquire()
			b.Waiting(0).Run(t.Context(), nop) // full
			go b.Run(t.Context(), nop)         // times out
			synctest.Wait()
			b.Run(t.Context(), nop) // queue full
			time.Sleep(time.Minute)
			synctest.Wait()
			short, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			b.Run(short, nop) // canceled
			time.AfterFunc(time.Second, p.Release)
			b.Run(t.Context(), nop) // waits, and is permitted
			b.SetMaxWait(time.Hour)
			b.SetMaxWait(time.Minute)
			b.SetMaxConcurrent(2)
			b.SetMaxConcurrent(1)
			synctest.Wait()
		}
		everything()
		if n := calls.Load(); n != 0 {
			t.Errorf("with nobody listening, Clock was called %d times, want 0", n)
		}
		var told recorder
		unsubscribe := b.Subscribe(told.listener())
		everything()
		records := told.take()
		if n := calls.Load(); n != int64(len(records)) {
			t.Errorf("Clock was called %d times for %d events, want once for each", n, len(records))
		}
		for _, r := range records {
			if !r.Time.Equal(stamp) {
				t.Errorf("%v has the time %v, want Clock's", r.Kind, r.Time)
			}
			if r.Waited < 0 || r.Waited > time.Minute || r.Elapsed < 0 || r.Elapsed > 2*time.Minute {
				t.Errorf("%v: waited %v, elapsed %v: not by the monotonic clock", r.Kind, r.Waited, r.Elapsed)
			}
		}
		unsubscribe()
		calls.Store(0)
		everything()
		if n := calls.Load(); n != 0 {
			t.Errorf("with nobody listening any more, Clock was called %d times, want 0", n)
		}
		checkAtRest(t, b)
	})
}

func TestEventsAreStampedWhenTheyHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told recorder
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 1, MaxWait: time.Minute, Listener: told.listener(),
		})
		start := time.Now()
		p := hold(t, b, 1)
		time.AfterFunc(time.Second, p.Release)
		b.Run(t.Context(), func(context.Context) error { time.Sleep(time.Second); return nil })
		want := []struct {
			kind event.Kind
			at   time.Duration
		}{
			{event.KindPermitted, 0},
			{event.KindReleased, time.Second},
			{event.KindPermitted, time.Second},
			{event.KindFinished, 2 * time.Second},
		}
		got := told.take()
		if len(got) != len(want) {
			t.Fatalf("told %v, want %v", got, want)
		}
		// Released and the second Permitted are told by two goroutines.
		if got[1].Kind != want[1].kind {
			got[1], got[2] = got[2], got[1]
		}
		for i := range want {
			if at := got[i].Time.Sub(start); got[i].Kind != want[i].kind || at != want[i].at {
				t.Errorf("event %d is %v at %v, want %v at %v", i, got[i].Kind, at, want[i].kind, want[i].at)
			}
		}
	})
}

// TestCrashShowsTheFunctionsStack lets a panic in a function end a process,
// with a listener and without: what it prints must lead to the function, and
// show that nobody recovered the panic on its way.
func TestCrashShowsTheFunctionsStack(t *testing.T) {
	const env = "BULKHEAD_TEST_CRASH"
	if how := os.Getenv(env); how != "" {
		cfg := bulkhead.Config{Name: "db", MaxConcurrent: 1}
		if how == "listener" {
			misbehaves := event.Listener{
				Finished: func(context.Context, event.Finished) { runtime.Goexit() },
			}
			cfg.Listener = event.Join(misbehaves, event.Listener{
				Finished: func(context.Context, event.Finished) { panic("listener") },
			})
		}
		b := bulkhead.MustNew[int](cfg)
		go b.Execute(context.Background(), whereItCrashes)
		select {} // until the panic ends the process
	}
	if testing.Short() {
		t.Skip("runs the test binary twice more")
	}
	for _, how := range []string{"nobody", "listener"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
		cmd.Env = append(os.Environ(), env+"="+how)
		out, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); !errors.As(err, &exit) {
			t.Fatalf("%s: the process ended with %v, want a crash", how, err)
		}
		for _, want := range []string{"panic: crash", "whereItCrashes"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: the crash does not show %q:\n%s", how, want, out)
			}
		}
		if strings.Contains(string(out), "recovered") {
			t.Errorf("%s: the panic was recovered on its way:\n%s", how, out)
		}
	}
}

func whereItCrashes(context.Context) (int, error) { panic("crash") }
