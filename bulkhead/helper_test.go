package bulkhead_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

var errBoom = errors.New("boom")

// entries are all the ways to run a function under a bulkhead.
var entries = []struct {
	name string
	call func(context.Context, *bulkhead.Bulkhead[int], func(context.Context) error) error
}{
	{"Execute", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		_, err := b.Execute(ctx, func(ctx context.Context) (int, error) { return 0, fn(ctx) })
		return err
	}},
	{"Run", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		return b.Run(ctx, fn)
	}},
	{"Any.Run", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		return bulkhead.Any(b).Run(ctx, fn)
	}},
	{"Do", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		_, err := bulkhead.Do(ctx, b, func(ctx context.Context) (string, error) { return "", fn(ctx) })
		return err
	}},
	{"Decorate", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		_, err := bulkhead.Decorate(b, func(ctx context.Context) (string, error) { return "", fn(ctx) })(ctx)
		return err
	}},
	{"DecorateFunc", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		_, err := bulkhead.DecorateFunc(b, func(ctx context.Context, _ int) (string, error) { return "", fn(ctx) })(ctx, 1)
		return err
	}},
	{"DecorateRun", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		return bulkhead.DecorateRun(b, fn)(ctx)
	}},
	{"DecorateConsumer", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		return bulkhead.DecorateConsumer(b, func(ctx context.Context, _ int) error { return fn(ctx) })(ctx, 1)
	}},
	{"Acquire", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		p, err := b.Acquire(ctx)
		defer p.Release()
		if err == nil {
			err = fn(ctx)
			p.Complete(err)
		}
		return err
	}},
	{"ExecuteAsync", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		return end(b.ExecuteAsync(ctx, func(ctx context.Context) (int, error) { return 0, fn(ctx) }))
	}},
	{"Go", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		return end(bulkhead.Go(ctx, b, func(ctx context.Context) (string, error) { return "", fn(ctx) }))
	}},
	{"DecorateAsync", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		return end(bulkhead.DecorateAsync(b, func(ctx context.Context) (string, error) { return "", fn(ctx) })(ctx))
	}},
	{"Seq", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) (last error) {
		for _, last = range bulkhead.Seq(ctx, b, func(yield func(int, error) bool) { yield(0, fn(ctx)) }) {
		}
		return last
	}},
	{"DecorateChan", func(ctx context.Context, b *bulkhead.Bulkhead[int], fn func(context.Context) error) error {
		_, err := bulkhead.DecorateChan(b, func(ctx context.Context) (<-chan int, error) { return nil, fn(ctx) })(ctx)
		return err
	}},
}

// end waits for an asynchronous call and ends as its function, or a listener,
// did: returning, by that panic or by runtime.Goexit.
func end[T any](f *bulkhead.Future[T]) error {
	defer func() {
		if v := recover(); v != nil {
			panic(v.(*bulkhead.PanicError).Value)
		}
	}()
	_, err := f.Get(context.Background())
	if err == bulkhead.ErrGoexit {
		runtime.Goexit()
	}
	return err
}

// recorder remembers every event.
type recorder struct {
	mu      sync.Mutex
	records []event.Record
}

func (r *recorder) listener() event.Listener {
	return event.All(func(_ context.Context, e event.Record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.records = append(r.records, e)
	})
}

// take returns the events since the last take.
func (r *recorder) take() []event.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	records := r.records
	r.records = nil
	return records
}

// sum is how often each kind of event was told, and the weight of those.
type sum struct{ calls, weight map[event.Kind]int64 }

// check takes the events so far and fails t unless they add up, while nothing
// runs, to the given number of calls and their weight.
func (r *recorder) check(t *testing.T, calls, weight int64) sum {
	t.Helper()
	s := sum{map[event.Kind]int64{}, map[event.Kind]int64{}}
	for _, e := range r.take() {
		s.calls[e.Kind]++
		s.weight[e.Kind] += e.Weight
	}
	for what, n := range map[string]struct {
		of   map[event.Kind]int64
		want int64
	}{"calls": {s.calls, calls}, "weight": {s.weight, weight}} {
		permitted := n.of[event.KindPermitted]
		if got := permitted + n.of[event.KindRejected] + n.of[event.KindCanceled]; got != n.want {
			t.Errorf("%s: permitted + rejected + canceled = %d, want %d: %v", what, got, n.want, n.of)
		}
		if got := n.of[event.KindFinished] + n.of[event.KindReleased]; got != permitted {
			t.Errorf("%s: finished + released = %d, want those permitted, %d", what, got, permitted)
		}
	}
	return s
}

// checkAtRest fails t unless all permits are back, by the numbers and by taking
// them.
func checkAtRest(t *testing.T, b bulkhead.Any) {
	t.Helper()
	s := b.Stats()
	if s.Active != 0 || s.Waiting != 0 {
		t.Errorf("at rest, Stats = %+v, want nothing active or waiting", s)
	}
	if s.Closed {
		return
	}
	p, ok := bulkhead.Weighing(b, s.MaxConcurrent).TryAcquire()
	if !ok {
		t.Errorf("at rest, TryAcquire of the whole limit = false: %+v", b.Stats())
	}
	p.Release()
}

// hold takes n permits, and fails t if they are not free.
func hold(t *testing.T, b bulkhead.Any, n int64) *bulkhead.Permit {
	t.Helper()
	p, ok := bulkhead.Weighing(b, n).TryAcquire()
	if !ok {
		t.Fatalf("could not take %d permits: %+v", n, b.Stats())
	}
	return p
}

// ended says how a function left its goroutine.
type ended struct {
	panicked any
	goexit   bool
}

// watch runs f on a goroutine of its own.
func watch(f func()) ended {
	c := make(chan ended)
	go func() {
		e := ended{goexit: true}
		defer func() {
			if e.panicked = recover(); e.panicked != nil {
				e.goexit = false
			}
			c <- e
		}()
		f()
		e.goexit = false
	}()
	return <-c
}

func nop(context.Context) error { return nil }

func answer(context.Context) (int, error) { return 42, nil }

// stressRounds plays one round, or as many as fit into the environment's STRESS,
// up to the first that fails.
func stressRounds(t *testing.T, play func(t *testing.T, round uint64)) {
	long, err := time.ParseDuration(cmp.Or(os.Getenv("STRESS"), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for round := uint64(0); round == 0 || time.Since(start) < long; round++ {
		if play(t, round); t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}
