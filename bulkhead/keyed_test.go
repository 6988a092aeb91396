package bulkhead_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// newKeyed returns a Keyed by string that is named tenants and listened to.
func newKeyed(cfg bulkhead.Config, limit func(string) int64) (*bulkhead.Keyed[string, int], *recorder) {
	told := new(recorder)
	cfg.Name = "tenants"
	cfg.Listener = event.Join(cfg.Listener, told.listener())
	return bulkhead.MustNewKeyed[string, int](cfg, limit), told
}

// keyedEntries are the ways to run a function under a Keyed.
var keyedEntries = []struct {
	name string
	call func(context.Context, *bulkhead.Keyed[string, int], string, func(context.Context) error) error
}{
	{"Execute", func(ctx context.Context, k *bulkhead.Keyed[string, int], key string, fn func(context.Context) error) error {
		var run func(context.Context) (int, error)
		if fn != nil {
			run = func(ctx context.Context) (int, error) { return 0, fn(ctx) }
		}
		_, err := k.Execute(ctx, key, run)
		return err
	}},
	{"Run", func(ctx context.Context, k *bulkhead.Keyed[string, int], key string, fn func(context.Context) error) error {
		return k.Run(ctx, key, fn)
	}},
	{"Acquire", func(ctx context.Context, k *bulkhead.Keyed[string, int], key string, fn func(context.Context) error) error {
		p, err := k.Acquire(ctx, key)
		defer p.Panicked() // unless it has ended
		if err == nil {
			err = fn(ctx)
			p.Complete(err)
		}
		return err
	}},
}

// checkNoKeys fails t if anything is left of a key's calls.
func checkNoKeys[K comparable, T any](t *testing.T, k *bulkhead.Keyed[K, T]) {
	t.Helper()
	if n := k.Len(); n != 0 {
		t.Errorf("at rest, %d keys are in use, want none", n)
	}
	if err := k.Drain(context.Background()); err != nil {
		t.Errorf("at rest, Drain = %v, want nil", err)
	}
}

func TestKeyedLimitsEachKeyByItself(t *testing.T) {
	// Permits in use were shared by accident among all keys.
	// https://github.com/Netflix/Hystrix/issues/118
	k, told := newKeyed(bulkhead.Config{MaxConcurrent: 2}, nil)
	ctx := t.Context()
	var held []*bulkhead.Permit
	for _, key := range []string{"a", "a", "b"} {
		p, err := k.Acquire(ctx, key)
		if err != nil {
			t.Errorf("Acquire(%s) below the limit = %v", key, err)
		}
		held = append(held, p)
	}
	if got := k.Len(); got != 2 {
		t.Errorf("%d keys in use, want 2", got)
	}
	for _, entry := range keyedEntries {
		want := bulkhead.RejectedError{Name: "tenants", Reason: event.Full, MaxConcurrent: 2, Weight: 1}
		if err := entry.call(ctx, k, "a", nop); err != error(want) {
			t.Errorf("%s of the key that is full = %v, want %v", entry.name, err, want)
		}
		for _, other := range []string{"b", "c"} {
			if err := entry.call(ctx, k, other, nop); err != nil {
				t.Errorf("%s of another key = %v, want nil", entry.name, err)
			}
		}
	}
	for _, p := range held {
		p.Release()
		p.Release() // the second does nothing, to the key's count either
		p.Complete(nil)
	}
	told.check(t, 12, 12)
	checkNoKeys(t, k)
	if got, err := k.Execute(ctx, "a", answer); got != 42 || err != nil {
		t.Errorf("Execute = %v, %v, want 42, nil", got, err)
	}
}

func TestKeyedAsksForTheLimitOfEachKey(t *testing.T) {
	asked := map[string]int{}
	// MaxConcurrent is not used, and so not looked at.
	k, told := newKeyed(bulkhead.Config{MaxConcurrent: -1}, func(key string) int64 {
		asked[key]++
		return int64(len(key))
	})
	for _, key := range []string{"a", "bbb", "cc", "bbb"} {
		var held []*bulkhead.Permit
		var last error
		for last == nil {
			p, err := k.Acquire(t.Context(), key)
			held, last = append(held, p), err
		}
		rejected, _ := errors.AsType[bulkhead.RejectedError](last)
		if got := len(held) - 1; got != len(key) || rejected.MaxConcurrent != int64(len(key)) {
			t.Errorf("%d permits of %q, then %v; want %d", got, key, last, len(key))
		}
		for _, p := range held {
			p.Release()
		}
	}
	// Once for each time that the key had no calls.
	if asked["a"] != 1 || asked["bbb"] != 2 || asked["cc"] != 1 {
		t.Errorf("asked for the limits %v times, want a once, bbb twice, cc once", asked)
	}
	told.check(t, 13, 13)
	checkNoKeys(t, k)
}

func TestNewKeyedNamesTheBadField(t *testing.T) {
	ten := func(int) int64 { return 10 }
	good := bulkhead.Config{Name: "tenants", MaxConcurrent: 1}
	tests := []struct {
		change func(*bulkhead.Config)
		limit  func(int) int64
		want   string
	}{
		{func(c *bulkhead.Config) { c.Name = "" }, nil, `bulkhead: Config.Name is "", want a name`},
		{func(c *bulkhead.Config) { c.Name = "" }, ten, `bulkhead: Config.Name is "", want a name`},
		{func(c *bulkhead.Config) { c.MaxConcurrent = 0 }, nil, `bulkhead "tenants": Config.MaxConcurrent is 0, want at least 1`},
		{func(c *bulkhead.Config) { c.MaxWait = -1 }, ten, `bulkhead "tenants": Config.MaxWait is -1ns, must not be negative`},
		{func(c *bulkhead.Config) { c.MaxQueue = -1 }, ten, `bulkhead "tenants": Config.MaxQueue is -1, must not be negative`},
	}
	for _, tt := range tests {
		cfg := good
		tt.change(&cfg)
		if k, err := bulkhead.NewKeyed[int, int](cfg, tt.limit); k != nil || err == nil || err.Error() != tt.want {
			t.Errorf("NewKeyed(%+v) = %v, %v, want %s", cfg, k, err, tt.want)
		}
		got := watch(func() { bulkhead.MustNewKeyed[int, int](cfg, tt.limit) })
		if err, ok := got.panicked.(error); !ok || err.Error() != tt.want {
			t.Errorf("MustNewKeyed(%+v) ended with %+v, want a panic with %s", cfg, got, tt.want)
		}
	}
}

func TestKeyedRefusesALimitBelowOne(t *testing.T) {
	limit := int64(0)
	k, told := newKeyed(bulkhead.Config{}, func(string) int64 { return limit })
	for _, entry := range keyedEntries {
		for _, tt := range []struct {
			limit int64
			want  string
		}{
			{0, `bulkhead "tenants": the limit of a key is 0, want at least 1`},
			{math.MinInt64, `bulkhead "tenants": the limit of a key is -9223372036854775808, want at least 1`},
		} {
			limit = tt.limit
			err := entry.call(t.Context(), k, "a", func(context.Context) error {
				t.Error("the function ran")
				return nil
			})
			if err == nil || err.Error() != tt.want {
				t.Errorf("%s = %v, want %s", entry.name, err, tt.want)
			}
		}
		limit = math.MaxInt64
		if err := entry.call(t.Context(), k, "a", nop); err != nil {
			t.Errorf("%s with the largest limit = %v, want nil", entry.name, err)
		}
	}
	told.check(t, 3, 3)
	checkNoKeys(t, k)
}

// A key that cannot be found again would leave its entry behind for ever.
func TestKeyedRefusesAKeyThatIsNotItself(t *testing.T) {
	const want = `bulkhead "tenants": key is not equal to itself, as NaN, so no limit can be kept for it`
	cfg := bulkhead.Config{Name: "tenants", MaxConcurrent: 1}
	refused := func(what string, err error, n int) {
		if err == nil || err.Error() != want || n != 0 {
			t.Errorf("%s: %v, %d keys in use, want %s, none in use", what, err, n, want)
		}
	}
	floats := bulkhead.MustNewKeyed[float64, int](cfg, func(float64) int64 { t.Error("asked for a limit"); return 1 })
	err := floats.Run(t.Context(), math.NaN(), nop)
	refused("Run", err, floats.Len())
	_, err = floats.Execute(t.Context(), math.NaN(), answer)
	refused("Execute", err, floats.Len())
	p, err := floats.Acquire(t.Context(), math.NaN())
	refused("Acquire", err, floats.Len())
	if p != nil {
		t.Error("Acquire returned a permit with the error")
	}

	type pair struct {
		a string
		b float64
	}
	pairs := bulkhead.MustNewKeyed[pair, int](cfg, nil)
	refused("in a struct", pairs.Run(t.Context(), pair{"a", math.NaN()}, nop), pairs.Len())
	anys := bulkhead.MustNewKeyed[any, int](cfg, nil)
	refused("in an interface", anys.Run(t.Context(), math.NaN(), nop), anys.Len())

	zeros := bulkhead.MustNewKeyed[float64, int](cfg, nil)
	p, _ = zeros.Acquire(t.Context(), math.Copysign(0, -1))
	if err := zeros.Run(t.Context(), 0, nop); !errors.Is(err, bulkhead.ErrFull) {
		t.Errorf("0 while -0 is full = %v, want ErrFull: they are one key", err)
	}
	p.Release()
	checkNoKeys(t, zeros)

	// As in a map, what cannot be compared panics. Nothing is locked or taken.
	got := watch(func() { anys.Run(t.Context(), []int{1}, nop) })
	if err, ok := got.panicked.(error); !ok || !strings.Contains(err.Error(), "uncomparable") {
		t.Errorf("a slice as key ended with %+v, want the panic of ==", got)
	}
	if err := anys.Run(t.Context(), 1, nop); err != nil {
		t.Errorf("then, another key = %v, want nil", err)
	}
	checkNoKeys(t, anys)
}

// TestKeyedLeavesNothingBehind lets calls end in every way: each time, the key
// must be gone, and its limit free for the next.
func TestKeyedLeavesNothingBehind(t *testing.T) {
	canceled := func(t *testing.T) context.Context {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		return ctx
	}
	soon := func(t *testing.T) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		t.Cleanup(cancel)
		return ctx
	}
	untilDone := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name      string
		cfg       bulkhead.Config
		full      bool
		closed    bool
		ctx       func(*testing.T) context.Context // nil means t's
		fn        func(context.Context) error
		notPermit bool // does not apply to the holder of a permit
	}{
		{name: "returns", fn: nop},
		{name: "fails", fn: func(context.Context) error { return errBoom }},
		{name: "panics", fn: func(context.Context) error { panic("boom") }},
		{name: "goexit", fn: func(context.Context) error { runtime.Goexit(); return nil }},
		{name: "is canceled", ctx: soon, fn: untilDone},
		{name: "was canceled", ctx: canceled, fn: nop},
		{name: "is canceled in the queue", cfg: bulkhead.Config{MaxWait: bulkhead.Forever}, full: true, ctx: soon, fn: nop},
		{name: "full", full: true, fn: nop},
		{name: "times out", cfg: bulkhead.Config{MaxWait: time.Second}, full: true, fn: nop},
		{name: "closed", closed: true, fn: nop},
		{name: "no function", fn: nil, notPermit: true},
		{name: "no context", ctx: func(*testing.T) context.Context { return nil }, fn: nop},
	}
	for _, tt := range tests {
		for _, entry := range keyedEntries {
			if tt.notPermit && entry.name == "Acquire" {
				continue
			}
			t.Run(tt.name+"/"+entry.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := tt.cfg
					cfg.MaxConcurrent = 1
					k, _ := newKeyed(cfg, nil)
					if tt.closed {
						k.Close()
					}
					var p *bulkhead.Permit
					if tt.full {
						p, _ = k.Acquire(t.Context(), "a")
					}
					ctx := t.Context()
					if tt.ctx != nil {
						ctx = tt.ctx(t)
					}
					watch(func() { entry.call(ctx, k, "a", tt.fn) })
					want := 0
					if tt.full {
						want = 1
					}
					if got := k.Len(); got != want {
						t.Errorf("%d keys in use, want %d", got, want)
					}
					p.Release()
					checkNoKeys(t, k)
					if err := k.Run(t.Context(), "a", nop); err != nil && !tt.closed {
						t.Errorf("the next call = %v, want nil", err)
					}
					checkNoKeys(t, k)
				})
			})
		}
	}
}

func TestKeyedListenerAndLimitThatPanicLeaveNothingBehind(t *testing.T) {
	for _, mis := range []struct {
		name string
		do   func()
		want ended
	}{
		{"panics", func() { panic("user's") }, ended{panicked: "user's"}},
		{"goexit", runtime.Goexit, ended{goexit: true}},
	} {
		var in event.Kind // where the listener misbehaves
		badLimit := false
		k, told := newKeyed(bulkhead.Config{
			Listener: event.All(func(_ context.Context, e event.Record) {
				if e.Kind == in {
					mis.do()
				}
			}),
		}, func(string) int64 {
			if badLimit {
				mis.do()
			}
			return 1
		})
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		for _, entry := range keyedEntries {
			badLimit = true
			if got := watch(func() { entry.call(t.Context(), k, "a", nop) }); got != mis.want {
				t.Errorf("%s, limit %s: ended with %+v", entry.name, mis.name, got)
			}
			checkNoKeys(t, k)
			badLimit = false
			for in = event.KindPermitted; in <= event.KindFinished; in++ {
				ctx := t.Context()
				var p *bulkhead.Permit
				switch in {
				case event.KindRejected:
					p, _ = k.Acquire(ctx, "a")
				case event.KindCanceled:
					ctx = canceled
				}
				if got := watch(func() { entry.call(ctx, k, "a", nop) }); got != mis.want {
					t.Errorf("%s, %v %s: ended with %+v", entry.name, in, mis.name, got)
				}
				p.Release()
				checkNoKeys(t, k)
			}
			in = event.KindReleased
			p, _ := k.Acquire(t.Context(), "a")
			if got := watch(p.Release); got != mis.want {
				t.Errorf("%v %s: ended with %+v", in, mis.name, got)
			}
			checkNoKeys(t, k)
			in = 0
		}
		told.check(t, 6*3, 6*3)
	}
}

func TestKeyedAsksForLimitsOutsideItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k *bulkhead.Keyed[string, int]
		slow := make(chan bool)
		k, told := newKeyed(bulkhead.Config{}, func(key string) int64 {
			switch key {
			case "calls back":
				k.Len()
				if err := k.Run(t.Context(), "other", nop); err != nil {
					t.Errorf("Run in the limit function = %v, want nil", err)
				}
			case "slow":
				<-slow
			}
			return 1
		})
		if err := k.Run(t.Context(), "calls back", nop); err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		waits := make(chan error)
		go func() { waits <- k.Run(t.Context(), "slow", nop) }()
		synctest.Wait()
		if err := k.Run(t.Context(), "other", nop); err != nil {
			t.Errorf("while one limit is asked for, Run of another key = %v, want nil", err)
		}
		if got := k.Len(); got != 0 {
			t.Errorf("while its limit is asked for, a key is in use")
		}
		slow <- true
		if err := <-waits; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
		told.check(t, 4, 4)
		checkNoKeys(t, k)
	})
}

// Two calls that ask for the limit of one key at once share the first answer.
func TestKeyedMakesOneLimitOfTwoAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan int64)
		k, told := newKeyed(bulkhead.Config{}, func(string) int64 { return <-answers })
		permits := make(chan *bulkhead.Permit, 2)
		errs := make(chan error, 2)
		for range 2 {
			go func() {
				p, err := k.Acquire(t.Context(), "a")
				permits <- p
				errs <- err
			}()
		}
		synctest.Wait()
		answers <- 1
		first := <-permits
		if err := <-errs; err != nil {
			t.Errorf("the first = %v, want a permit", err)
		}
		answers <- 10
		(<-permits).Release()
		if rejected, ok := errors.AsType[bulkhead.RejectedError](<-errs); !ok || rejected.MaxConcurrent != 1 {
			t.Errorf("the second = %+v, want it rejected at the limit of 1", rejected)
		}
		if got := k.Len(); got != 1 {
			t.Errorf("%d keys in use, want 1", got)
		}
		first.Release()
		told.check(t, 2, 2)
		checkNoKeys(t, k)
	})
}

// A waiter keeps the entry although nobody holds a permit any more.
func TestKeyedWaitersKeepTheirLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		k, told := newKeyed(bulkhead.Config{MaxWait: bulkhead.Forever, MaxQueue: 2}, func(string) int64 { asked++; return 1 })
		p, _ := k.Acquire(t.Context(), "a")
		var order []int
		var waiters sync.WaitGroup
		for i := range 2 {
			waiters.Go(func() {
				if err := k.Run(t.Context(), "a", func(context.Context) error {
					order = append(order, i)
					time.Sleep(time.Second)
					return nil
				}); err != nil {
					t.Errorf("waiter %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		if err := k.Run(t.Context(), "a", nop); !errors.Is(err, bulkhead.ErrFull) {
			t.Errorf("beyond the queue = %v, want ErrFull", err)
		}
		q, err := k.Acquire(t.Context(), "b") // has a queue of its own
		if err != nil {
			t.Errorf("another key = %v, want nil", err)
		}
		q.Release()
		start := time.Now()
		p.Release()
		waiters.Wait()
		if took := time.Since(start); took != 2*time.Second || len(order) != 2 || order[0] != 0 {
			t.Errorf("the waiters ran in the order %v and took %v, want 0, 1, one after the other", order, took)
		}
		if asked != 2 {
			t.Errorf("asked for a limit %d times, want once for each key", asked)
		}
		told.check(t, 5, 5)
		checkNoKeys(t, k)
	})
}

func TestKeyedCloseIsForEveryKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, told := newKeyed(bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, nil)
		keys := []string{"a", "b", "c"}
		var held []*bulkhead.Permit
		errs := make(chan error, 10)
		for _, key := range keys {
			p, _ := k.Acquire(t.Context(), key)
			held = append(held, p)
			for range 2 {
				go func() { errs <- k.Run(t.Context(), key, nop) }()
			}
		}
		synctest.Wait()
		k.Close()
		k.Close()
		for range 2 * len(keys) {
			if err := <-errs; !errors.Is(err, bulkhead.ErrClosed) {
				t.Errorf("a call that waited = %v, want ErrClosed", err)
			}
		}
		for _, entry := range keyedEntries {
			for _, key := range []string{"a", "new"} {
				if err := entry.call(t.Context(), k, key, nop); !errors.Is(err, bulkhead.ErrClosed) {
					t.Errorf("%s of %s = %v, want ErrClosed", entry.name, key, err)
				}
			}
		}
		if got := k.Len(); got != len(keys) {
			t.Errorf("%d keys in use, want those of the calls that run, %d", got, len(keys))
		}
		for _, p := range held {
			p.Complete(nil)
		}
		got := told.check(t, 15, 15)
		if got.calls[event.KindRejected] != 12 || got.calls[event.KindFinished] != 3 {
			t.Errorf("told %v, want 12 rejected and 3 finished", got.calls)
		}
		checkNoKeys(t, k)
	})
}

func TestKeyedDrainAndShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := newKeyed(bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, nil)
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if err := k.Drain(done); err != nil {
			t.Errorf("idle, Drain = %v, want nil even if its context is done", err)
		}

		a, _ := k.Acquire(t.Context(), "a")
		b, _ := k.Acquire(t.Context(), "b")
		if err := k.Drain(done); err != context.Canceled {
			t.Errorf("busy, Drain = %v, want its context's error", err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := k.Drain(short); err != context.DeadlineExceeded {
			t.Errorf("busy, Drain = %v, want its context's error", err)
		}

		drained := make(chan error, 1)
		go func() { drained <- k.Drain(t.Context()) }()
		synctest.Wait()
		a.Release()
		c, _ := k.Acquire(t.Context(), "c") // it closes nothing
		go k.Run(t.Context(), "c", nop)     // waits
		b.Release()
		synctest.Wait()
		if len(drained) != 0 {
			t.Error("Drain returned while a call ran")
		}
		c.Complete(nil)
		synctest.Wait()
		if len(drained) != 1 || <-drained != nil {
			t.Error("Drain did not return nil when the last call was over")
		}

		d, _ := k.Acquire(t.Context(), "d")
		go func() { drained <- k.Shutdown(t.Context()) }()
		synctest.Wait()
		if err := k.Run(t.Context(), "a", nop); !errors.Is(err, bulkhead.ErrClosed) {
			t.Errorf("during Shutdown, Run = %v, want ErrClosed", err)
		}
		if len(drained) != 0 {
			t.Error("Shutdown returned while a call ran")
		}
		d.Release()
		if err := <-drained; err != nil {
			t.Errorf("Shutdown = %v, want nil", err)
		}
		checkNoKeys(t, k)
	})
}

// Who has drained has heard of everything.
func TestKeyedTellsTheEndBeforeItDrains(t *testing.T) {
	var k *bulkhead.Keyed[string, int]
	k, told := newKeyed(bulkhead.Config{
		MaxConcurrent: 1,
		Listener: event.All(func(_ context.Context, e event.Record) {
			if got := k.Len(); got != 1 {
				t.Errorf("when %v is told, %d keys are in use, want 1", e.Kind, got)
			}
		}),
	}, nil)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, entry := range keyedEntries {
		entry.call(t.Context(), k, "a", nop)
		entry.call(canceled, k, "a", nop)
		entry.call(t.Context(), k, "a", func(ctx context.Context) error {
			return entry.call(ctx, k, "a", nop)
		})
	}
	p, _ := k.Acquire(t.Context(), "a")
	p.Release()
	told.check(t, 13, 13)
	checkNoKeys(t, k)
}

func TestKeyedListenerCallsBack(t *testing.T) {
	var k *bulkhead.Keyed[string, int]
	depth := 0
	k, told := newKeyed(bulkhead.Config{
		MaxConcurrent: 10,
		Listener: event.All(func(ctx context.Context, e event.Record) {
			if depth++; depth > 4 {
				return
			}
			k.Len()
			k.Run(ctx, "a", nop)
			k.Run(ctx, "b", nop)
		}),
	}, nil)
	if err := k.Run(t.Context(), "a", nop); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	told.check(t, 9, 9)
	checkNoKeys(t, k)
}

func TestKeyedAllocations(t *testing.T) {
	counters := event.NewCounters()
	k := bulkhead.MustNewKeyed[int, int](bulkhead.Config{
		Name: "tenants", MaxConcurrent: 2, Listener: counters.Listener(),
	}, nil)
	ctx := t.Context()
	limited := bulkhead.MustNewKeyed[int, int](bulkhead.Config{Name: "tenants"}, func(int) int64 { return 7 })
	p, _ := k.Acquire(ctx, 1) // keeps the key
	full, _ := k.Acquire(ctx, 2)
	k.Acquire(ctx, 2)
	n := 100
	tests := []struct {
		name string
		want float64
		f    func()
	}{
		{"Execute of a key in use", 0, func() { k.Execute(ctx, 1, answer) }},
		{"Run of a key in use", 0, func() { k.Run(ctx, 1, nop) }},
		{"Acquire of a key in use", 1, func() { p, _ := k.Acquire(ctx, 1); p.Complete(nil) }},
		{"full", 0, func() { k.Execute(ctx, 2, answer) }},
		{"Execute of a key that has no calls", 3, func() { k.Execute(ctx, 3, answer) }},
		{"Execute of a key that never had any", 3, func() { n++; k.Execute(ctx, n, answer) }},
		{"with a limit of its own", 3, func() { n++; limited.Execute(ctx, n, answer) }},
	}
	for _, tt := range tests {
		if got := testing.AllocsPerRun(100, tt.f); got > tt.want {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.want)
		}
	}
	if got, want := counters.Snapshot().Calls().Calls, int64(3+101*(len(tests)-1)); got != want {
		t.Errorf("%d calls were told, want %d", got, want)
	}
	p.Release()
	full.Release()
}
