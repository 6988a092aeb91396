package bulkhead_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// rejections sums up what a handler's lines say of rejected calls.
type rejections struct{ n, lines atomic.Int64 }

func (h *rejections) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h *rejections) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *rejections) WithGroup(string) slog.Handler                { return h }

func (h *rejections) Handle(_ context.Context, r slog.Record) error {
	h.lines.Add(1)
	n := int64(1)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "calls" {
			n = a.Value.Int64()
		}
		return true
	})
	h.n.Add(n)
	return nil
}

// TestReadyListenersAgree attaches every ready listener at once, in Config and
// as subscribers, while calls of several weights end in every way by every
// entry. The events must add up for each of them, in calls and in weight.
func TestReadyListenersAgree(t *testing.T) {
	const limit = 6
	var told recorder
	var log rejections
	counters, late := event.NewCounters(), event.NewCounters()
	ring, stream := event.NewRing(50), event.NewStream(100)
	var later atomic.Int64 // how far the clock was moved on
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name:          "db",
		MaxConcurrent: limit,
		MaxWait:       100 * time.Microsecond,
		MaxQueue:      4,
		Clock:         func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
		Listener: event.Join(
			told.listener(), event.Slog(slog.New(&log)), counters.Listener(), ring.Listener(), stream.Listener(),
		),
	})
	b.Subscribe(late.Listener())

	// One who reads the stream, and one who looks at everything all the time.
	var received int64
	stop := make(chan struct{})
	var readers, workers sync.WaitGroup
	readers.Go(func() {
		for {
			select {
			case <-stream.C():
				received++
				runtime.Gosched() // slow
			case <-stop:
				return
			}
		}
	})
	readers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if r := counters.Snapshot().Running(); r.Calls < 0 || r.Weight < 0 {
				t.Errorf("%+v run, want at least none", r)
			}
			counters.FullSince()
			ring.Records()
			stream.Dropped()
		}
	})

	var calls, weight atomic.Int64
	for i := range uint64(6) {
		random := rand.New(rand.NewPCG(i, 7))
		workers.Go(func() {
			for range 300 {
				n, how := 1+random.Int64N(limit+1), random.IntN(8)
				entry := entries[random.IntN(len(entries))]
				ctx, cancel := context.WithCancel(context.Background())
				switch random.IntN(5) {
				case 0:
					cancel()
				case 1:
					time.AfterFunc(50*time.Microsecond, cancel)
				}
				calls.Add(1)
				weight.Add(n)
				watch(func() {
					entry.call(ctx, b.Weighing(n), func(ctx context.Context) error {
						runtime.Gosched()
						switch how {
						case 0:
							panic("boom")
						case 1:
							runtime.Goexit()
						case 2:
							return errBoom
						case 3, 4:
							cancel()
						}
						return ctx.Err()
					})
				})
				cancel()
			}
		})
	}
	workers.Wait()
	// The next event has what the log did not tell told.
	later.Store(int64(time.Hour))
	b.SetMaxConcurrent(limit + 1)
	// What is in flight is what the counters say, in weight too.
	held := hold(t, b, 4)
	s := counters.Snapshot()
	if got, want := s.Running(), (event.Tally{Calls: 1, Weight: 4}); got != want || b.Stats().Active != 4 {
		t.Errorf("with 4 permits held, %+v run and %d are in flight, want %+v", got, b.Stats().Active, want)
	}
	held.Release()
	calls.Add(1)
	weight.Add(4)
	close(stop)
	readers.Wait()

	s = counters.Snapshot()
	if got, want := s.Calls(), (event.Tally{Calls: calls.Load(), Weight: weight.Load()}); got != want {
		t.Errorf("permitted + rejected + canceled = %+v, want the calls made, %+v", got, want)
	}
	if got := s.Running(); got != (event.Tally{}) {
		t.Errorf("permitted - finished - released = %+v, want none at rest", got)
	}
	if diff := cmp.Diff(s, late.Snapshot()); diff != "" {
		t.Errorf("the subscriber counted otherwise (-config +subscriber):\n%s", diff)
	}
	for what, n := range map[string]int64{
		"permitted": s.Permitted.Calls, "canceled": s.Canceled.Calls, "released": s.Released.Calls,
		"timed out": s.Rejected[event.TimedOut].Calls, "too heavy": s.Rejected[event.TooHeavy].Calls,
		"ok": s.Finished[event.OK].Calls, "failed": s.Finished[event.Failed].Calls, "panicked": s.Finished[event.Panicked].Calls,
	} {
		if n == 0 {
			t.Errorf("no call was %s: the test does not reach that", what)
		}
	}

	// The others heard the same.
	var want event.Counts
	for _, r := range told.records {
		one := event.Tally{Calls: 1, Weight: r.Weight}
		add := func(to *event.Tally) { *to = event.Tally{Calls: to.Calls + one.Calls, Weight: to.Weight + one.Weight} }
		switch r.Kind {
		case event.KindPermitted:
			add(&want.Permitted)
		case event.KindRejected:
			add(&want.Rejected[r.Reason])
		case event.KindCanceled:
			add(&want.Canceled)
		case event.KindFinished:
			add(&want.Finished[r.Outcome])
		case event.KindReleased:
			add(&want.Released)
		}
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("Counters (-recorded +counted):\n%s", diff)
	}
	for len(stream.C()) > 0 {
		<-stream.C()
		received++
	}
	if got := received + int64(stream.Dropped()); got != int64(len(told.records)) {
		t.Errorf("the stream passed %d events on and dropped %d, want %d in all", received, stream.Dropped(), len(told.records))
	}
	last := ring.Records()
	if len(last) != 50 || last[49].Kind != event.KindReleased || last[48].Kind != event.KindPermitted || last[48].Weight != 4 || last[47].Kind != event.KindLimitChanged {
		t.Errorf("the ring has %d records and ends with %+v, want 50, and the limit change and the permit held last", len(last), last[47:])
	}
	var rejected int64
	for _, r := range s.Rejected {
		rejected += r.Calls
	}
	if got := log.n.Load(); got != rejected || log.lines.Load() > rejected/4 {
		t.Errorf("the log told %d rejections in %d lines, want %d in few", got, log.lines.Load(), rejected)
	}
	told.check(t, calls.Load(), weight.Load())
	checkAtRest(t, b)
}

// TestOverloadFloodsNoLog has a bulkhead reject 100,000 calls a second for three
// seconds.
func TestOverloadFloodsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perStep, steps = 1000, 300
		var log rejections
		counters := event.NewCounters()
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 1, Listener: event.Join(event.Slog(slog.New(&log)), counters.Listener()),
		})
		p := hold(t, b, 1)
		start := time.Now()
		for range steps {
			for range perStep {
				b.Run(t.Context(), nop)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if since, full := counters.FullSince(); !full || !since.Equal(start) {
			t.Errorf("FullSince() = %v, %v, want %v, true", since, full, start)
		}
		if got := log.lines.Load(); got != 3 {
			t.Errorf("%d lines in three seconds, want 3", got)
		}
		time.Sleep(time.Second)
		p.Complete(nil)
		if got := log.n.Load(); got != perStep*steps || log.lines.Load() != 4 {
			t.Errorf("in the end %d rejections are told in %d lines, want %d in 4", got, log.lines.Load(), perStep*steps)
		}
		if err := b.Run(t.Context(), nop); err != nil {
			t.Error(err)
		}
		if since, full := counters.FullSince(); full {
			t.Errorf("when there is room again, FullSince() = %v, true", since)
		}
	})
}

// TestReadyListenersAllocateNothingInACall pins what each adds to a call: it
// finds its permit free, or it is rejected.
func TestReadyListenersAllocateNothingInACall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log rejections
	for name, l := range map[string]event.Listener{
		"Slog":     event.Slog(slog.New(&log)),
		"Counters": event.NewCounters().Listener(),
		"Ring":     event.NewRing(100).Listener(),
		"Stream":   event.NewStream(1).Listener(),
	} {
		// A clock that stands still, or a new line could be due.
		now := time.Now()
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 1, Listener: l, Clock: func() time.Time { return now },
		})
		if got := testing.AllocsPerRun(100, func() { b.Execute(ctx, answer) }); got != 0 {
			t.Errorf("%s: %v allocations for a call, want 0", name, got)
		}
		p := hold(t, b, 1)
		b.Execute(ctx, answer) // the first of a spell is logged
		if got := testing.AllocsPerRun(100, func() { b.Execute(ctx, answer) }); got != 0 {
			t.Errorf("%s: %v allocations for a rejected call, want 0", name, got)
		}
		p.Release()
	}
}

// A logger whose handler misbehaves is a listener that does.
func TestSlogHandlerThatMisbehavesLosesNoPermit(t *testing.T) {
	var told recorder
	misbehave := runtime.Goexit
	handler := funcHandler(func() { misbehave() })
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name: "db", MaxConcurrent: 2, Listener: event.Join(event.Slog(slog.New(handler)), told.listener()),
	})
	for _, f := range []func(){runtime.Goexit, func() { panic("handler") }, func() {
		misbehave = func() {}
		b.Run(t.Context(), nop) // calls back
		b.SetMaxConcurrent(b.Stats().MaxConcurrent%2 + 1)
	}} {
		misbehave = f
		for _, entry := range entries {
			watch(func() { entry.call(t.Context(), b, nop) })
		}
	}
	misbehave = func() {}
	var calls int64
	for _, r := range told.records {
		switch r.Kind {
		case event.KindPermitted, event.KindRejected, event.KindCanceled:
			calls++
		}
	}
	told.check(t, calls, calls)
	checkAtRest(t, b)
}

// funcHandler calls itself for each line, of every level.
type funcHandler func()

func (f funcHandler) Enabled(context.Context, slog.Level) bool { return true }
func (f funcHandler) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f funcHandler) WithGroup(string) slog.Handler            { return f }
func (f funcHandler) Handle(context.Context, slog.Record) error {
	f()
	return nil
}
