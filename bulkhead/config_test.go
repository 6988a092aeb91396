package bulkhead_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

func TestNewNamesTheBadField(t *testing.T) {
	good := bulkhead.Config{Name: "db", MaxConcurrent: 1}
	with := func(change func(*bulkhead.Config)) bulkhead.Config { c := good; change(&c); return c }
	tests := []struct {
		cfg  bulkhead.Config
		want string
	}{
		{bulkhead.Config{}, `bulkhead: Config.Name is "", want a name`},
		{
			with(func(c *bulkhead.Config) { c.MaxConcurrent = 0 }),
			`bulkhead "db": Config.MaxConcurrent is 0, want at least 1`,
		},
		{
			with(func(c *bulkhead.Config) { c.MaxConcurrent = math.MinInt64 }),
			`bulkhead "db": Config.MaxConcurrent is -9223372036854775808, want at least 1`,
		},
		{
			with(func(c *bulkhead.Config) { c.MaxWait = -time.Second }),
			`bulkhead "db": Config.MaxWait is -1s, must not be negative`,
		},
		{
			with(func(c *bulkhead.Config) { c.MaxQueue = -1 }),
			`bulkhead "db": Config.MaxQueue is -1, must not be negative`,
		},
	}
	for _, tt := range tests {
		b, err := bulkhead.New[int](tt.cfg)
		if b != nil || err == nil || err.Error() != tt.want {
			t.Errorf("New = %v, %v, want nil and %s", b, err, tt.want)
		}
		got := watch(func() { bulkhead.MustNew[int](tt.cfg) })
		if err, ok := got.panicked.(error); !ok || err.Error() != tt.want {
			t.Errorf("MustNew ended with %+v, want a panic with %s", got, tt.want)
		}
	}
	for _, cfg := range []bulkhead.Config{
		good,
		with(func(c *bulkhead.Config) { c.MaxConcurrent = math.MaxInt64 }),
		with(func(c *bulkhead.Config) { c.MaxWait = bulkhead.Forever }),
		with(func(c *bulkhead.Config) { c.MaxQueue = math.MaxInt }),
	} {
		if b, err := bulkhead.New[int](cfg); b == nil || err != nil {
			t.Errorf("New(%+v) = %v, %v, want a bulkhead", cfg, b, err)
		}
	}
}

func TestSettersKeepConfigsRules(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name: "db", MaxConcurrent: 3, MaxWait: time.Second, Listener: told.listener(),
	})
	for _, tt := range []struct {
		err  error
		want string
	}{
		{b.SetMaxConcurrent(0), `bulkhead "db": Config.MaxConcurrent is 0, want at least 1`},
		{b.SetMaxConcurrent(-4), `bulkhead "db": Config.MaxConcurrent is -4, want at least 1`},
		{b.SetMaxWait(-1), `bulkhead "db": Config.MaxWait is -1ns, must not be negative`},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("setter returned %v, want %s", tt.err, tt.want)
		}
	}
	if err := b.SetMaxConcurrent(3); err != nil { // the same value changes nothing
		t.Error(err)
	}
	if got := told.take(); len(got) != 0 {
		t.Errorf("told %+v, want nothing", got)
	}
	if cfg := b.Config(); cfg.MaxConcurrent != 3 || cfg.MaxWait != time.Second {
		t.Errorf("Config = %+v, want it unchanged", cfg)
	}
	checkAtRest(t, b)
}

func TestConfigMakesAnIndependentBulkhead(t *testing.T) {
	var told, late recorder
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name: "db", MaxConcurrent: 1, MaxQueue: 7, Listener: told.listener(),
	})
	b.Subscribe(late.listener())
	b.SetMaxConcurrent(2)
	b.SetMaxWait(time.Second)
	p := hold(t, b, 2)
	late.take()

	cfg := b.Config()
	if cfg.Name != "db" || cfg.MaxConcurrent != 2 || cfg.MaxWait != time.Second || cfg.MaxQueue != 7 {
		t.Errorf("Config = %+v, want what the setters left", cfg)
	}
	cfg.Name = "replica"
	cfg.MaxConcurrent = 3
	c := bulkhead.MustNew[string](cfg)
	told.take()
	q := hold(t, c, 3) // fresh permits
	q.Release()
	for _, r := range told.take() {
		if r.Name != "replica" {
			t.Errorf("told of %q, want replica", r.Name)
		}
	}
	if got := late.take(); len(got) != 0 {
		t.Errorf("a subscription went over to the copy: %+v", got)
	}
	if got := b.Stats(); got.Active != 2 || got.MaxConcurrent != 2 || b.Name() != "db" {
		t.Errorf("the first is now %+v, want it unchanged", got)
	}
	p.Release()
	checkAtRest(t, b)
	checkAtRest(t, c)
}

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 5, MaxWait: bulkhead.Forever})
		check := func(want bulkhead.Stats) {
			t.Helper()
			synctest.Wait()
			want.Name = "db"
			if got := b.Stats(); got != want {
				t.Errorf("Stats = %+v, want %+v", got, want)
			}
		}
		check(bulkhead.Stats{MaxConcurrent: 5, Available: 5})
		p := hold(t, b, 4)
		check(bulkhead.Stats{MaxConcurrent: 5, Active: 4, Available: 1})
		go b.Weighing(2).Run(t.Context(), nop)
		check(bulkhead.Stats{MaxConcurrent: 5, Active: 4, Available: 1, Waiting: 1})
		b.SetMaxConcurrent(3)
		check(bulkhead.Stats{MaxConcurrent: 3, Active: 4, Waiting: 1}) // debt
		b.Close()
		check(bulkhead.Stats{MaxConcurrent: 3, Active: 4, Closed: true})
		p.Release()
		check(bulkhead.Stats{MaxConcurrent: 3, Available: 3, Closed: true})
	})
}

func TestSetMaxConcurrentWhileCallsRun(t *testing.T) {
	// Lowering the limit waited for the calls that ran.
	// https://github.com/resilience4j/resilience4j/issues/979
	synctest.Test(t, func(t *testing.T) {
		var told recorder
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 2, MaxWait: bulkhead.Forever, Listener: told.listener(),
		})
		start := time.Now()
		p, q := hold(t, b, 1), hold(t, b, 1)
		ends := make(chan time.Duration, 3)
		for range 3 {
			go func() {
				if err := b.Run(t.Context(), nop); err != nil {
					t.Error(err)
				}
				ends <- time.Since(start)
			}()
		}
		synctest.Wait()
		b.SetMaxConcurrent(1)
		if got := time.Since(start); got != 0 {
			t.Errorf("lowering the limit took %v", got)
		}
		time.Sleep(time.Second)
		p.Release() // pays the debt
		synctest.Wait()
		if len(ends) != 0 {
			t.Error("shrink debt: a call got in while the limit was in use")
		}
		time.Sleep(time.Second)
		b.SetMaxConcurrent(4)
		for range 3 {
			if got := <-ends; got != 2*time.Second {
				t.Errorf("a waiting call ended after %v, want 2s: when the limit was raised", got)
			}
		}
		q.Release()
		var changes []event.Record
		for _, r := range told.take() {
			if r.Kind == event.KindLimitChanged {
				changes = append(changes, r)
			}
		}
		want := []event.Record{
			{Kind: event.KindLimitChanged, Time: start, Name: "db", From: 2, To: 1},
			{Kind: event.KindLimitChanged, Time: start.Add(2 * time.Second), Name: "db", From: 1, To: 4},
		}
		if len(changes) != 2 || changes[0] != want[0] || changes[1] != want[1] {
			t.Errorf("told %+v, want %+v", changes, want)
		}
		checkAtRest(t, b)
	})
}

func TestSetMaxWaitLeavesWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: time.Minute})
		p := hold(t, b, 1)
		start := time.Now()
		old := make(chan time.Duration, 1)
		go func() {
			b.Run(t.Context(), nop)
			old <- time.Since(start)
		}()
		synctest.Wait()
		if err := b.SetMaxWait(time.Second); err != nil {
			t.Error(err)
		}
		err := b.Run(t.Context(), nop)
		if got := time.Since(start); got != time.Second || !errors.Is(err, bulkhead.ErrFull) {
			t.Errorf("a new call: %v after %v, want ErrFull after 1s", err, got)
		}
		if got := <-old; got != time.Minute {
			t.Errorf("the call that waited already ended after %v, want 1m", got)
		}
		// The ready-made errors follow the setters.
		b.SetMaxWait(0)
		b.SetMaxConcurrent(1 << 40)
		q := hold(t, b, 1<<40-1)
		want := bulkhead.RejectedError{Name: "db", Reason: event.Full, MaxConcurrent: 1 << 40, Weight: 1}
		if err := b.Run(t.Context(), nop); err != want {
			t.Errorf("after the setters: %v, want %v", err, want)
		}
		p.Release()
		q.Release()
		checkAtRest(t, b)
	})
}

func TestCloseEndsWaitingCallsOnly(t *testing.T) {
	// On shutdown nothing woke the waiters.
	// https://github.com/base/infra/issues/45
	// https://github.com/tokio-rs/tokio/issues/3061
	synctest.Test(t, func(t *testing.T) {
		var told recorder
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever, Listener: told.listener(),
		})
		p := hold(t, b, 1)
		errs := make(chan error, 3)
		for range 3 {
			go func() { errs <- b.Run(t.Context(), nop) }()
		}
		time.Sleep(time.Second)
		b.Close()
		b.Close()
		for range 3 {
			err := <-errs
			want := bulkhead.RejectedError{
				Name: "db", Reason: event.Closed, MaxConcurrent: 1,
				MaxWait: bulkhead.Forever, Waited: time.Second, Weight: 1,
			}
			if err != want {
				t.Errorf("waiting call: %v, want %v", err, want)
			}
		}
		// A limit set after Close does not open it again.
		// https://github.com/tokio-rs/tokio/issues/8020
		if err := b.SetMaxConcurrent(4); err != nil {
			t.Errorf("SetMaxConcurrent after Close: %v, want nil", err)
		}
		if err := b.Run(t.Context(), nop); !errors.Is(err, bulkhead.ErrClosed) {
			t.Errorf("new call: %v, want ErrClosed", err)
		}
		p.Complete(nil)
		told.check(t, 5, 5)
		checkAtRest(t, b)
	})
}

func TestDrainAndShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, MaxWait: bulkhead.Forever})
		done, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Drain(done); err != nil {
			t.Errorf("Drain of an idle bulkhead = %v, want nil", err)
		}
		p := hold(t, b, 2)
		short, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := b.Drain(short); err != context.DeadlineExceeded {
			t.Errorf("Drain = %v, want the context's error", err)
		}
		if b.Stats().Closed {
			t.Error("Drain closed the bulkhead")
		}
		waiting := make(chan error, 1)
		go func() { waiting <- b.Run(t.Context(), nop) }()
		synctest.Wait()
		start := time.Now()
		time.AfterFunc(time.Second, p.Release)
		if err := b.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown = %v, want nil", err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("Shutdown returned after %v, want 1s: when the last permit was back", got)
		}
		if err := <-waiting; !errors.Is(err, bulkhead.ErrClosed) {
			t.Errorf("the call that waited: %v, want ErrClosed", err)
		}
		if err := b.Shutdown(done); err != nil {
			t.Errorf("Shutdown again = %v, want nil", err)
		}
		checkAtRest(t, b)
	})
}
