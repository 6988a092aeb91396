package eventotel_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// TestIdentitiesHoldUnderLoad watches a bulkhead whose calls of several weights
// end in every way, beside a listener that panics and while metrics are
// collected and, by others, watched and unwatched all the time. In the end the
// counters must add up to the calls made.
func TestIdentitiesHoldUnderLoad(t *testing.T) {
	const limit, workers, perWorker = 4, 6, 300
	var told atomic.Int64
	var over atomic.Bool
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name:          "db",
		MaxConcurrent: limit,
		MaxWait:       200 * time.Microsecond,
		MaxQueue:      2,
		Listener: event.Listener{Permitted: func(context.Context, event.Permitted) {
			if told.Add(1)%25 == 0 && !over.Load() {
				panic("a listener's")
			}
		}},
	})
	steady, reader := newMetrics(t)
	flapping, flappingReader := newMetrics(t)
	if err := steady.Watch(b); err != nil {
		t.Fatal(err)
	}

	var around sync.WaitGroup
	around.Go(func() {
		for !over.Load() {
			s := values(t, reader)
			if active := s["usage{db}"]; active < 0 || active > limit {
				t.Errorf("%v permits are active, want up to %v", active, limit)
			}
		}
	})
	around.Go(func() {
		for !over.Load() {
			if err := flapping.Watch(b); err != nil {
				t.Error(err)
			}
			runtime.Gosched()
			if !flapping.Unwatch("db") {
				t.Error("nothing to unwatch")
			}
		}
	})

	var calls sync.WaitGroup
	for i := range uint64(workers) {
		random := rand.New(rand.NewPCG(i, 11))
		calls.Go(func() {
			for range perWorker {
				done := make(chan struct{})
				go func() {
					defer close(done)
					defer func() { _ = recover() }()
					oneCall(t.Context(), b.Weighing(1+random.Int64N(limit+1)), random)
				}()
				<-done
			}
		})
	}
	calls.Wait()
	over.Store(true)
	around.Wait()

	s := values(t, reader)
	if got := sum(s, starts); got != workers*perWorker {
		t.Errorf("permitted + rejected + canceled = %v, want the %d calls made", got, workers*perWorker)
	}
	permitted := s["permitted{db}"]
	if got := sum(s, ends); got != permitted {
		t.Errorf("finished + released = %v, want those permitted, %v", got, permitted)
	}
	if s["wait.duration{db}"] != permitted || s["run.duration{db}"] != permitted {
		t.Errorf("%v waits and %v runs, want %v of each", s["wait.duration{db}"], s["run.duration{db}"], permitted)
	}
	if s["usage{db}"] != 0 || s["waiting{db}"] != 0 {
		t.Errorf("at rest, %v permits are active and %v calls wait", s["usage{db}"], s["waiting{db}"])
	}
	for _, key := range []string{
		"canceled{db}", "released{db}", "rejected{db,too_heavy}",
		"finished{db,ok}", "finished{db,failed}", "finished{db,panicked}",
	} {
		if s[key] == 0 {
			t.Errorf("%s is 0: the test does not reach that", key)
		}
	}

	// Who watched only at times has seen whole calls, and none since.
	b.Run(t.Context(), nop)
	f := values(t, flappingReader)
	if got, want := sum(f, ends), f["permitted{db}"]; got != want || want == 0 || want > permitted {
		t.Errorf("who watched at times counted %v calls permitted and %v ended, of %v", want, got, permitted)
	}
}

var (
	starts = []string{
		"permitted{db}", "canceled{db}", "rejected{db,full}", "rejected{db,timed_out}",
		"rejected{db,queue_full}", "rejected{db,too_heavy}", "rejected{db,closed}",
	}
	ends = []string{
		"finished{db,ok}", "finished{db,failed}", "finished{db,panicked}", "released{db}",
	}
)

func sum(samples map[string]int64, keys []string) (total int64) {
	for _, key := range keys {
		total += samples[key]
	}
	return total
}

// oneCall makes a call of some kind that ends in some way.
func oneCall(ctx context.Context, b *bulkhead.Bulkhead[int], random *rand.Rand) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	how, entry := random.IntN(7), random.IntN(3)
	if random.IntN(10) == 0 {
		cancel()
	}
	fn := func(ctx context.Context) (int, error) {
		runtime.Gosched()
		switch how {
		case 0:
			panic("boom")
		case 1:
			runtime.Goexit()
		case 2:
			return 0, errors.New("boom")
		case 3:
			cancel()
		}
		return 0, ctx.Err()
	}
	switch entry {
	case 0:
		b.Execute(ctx, fn)
	case 1:
		b.ExecuteAsync(ctx, fn).Get(context.Background())
	case 2:
		p, err := b.Acquire(ctx)
		defer p.Release()
		if err == nil {
			_, err = fn(ctx)
			p.Complete(err)
		}
	}
}
