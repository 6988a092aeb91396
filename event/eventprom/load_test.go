package eventprom_test

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
	"github.com/turnstile-go/turnstile/event/eventprom"
)

// TestIdentitiesHoldUnderLoad watches a bulkhead whose calls of several weights
// end in every way, beside a listener that panics and while the bulkhead is
// scraped and, by others, watched and unwatched all the time. In the end the
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
	steady, flapping := eventprom.New(eventprom.Options{}), eventprom.New(eventprom.Options{})
	url, flappingURL := serve(t, steady), serve(t, flapping)
	if err := steady.Watch(b); err != nil {
		t.Fatal(err)
	}

	var around sync.WaitGroup
	around.Go(func() {
		for !over.Load() {
			s := samples(t, url)
			if ended := sum(s, ends); ended > s["permitted_calls_total{db}"] {
				t.Errorf("%v calls have ended and %v were permitted", ended, s["permitted_calls_total{db}"])
			}
			if active := s["active_permits{db}"]; active < 0 || active > limit {
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

	s := samples(t, url)
	if got := sum(s, starts); got != workers*perWorker {
		t.Errorf("permitted + rejected + canceled = %v, want the %d calls made", got, workers*perWorker)
	}
	permitted := s["permitted_calls_total{db}"]
	if got := sum(s, ends); got != permitted {
		t.Errorf("finished + released = %v, want those permitted, %v", got, permitted)
	}
	if s["wait_seconds_count{db}"] != permitted || s["run_seconds_count{db}"] != permitted {
		t.Errorf("%v waits and %v runs, want %v of each", s["wait_seconds_count{db}"], s["run_seconds_count{db}"], permitted)
	}
	if s["active_permits{db}"] != 0 || s["waiting_calls{db}"] != 0 {
		t.Errorf("at rest, %v permits are active and %v calls wait", s["active_permits{db}"], s["waiting_calls{db}"])
	}
	for _, key := range []string{
		"canceled_calls_total{db}", "released_calls_total{db}", "rejected_calls_total{db,too_heavy}",
		"finished_calls_total{db,ok}", "finished_calls_total{db,failed}", "finished_calls_total{db,panicked}",
	} {
		if s[key] == 0 {
			t.Errorf("%s is 0: the test does not reach that", key)
		}
	}

	// Who watched only at times has seen whole calls, and none since.
	b.Run(t.Context(), nop)
	f := samples(t, flappingURL)
	if got, want := sum(f, ends), f["permitted_calls_total{db}"]; got != want || want == 0 || want > permitted {
		t.Errorf("who watched at times counted %v calls permitted and %v ended, of %v", want, got, permitted)
	}
}

var (
	starts = []string{
		"permitted_calls_total{db}", "canceled_calls_total{db}", "rejected_calls_total{db,full}", "rejected_calls_total{db,timed_out}",
		"rejected_calls_total{db,queue_full}", "rejected_calls_total{db,too_heavy}", "rejected_calls_total{db,closed}",
	}
	ends = []string{
		"finished_calls_total{db,ok}", "finished_calls_total{db,failed}", "finished_calls_total{db,panicked}", "released_calls_total{db}",
	}
)

func sum(samples map[string]float64, keys []string) (total float64) {
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
