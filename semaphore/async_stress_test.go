package semaphore_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// asyncStress is a semaphore on which requests of all kinds meet, and what is
// known of them.
type asyncStress struct {
	*semaphore.Weighted
	t      *testing.T
	limit  int64        // the highest there is
	inside atomic.Int64 // permits, by their holders' own count

	// undecided counts the requests of AcquireFunc that neither f nor Cancel
	// has ended. It panics if both do, or one does twice.
	undecided sync.WaitGroup

	// shared are contexts that many requests have, until somebody ends one and
	// puts another there.
	shared [4]atomic.Pointer[sharedContext]
}

// sharedContext is a context, its end, and what is to be said of its end.
type sharedContext struct {
	context.Context
	end func()
}

// newShared returns a context of one of the kinds there are. Of those that are
// not of package context, some take a while from their end to telling of it.
func newShared(r *rand.Rand) *sharedContext {
	if r.IntN(3) > 0 {
		ctx, cancel := context.WithCancel(context.Background())
		return &sharedContext{ctx, cancel}
	}
	ctx := newManual()
	switch r.IntN(3) {
	case 0:
		return &sharedContext{plain{ctx}, func() { ctx.finish(context.Canceled) }}
	case 1:
		return &sharedContext{ctx, func() { ctx.end(context.Canceled) }}
	default:
		return &sharedContext{ctx, func() {
			ctx.finish(context.Canceled)
			for range 100 {
				runtime.Gosched()
			}
			ctx.tell()
		}}
	}
}

// TestStressAsync lets blocking and asynchronous requests, time-outs,
// cancellations and changes of the limit meet, and ends in Close and Drain. At
// each rest all permits are there, and at the end no goroutine is left.
func TestStressAsync(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	stress(t, rounds(20), func(seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		cfg := semaphore.Config{Limit: 1 + r.Int64N(6), MaxWaiters: r.IntN(2) * 6, Unfair: r.IntN(3) == 0}
		sem, err := semaphore.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		x := &asyncStress{Weighted: sem, t: t, limit: cfg.Limit}
		for i := range x.shared {
			x.shared[i].Store(newShared(r))
		}
		x.work(seed, func() {
			if r.IntN(2) == 0 {
				x.SetLimit(r.Int64N(x.limit + 1))
			}
		})
		x.undecided.Wait()
		wantIdle(t, sem, cfg.Limit)

		turns := r.IntN(100)
		x.work(seed, func() {
			if turns--; turns == 0 {
				x.Close()
			}
		})
		x.Close()
		x.undecided.Wait()
		if err := x.Drain(canceled()); err != nil {
			t.Errorf("Drain at rest = %v, want nil", err)
		}
		want := semaphore.Stats{Limit: cfg.Limit, Available: cfg.Limit, Closed: true}
		if got := sem.Stats(); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
		if n := x.inside.Load(); n != 0 {
			t.Errorf("conservation: %d are inside at rest", n)
		}
		for i := range x.shared {
			x.shared[i].Load().end()
		}
		if t.Failed() {
			t.Fatalf("with seed %d and %+v", seed, cfg)
		}
	})
	wantNobodyInside(t)
	wantGoroutines(t, goroutines)
}

// work has everybody work for a while, with somebody who disturbs meanwhile.
func (x *asyncStress) work(seed uint64, disturb func()) {
	const workers, requests = 8, 100
	var busy atomic.Int32
	busy.Store(workers)
	var wg sync.WaitGroup
	for id := range uint64(workers) {
		wg.Go(func() {
			defer busy.Add(-1)
			r := rand.New(rand.NewPCG(seed, id))
			for range requests {
				x.request(r)
			}
		})
	}
	wg.Go(func() {
		r := rand.New(rand.NewPCG(seed, workers))
		for busy.Load() > 0 {
			disturb()
			if i := r.IntN(4 * len(x.shared)); i < len(x.shared) {
				x.shared[i].Swap(newShared(r)).end()
			}
			runtime.Gosched()
		}
		x.SetLimit(x.limit) // after a pause somebody may still wait
	})
	wg.Wait()
}

// request is one turn of a worker: a request of some kind.
func (x *asyncStress) request(r *rand.Rand) {
	n := r.Int64N(x.limit + 1)
	ctx := context.Background()
	switch r.IntN(4) {
	case 0, 1:
		ctx = x.shared[r.IntN(len(x.shared))].Load()
	case 2:
		own, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(100_000)))
		defer cancel()
		ctx = own
	}
	maxWait := semaphore.Forever
	if r.IntN(3) == 0 {
		maxWait = time.Duration(r.IntN(50_000)) - 1000
	}
	switch r.IntN(8) {
	case 0:
		if x.TryAcquire(n) {
			x.hold(n, r.IntN(3))
		}
	case 1:
		x.decided(x.AcquireWithin(ctx, n, maxWait), n, r.IntN(3))
	case 2, 3, 4:
		x.async(r, ctx, n, maxWait)
	default:
		x.withFunc(r, ctx, n, maxWait)
	}
}

// async is a request of AcquireAsync, and what its owner may do with it.
func (x *asyncStress) async(r *rand.Rand, ctx context.Context, n int64, maxWait time.Duration) {
	p := x.AcquireAsync(ctx, n, maxWait)
	err := semaphore.ErrPending
	switch r.IntN(4) {
	case 0:
		<-p.Done()
		err = p.Err()
	case 1:
		yield(r.IntN(20))
		if p.Cancel() {
			err = context.Canceled
		} else {
			err = p.Err()
		}
	case 2:
		err = p.Wait(context.Background())
	case 3:
		wait, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(50_000)))
		err = p.Wait(wait)
		cancel()
		if err == context.DeadlineExceeded && p.Err() == context.Canceled {
			err = context.Canceled // withdrawn
		}
	}
	if p.Cancel() {
		x.t.Error("single outcome: Cancel of a decided request = true")
	}
	if again := p.Err(); again != err {
		x.t.Errorf("single outcome: %v, and later %v", err, again)
	}
	x.decided(err, n, r.IntN(3))
}

// withFunc is a request of AcquireFunc, which may be canceled.
func (x *asyncStress) withFunc(r *rand.Rand, ctx context.Context, n int64, maxWait time.Duration) {
	turns, goexit := r.IntN(3), r.IntN(4) == 0
	x.undecided.Add(1)
	p := x.AcquireFunc(ctx, n, maxWait, func(err error) {
		defer x.undecided.Done()
		x.decided(err, n, turns)
		if goexit {
			runtime.Goexit()
		}
	})
	switch r.IntN(3) {
	case 0:
		yield(r.IntN(20))
		if p.Cancel() {
			x.undecided.Done()
		}
	case 1:
		<-p.Done()
		if err := p.Err(); err == semaphore.ErrPending {
			x.t.Error("Done is closed and the request is pending")
		}
	}
}

// decided goes on with a request's outcome.
func (x *asyncStress) decided(err error, n int64, turns int) {
	switch err {
	case nil:
		x.hold(n, turns)
	case context.Canceled, context.DeadlineExceeded, semaphore.ErrTimeout, semaphore.ErrQueueFull, semaphore.ErrExceedsLimit:
	case semaphore.ErrClosed:
		if !x.Stats().Closed {
			x.t.Error("ErrClosed before Close")
		}
	default:
		x.t.Errorf("outcome: %v", err)
	}
}

// hold is what a holder does.
func (x *asyncStress) hold(n int64, turns int) {
	if inside := x.inside.Add(n); inside > x.limit {
		x.t.Errorf("%d inside at a limit of %d", inside, x.limit)
	}
	yield(turns)
	x.inside.Add(-n)
	x.Release(n)
}

func yield(turns int) {
	for range turns {
		runtime.Gosched()
	}
}

// Asked by one goroutine, requests stand in a known order, so at each rest the
// front is known: it does not fit, or it would have been granted. Between the
// rests everything happens at once.
func TestStressAsyncRests(t *testing.T) {
	stress(t, rounds(500), func(seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			limit, held := r.Int64N(6), int64(0)
			sem, err := semaphore.New(semaphore.Config{Limit: limit, Unfair: seed%3 == 0})
			if err != nil {
				t.Fatal(err)
			}
			type request struct {
				*asked
				n int64
			}
			var queue []request
			for range 8 {
				shared := newShared(r)
				var asks []func() request
				for range r.IntN(5) {
					n, form := r.Int64N(5), forms[r.IntN(2)]
					ctx := []context.Context{context.Background(), shared}[r.IntN(2)]
					maxWait := []time.Duration{semaphore.Forever, time.Hour, time.Minute}[r.IntN(3)]
					asks = append(asks, func() request { return request{form.ask(ctx, sem, n, maxWait), n} })
				}
				var asked []request
				acts := []func(){func() {
					for _, ask := range asks {
						asked = append(asked, ask())
					}
				}}
				for range min(len(queue), r.IntN(3)) {
					p := queue[r.IntN(len(queue))].Pending
					acts = append(acts, func() { p.Cancel() })
				}
				for back := r.Int64N(held + 1); back > 0; back-- {
					acts = append(acts, func() { sem.Release(1) })
					held--
				}
				if r.IntN(3) == 0 {
					limit = r.Int64N(6)
					acts = append(acts, func() { sem.SetLimit(limit) })
				}
				if r.IntN(3) == 0 {
					acts = append(acts, func() { time.Sleep(time.Minute) })
				}
				if r.IntN(2) == 0 {
					acts = append(acts, shared.end)
				} else {
					defer shared.end()
				}
				together(acts...)
				synctest.Wait()

				before := append(queue, asked...)
				queue = nil
				for _, p := range before {
					switch err := p.Err(); err {
					case semaphore.ErrPending:
						queue = append(queue, p)
					case nil:
						held += p.n
					case context.Canceled:
						p.withdrawn = len(p.called()) == 0 // by Cancel, not by its context
						p.want(t, "canceled", err)
					case semaphore.ErrTimeout, semaphore.ErrExceedsLimit:
						p.want(t, "refused", err)
					default:
						t.Errorf("outcome: %v", err)
					}
				}
				wantStats(t, sem, limit, held, len(queue))
				if len(queue) > 0 {
					if front := queue[0]; held+front.n <= limit || 0 < limit && limit < front.n {
						t.Errorf("the front, of weight %d, waits at a limit of %d with %d in flight", front.n, limit, held)
					}
				}
				if t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
			sem.Close()
			for _, p := range queue {
				p.want(t, "closed", semaphore.ErrClosed)
			}
			sem.Release(held)
			wantInUse(t, sem, 0)
		})
	})
}
