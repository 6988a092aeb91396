package bulkhead_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

func TestAllocations(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var events int
	counter := event.All(func(context.Context, event.Record) { events++ })
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 10})
	var asAny bulkhead.Any = b
	stored := bulkhead.Weighing(b, 2)
	double := bulkhead.DecorateFunc(b, func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	watched := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 10, Listener: counter})
	crowd := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 10, Listener: event.Join(counter, counter)})

	full := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	hold(t, full, 1)
	fullWaits := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: time.Hour})
	hold(t, fullWaits, 1)
	fullWatched := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, Listener: counter})
	hold(t, fullWatched, 1)
	closed := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: time.Hour})
	closed.Close()

	tests := []struct {
		name string
		want float64
		f    func()
	}{
		{"Execute", 0, func() { b.Execute(ctx, answer) }},
		{"Execute with a closure", 0, func() {
			n := 0
			b.Execute(ctx, func(context.Context) (int, error) { n++; return n, nil })
		}},
		{"Execute on a fresh handle", 0, func() { b.Weighing(2).Execute(ctx, answer) }},
		{"Execute on a fresh handle of a handle", 0, func() { b.Weighing(2).Waiting(time.Second).Execute(ctx, answer) }},
		{"Run", 0, func() { b.Run(ctx, nop) }},
		{"Do", 0, func() { bulkhead.Do(ctx, asAny, answer) }},
		{"Do on a stored handle", 0, func() { bulkhead.Do(ctx, stored, answer) }},
		{"Do on a fresh handle", 1, func() { bulkhead.Do(ctx, b.Weighing(2), answer) }},
		{"Do on a fresh handle, without the type", 1, func() { bulkhead.Do(ctx, bulkhead.Weighing(asAny, 2), answer) }},
		{"DecorateFunc", 0, func() { double(ctx, 21) }},
		{"Acquire and Complete", 1, func() { p, _ := b.Acquire(ctx); p.Complete(nil) }},
		{"TryAcquire and Release", 1, func() { p, _ := b.TryAcquire(); p.Release() }},

		{"Execute, one listener", 0, func() { watched.Execute(ctx, answer) }},
		{"Execute, two listeners", 0, func() { crowd.Execute(ctx, answer) }},
		{"Acquire and Complete, one listener", 1, func() { p, _ := watched.Acquire(ctx); p.Complete(nil) }},

		{"full", 0, func() { full.Execute(ctx, answer) }},
		{"full, by a handle that does not wait", 0, func() { fullWaits.Waiting(0).Execute(ctx, answer) }},
		{"full, one listener", 0, func() { fullWatched.Execute(ctx, answer) }},
		{"full, TryAcquire", 0, func() { full.TryAcquire() }},
		{"full, TryAcquire of a bulkhead that waits", 0, func() { fullWaits.TryAcquire() }},
		{"closed", 0, func() { closed.Execute(ctx, answer) }},
	}
	for _, tt := range tests {
		if got := testing.AllocsPerRun(100, tt.f); got > tt.want {
			t.Errorf("%s: %v allocations, want at most %v", tt.name, got, tt.want)
		}
	}
	// One permitted and one finished for each listener, or one rejected; 101
	// runs of each; and the permit that fullWatched is full of.
	if want := 101*(2+2*2+2+1) + 1; events != want {
		t.Errorf("%d events were told, want %d", events, want)
	}
}

// A call that finds the queue full has not waited, and costs no allocation.
// This goes by the real clock, as on a fake one nothing would take any time.
func TestQueueFullHasNotWaited(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever, MaxQueue: 1,
	})
	p := hold(t, b, 1)
	queued := make(chan error)
	go func() { queued <- b.Run(t.Context(), nop) }()
	for b.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	ctx := t.Context()
	var err error
	got := testing.AllocsPerRun(100, func() { _, err = b.Execute(ctx, answer) })
	want := bulkhead.RejectedError{
		Name: "db", Reason: event.QueueFull, MaxConcurrent: 1, MaxWait: bulkhead.Forever, Weight: 1,
	}
	if got != 0 || err != want {
		t.Errorf("%v allocations for %v, want 0 for %v", got, err, want)
	}
	p.Release()
	if err := <-queued; err != nil {
		t.Error(err)
	}
	checkAtRest(t, b)
}
