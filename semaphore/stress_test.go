package semaphore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// stress calls f with a number that differs from call to call, a few times, or
// for as long as the environment's STRESS says.
func stress(t *testing.T, times int, f func(seed uint64)) {
	t.Helper()
	var long time.Duration
	if s := os.Getenv("STRESS"); s != "" {
		var err error
		if long, err = time.ParseDuration(s); err != nil {
			t.Fatalf("STRESS: %v", err)
		}
	}
	began := time.Now()
	for seed := uint64(0); !t.Failed(); seed++ {
		if seed >= uint64(times) && time.Since(began) >= long {
			return
		}
		f(seed)
	}
}

// Where there is always room nobody is ever refused, whatever slow operations
// are under way, and no count is lost between two fast paths.
func TestStressFastPaths(t *testing.T) {
	const workers, heaviest, limit = 6, 3, 6 * 3
	work := 100_000
	if raceEnabled {
		work = 5_000
	}
	sem := semaphore.NewWeighted(limit)
	stress(t, rounds(6), func(seed uint64) {
		var working atomic.Int32
		working.Store(workers)
		var wg sync.WaitGroup
		for id := range uint64(workers) {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(seed, id))
				for i := range work {
					n := rng.Int64N(heaviest + 1)
					if i%2 == 0 {
						if !sem.TryAcquire(n) {
							t.Errorf("TryAcquire(%d) = false with room for it", n)
							n = 0
						}
					} else if err := sem.AcquireWithin(context.Background(), n, 0); err != nil {
						t.Errorf("AcquireWithin(%d) = %v with room for it", n, err)
						n = 0
					}
					sem.Release(n)
				}
				working.Add(-1)
			})
		}
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, workers))
			for working.Load() > 0 {
				switch rng.IntN(200) {
				case 0:
					sem.SetLimit(limit + rng.Int64N(3))
				case 1:
					sem.Drain(canceled())
				case 2:
					if got := sem.Stats(); got.InUse < 0 || got.InUse > limit {
						t.Errorf("Stats = %+v", got)
					}
				case 3:
					runtime.Gosched()
				}
			}
		})
		wg.Wait()
		sem.SetLimit(limit)
		wantIdle(t, sem, limit)
	})
}

// stressed is a semaphore and what its users, together, know of it.
type stressed struct {
	*semaphore.Weighted
	t      *testing.T
	limit  int64 // the highest there is
	inside atomic.Int64

	// plain is written by those who hold all permits, who leave it even, and
	// read by the others, in phases in which the limit stays. The race detector
	// sees if a release does not synchronize before the acquire it enables.
	plain int
	fixed bool

	cancels [8]atomic.Pointer[context.CancelFunc] // of those who wait
}

// Real goroutines do everything at once. Those inside the critical section are
// counted there; at each rest what is in flight is what they hold.
func TestStress(t *testing.T) {
	for _, cfg := range []semaphore.Config{
		{Limit: 1},
		{Limit: 5},
		{Limit: 4, MaxWaiters: 2},
		{Limit: 3, Unfair: true},
	} {
		t.Run(fmt.Sprintf("limit=%d/maxWaiters=%d/unfair=%v", cfg.Limit, cfg.MaxWaiters, cfg.Unfair), func(t *testing.T) {
			sem, err := semaphore.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			stress(t, rounds(30), func(seed uint64) {
				x := &stressed{Weighted: sem, t: t, limit: cfg.Limit, fixed: seed%2 == 0}
				x.phase(seed)
			})
			wantNobodyInside(t)
		})
	}
}

// phase has everybody work for a while, and then rest.
func (x *stressed) phase(seed uint64) {
	const workers, work = 8, 100
	x.SetLimit(x.limit)
	var working atomic.Int32
	working.Store(workers)
	var kept atomic.Int64
	var wg sync.WaitGroup
	for id := range uint64(workers) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, id))
			for range work {
				x.use(rng)
			}
			if x.TryAcquire(1) { // not all come to rest with empty hands
				kept.Add(1)
			}
			working.Add(-1)
		})
	}
	wg.Go(func() {
		rng := rand.New(rand.NewPCG(seed, workers))
		for working.Load() > 0 {
			x.disturb(rng)
		}
		x.SetLimit(x.limit)
	})
	// Whoever keeps a permit would keep others waiting for ever.
	wg.Go(func() {
		for working.Load() > 0 {
			if n := kept.Swap(0); n > 0 {
				x.Release(n)
			}
			runtime.Gosched()
		}
	})
	wg.Wait()

	held := kept.Load()
	wantStats(x.t, x.Weighted, x.limit, held, 0)
	if n := x.inside.Load(); n != 0 {
		x.t.Errorf("conservation: %d are inside at rest", n)
	}
	x.Release(held)
	if err := x.Drain(canceled()); err != nil {
		x.t.Errorf("Drain at rest = %v, want nil", err)
	}
	wantIdle(x.t, x.Weighted, x.limit)
}

// use is one turn of one worker.
func (x *stressed) use(rng *rand.Rand) {
	n := rng.Int64N(x.limit + 1)
	if rng.IntN(4) == 0 {
		n = x.limit // all of them
	}
	var err error
	switch rng.IntN(5) {
	case 0:
		if !x.TryAcquire(n) {
			return
		}
	case 1:
		err = x.AcquireWithin(context.Background(), n, time.Duration(rng.IntN(30_000)))
	case 2:
		err = x.AcquireWithin(context.Background(), n, 0)
	case 3:
		err = x.Acquire(context.Background(), n)
	case 4:
		ctx, cancel := context.WithCancel(context.Background())
		x.cancels[rng.IntN(len(x.cancels))].Store(&cancel)
		if rng.IntN(2) == 0 {
			err = x.Acquire(ctx, n)
		} else {
			err = x.AcquireWithin(ctx, n, time.Duration(rng.IntN(30_000)))
		}
		defer cancel()
	}
	switch err {
	case nil:
	case context.Canceled, semaphore.ErrTimeout, semaphore.ErrQueueFull, semaphore.ErrExceedsLimit:
		return
	default:
		x.t.Errorf("got %v", err)
		return
	}

	if inside := x.inside.Add(n); inside > x.limit {
		x.t.Errorf("%d inside at a limit of %d", inside, x.limit)
	}
	alone, among := x.fixed && n == x.limit, x.fixed && 0 < n && n < x.limit
	if alone {
		x.plain++
	}
	for range rng.IntN(3) {
		if among && x.plain%2 != 0 {
			x.t.Error("inside together with one who holds all permits")
		}
		runtime.Gosched()
	}
	if alone {
		x.plain++
	}
	x.inside.Add(-n)
	if n > 1 && rng.IntN(3) == 0 {
		x.Release(1)
		n--
	}
	x.Release(n)
}

// disturb does what those who do not acquire do.
func (x *stressed) disturb(rng *rand.Rand) {
	switch rng.IntN(8) {
	case 0, 1, 2, 3:
		if cancel := x.cancels[rng.IntN(len(x.cancels))].Swap(nil); cancel != nil {
			(*cancel)()
		}
	case 4:
		st := x.Stats()
		if st.InUse < 0 || st.InUse > x.limit || st.Available != max(0, st.Limit-st.InUse) || st.Waiting < 0 {
			x.t.Errorf("Stats = %+v", st)
		}
	case 5:
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rng.IntN(50_000)))
		if err := x.Drain(ctx); err != nil && err != context.DeadlineExceeded {
			x.t.Errorf("Drain = %v", err)
		}
		cancel()
	case 6:
		if !x.fixed {
			x.SetLimit(rng.Int64N(x.limit + 1))
		}
	case 7:
		runtime.Gosched()
	}
}

// In a bubble a rest is known for certain while requests are still waiting: none
// of them may wait that fits. Between the rests all act at once, on as many
// processors as there are. Elsewhere a release looked at the queue before one
// that had just failed to acquire was in it.
// https://github.com/AutoMQ/automq/pull/1481
func TestStressRests(t *testing.T) {
	stress(t, rounds(600), func(seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			alike := seed%2 == 0 // all of one weight, so that each of them is the front
			cfg := semaphore.Config{Limit: rng.Int64N(6), Unfair: seed%3 == 0}
			sem := mustNew(cfg)
			type request struct {
				*call
				n      int64
				cancel context.CancelFunc
			}
			var requests []request
			var held int64
			limit := cfg.Limit
			for range 8 {
				var fs []func()
				for range rng.IntN(5) {
					n := rng.Int64N(5)
					if alike {
						n = 2
					}
					maxWait := []time.Duration{semaphore.Forever, time.Hour, time.Minute}[rng.IntN(3)]
					ctx, cancel := context.WithCancel(context.Background())
					r := request{&call{done: make(chan error, 1), err: errWaiting}, n, cancel}
					requests = append(requests, r)
					fs = append(fs, func() {
						go func() { r.done <- sem.AcquireWithin(ctx, n, maxWait) }()
					})
				}
				for range min(len(requests), rng.IntN(3)) {
					fs = append(fs, requests[rng.IntN(len(requests))].cancel)
				}
				for back := rng.Int64N(held + 1); back > 0; back-- {
					fs = append(fs, func() { sem.Release(1) })
					held--
				}
				if rng.IntN(3) == 0 {
					limit = rng.Int64N(6)
					fs = append(fs, func() { sem.SetLimit(limit) })
				}
				if rng.IntN(4) == 0 {
					fs = append(fs, func() { time.Sleep(time.Minute) })
				}
				together(fs...)
				synctest.Wait()

				waiting, fit := 0, 0
				for i := range requests {
					r := &requests[i]
					decided := r.err != errWaiting
					switch r.outcome() {
					case errWaiting:
						waiting++
						if limit > 0 && r.n > limit {
							t.Errorf("one of weight %d waits at a limit of %d", r.n, limit)
						}
					case nil:
						if !decided {
							held += r.n
						}
					case context.Canceled, semaphore.ErrTimeout, semaphore.ErrExceedsLimit:
					default:
						t.Errorf("got %v", r.err)
					}
				}
				for _, r := range requests {
					if r.err == errWaiting && held <= limit && r.n <= limit-held {
						fit++
					}
				}
				wantStats(t, sem, limit, held, waiting)
				// The front is one of those who wait, and it does not fit.
				if waiting > 0 && fit == waiting {
					t.Errorf("%d wait, with %d of %d in flight, and each of them fits", waiting, held, limit)
				}
				if t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
			sem.Close()
			synctest.Wait()
			sem.Release(held)
			for _, r := range requests {
				r.cancel()
			}
		})
	})
}
