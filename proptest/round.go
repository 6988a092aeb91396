package proptest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// round is one round of Stress.
type round struct {
	abilities
	oracle
	opts     *Options
	patience time.Duration
	rng      *rand.Rand

	limit  int64 // at the beginning and at the end
	held   int64 // held throughout, by nobody in particular
	closes bool  // Close is called in between
	shared context.Context

	cancels [maxWorkers]atomic.Pointer[context.CancelFunc] // of calls under way
	wg      sync.WaitGroup
	first   atomic.Pointer[violation]
}

const maxWorkers = 8

func newRound(s *stress, sem abilities, limit int64, rng *rand.Rand) *round {
	r := &round{
		abilities: sem,
		opts:      &s.opts,
		patience:  s.patience,
		rng:       rng,
		limit:     limit,
	}
	r.limits[0].Store(limit)
	r.fixed = rng.IntN(2) == 0 || r.resizable == nil
	return r
}

// fail notes v, if it is the first.
func (r *round) fail(v *violation) {
	if v != nil {
		r.first.CompareAndSwap(nil, v)
	}
}

// fork returns random numbers for another goroutine.
func (r *round) fork() *rand.Rand { return rand.New(rand.NewPCG(r.rng.Uint64(), 0)) }

// start runs f, which must not panic, on a goroutine that the rest waits for.
func (r *round) start(f func()) {
	r.wg.Go(func() {
		v := r.guard(func() *violation {
			f()
			return nil
		})
		if v != nil {
			r.fail(v)
		}
	})
}

// guard calls f, and takes a panic of the semaphore for a violation.
func (r *round) guard(f func() *violation) (v *violation) {
	defer func() {
		if p := recover(); p != nil {
			v = violated(conservation, "a call panicked: %v", p)
		}
	}()
	return f()
}

// run has workers make random calls, and one goroutine change what there is to
// change. Then it looks at what is left.
func (r *round) run() *violation {
	if r.rng.IntN(2) == 0 {
		r.held = r.rng.Int64N(r.limit)
	}
	r.closes = r.closable != nil && r.rng.IntN(8) == 0
	if !r.TryAcquire(r.held) {
		return violated(conservation, "TryAcquire(%d) = false on a semaphore of %d that nobody uses", r.held, r.limit)
	}
	r.inside.Store(r.held)

	var cancel context.CancelFunc
	r.shared, cancel = context.WithCancel(context.Background())
	ready := make(chan struct{})
	work := 1 + r.rng.IntN(40)
	for i := range 2 + r.rng.IntN(maxWorkers-1) {
		rng := r.fork()
		r.start(func() {
			<-ready
			for range work {
				r.work(i, rng)
			}
		})
	}
	rng := r.fork()
	r.start(func() {
		<-ready
		r.control(rng, cancel)
	})
	close(ready)
	if v := r.rest(); v != nil {
		cancel()
		return v
	}
	return r.look()
}

// control changes the limit now and then, looks at what can be seen, and ends
// the shared context and perhaps the semaphore.
func (r *round) control(rng *rand.Rand, cancel context.CancelFunc) {
	for range rng.IntN(maxLimits - 2) {
		yield(rng)
		switch {
		case !r.fixed && rng.IntN(2) == 0:
			r.setLimit(rng.Int64N(r.limit+3), r.resizable.SetLimit)
		case r.statable != nil && rng.IntN(2) == 0:
			r.fail(r.lookAt(r.statable.Stats()))
		case r.drainable != nil && rng.IntN(4) == 0:
			ctx, cancel := context.WithTimeout(context.Background(), wait(rng))
			if err := r.drainable.Drain(ctx); err == nil && r.held > 0 {
				r.fail(violated(conservation, "Drain returned, and %d permits were in use all the time", r.held))
			}
			cancel()
		}
	}
	cancel()
	if r.closes {
		r.closable.Close()
	}
	if r.announced.Load() > 0 {
		r.setLimit(r.limit, r.resizable.SetLimit)
	}
}

// lookAt looks at a snapshot taken at any time.
func (r *round) lookAt(s semaphore.Stats) *violation {
	if s.Available != max(0, s.Limit-s.InUse) || s.Waiting < 0 || s.InUse < r.held || r.fixed && s.InUse > r.limit {
		return violated(conservation, "Stats() = %+v, at a limit of %d with at least %d permits in use", s, r.limit, r.held)
	}
	return nil
}

// rest waits until every call has returned. Nothing is in use then but what is
// held throughout, and whoever waits for that has a context that ends.
func (r *round) rest() *violation {
	over := make(chan struct{})
	go func() {
		r.wg.Wait()
		close(over)
	}()
	timer := time.NewTimer(r.patience)
	defer timer.Stop()
	select {
	case <-over:
		return r.first.Load()
	case <-timer.C:
	}
	if v := r.first.Load(); v != nil {
		return v
	}
	return r.stuck()
}

// stuck says why calls do not return.
func (r *round) stuck() *violation {
	probe := make(chan semaphore.Stats)
	go func() {
		var s semaphore.Stats
		if s.InUse = r.inside.Load(); r.statable != nil {
			s = r.statable.Stats()
		}
		r.TryAcquire(0)
		probe <- s
	}()
	select {
	case s := <-probe:
		invariant := delivery
		if s.InUse != r.inside.Load() {
			invariant = conservation
		}
		return violated(invariant, "calls still wait after %v, although %d of %d permits are in use", r.patience, r.inside.Load(), r.limit)
	case <-time.After(r.patience):
		return violated(lockOrder, "TryAcquire(0) did not return in %v", r.patience)
	}
}

// look looks at the semaphore when nobody uses it any more.
func (r *round) look() *violation {
	if inside := r.inside.Load(); inside != r.held {
		return violated(conservation, "%d permits are in use at rest, want %d", inside, r.held)
	}
	if r.statable != nil {
		got := r.statable.Stats()
		want := semaphore.Stats{Limit: r.limit, InUse: r.held, Available: r.limit - r.held, Closed: r.closes}
		if got != want {
			return violated(conservation, "at rest Stats() = %+v, want %+v", got, want)
		}
	}
	r.Release(r.held)
	if r.drainable != nil {
		ctx, cancel := context.WithTimeout(context.Background(), r.patience)
		defer cancel()
		if err := r.drainable.Drain(ctx); err != nil {
			return violated(delivery, "Drain = %v, although nothing is in use", err)
		}
	}
	if r.closes {
		if r.TryAcquire(0) {
			return violated(singleOutcome, "TryAcquire(0) = true after Close")
		}
		return nil
	}
	if !r.TryAcquire(r.limit) {
		return violated(conservation, "TryAcquire(%d) = false, although nothing is in use of %d", r.limit, r.limit)
	}
	if r.TryAcquire(1) {
		return violated(conservation, "TryAcquire(1) = true, although all %d permits are in use", r.limit)
	}
	r.Release(r.limit)
	return nil
}

// work makes one call and, if it is granted something, uses it.
func (r *round) work(worker int, rng *rand.Rand) {
	if rng.IntN(8) == 0 {
		if cancel := r.cancels[rng.IntN(maxWorkers)].Load(); cancel != nil {
			(*cancel)()
		}
	}
	n := rng.Int64N(r.limit + 2)
	q := &query{n: n, since: r.settled.Load(), wait: semaphore.Forever}
	q.ctx, q.cancel = r.context(n, worker, rng)
	defer func() { q.cancel() }()
	q.ended = q.ctx.Err() != nil

	how := rng.IntN(4)
	switch {
	case how == 0:
		if r.TryAcquire(n) {
			r.use(q, rng)
		}
		return
	case how == 1 && r.timed != nil:
		q.wait = wait(rng)
		q.err = r.timed.AcquireWithin(q.ctx, n, q.wait)
	case how == 2 && r.asynchronous != nil:
		if rng.IntN(4) == 0 {
			q.wait = wait(rng)
		}
		if rng.IntN(2) == 0 {
			r.askFunc(q, rng)
			return
		}
		r.askAsync(q, rng)
	default:
		q.err = r.Acquire(q.ctx, n)
	}
	r.outcome(q, rng)
}

// query is one request of a worker.
type query struct {
	ctx    context.Context
	cancel context.CancelFunc
	n      int64
	wait   time.Duration
	since  int64 // the number of the limit settled before
	ended  bool  // whether ctx had ended before
	recall bool  // withdrawn by Cancel or Wait
	err    error
}

// context returns a context for a request of n permits. Unless they can be had
// in the end, the context ends.
func (r *round) context(n int64, worker int, rng *rand.Rand) (context.Context, context.CancelFunc) {
	kind := rng.IntN(6)
	if n > r.limit-r.held && kind < 3 {
		kind += 3
	}
	switch kind {
	case 0, 1:
		return context.Background(), func() {}
	case 2: // for another worker to cancel
		ctx, cancel := context.WithCancel(context.Background())
		r.cancels[worker].Store(&cancel)
		return ctx, cancel
	case 3:
		return r.shared, func() {}
	case 4:
		return context.WithTimeout(context.Background(), wait(rng))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx, cancel
}

// askAsync makes an asynchronous request and sees it through.
func (r *round) askAsync(q *query, rng *rand.Rand) {
	p := r.asynchronous.AcquireAsync(q.ctx, q.n, q.wait)
	yield(rng)
	switch rng.IntN(3) {
	case 0:
		if q.recall = p.Cancel(); q.recall && p.Err() != context.Canceled {
			r.fail(violated(singleOutcome, "Err() = %v after Cancel() = true", p.Err()))
		}
		if q.err = p.Err(); q.err != semaphore.ErrPending {
			return
		}
		r.fail(violated(singleOutcome, "Err() = %v after Cancel() = false", q.err))
	case 1:
		ctx, cancel := context.WithTimeout(context.Background(), wait(rng))
		defer cancel()
		q.err = p.Wait(ctx)
		q.recall = q.err != nil && ctx.Err() != nil
	default:
		<-p.Done()
		q.err = p.Err()
	}
}

// askFunc makes an asynchronous request whose function sees it through.
func (r *round) askFunc(q *query, rng *rand.Rand) {
	seed := rng.Uint64()
	withdraws := rng.IntN(3) == 0
	ctx, cancel := q.ctx, q.cancel
	q.cancel = func() {} // it outlives the work
	r.wg.Add(1)
	var calls atomic.Int64
	p := r.asynchronous.AcquireFunc(ctx, q.n, q.wait, func(err error) {
		defer r.wg.Done()
		defer cancel()
		if calls.Add(1) > 1 {
			r.fail(violated(singleOutcome, "the function of AcquireFunc was called twice"))
			return
		}
		defer func() {
			if p := recover(); p != nil {
				r.fail(violated(conservation, "a call panicked: %v", p))
			}
		}()
		asked := *q
		asked.err = err
		r.outcome(&asked, rand.New(rand.NewPCG(seed, 0)))
	})
	if withdraws && p.Cancel() {
		if calls.Add(1) > 1 {
			r.fail(violated(singleOutcome, "the function of AcquireFunc was called, and the request was withdrawn"))
			return
		}
		cancel()
		r.wg.Done()
	}
}

// outcome looks at what a request came to, and uses what it was granted.
func (r *round) outcome(q *query, rng *rand.Rand) {
	var v *violation
	switch {
	case q.err == nil && q.ended:
		v = violated(singleOutcome, "a request was granted whose context had ended before it was made")
	case q.err == nil:
		r.use(q, rng)
	case q.recall:
	case errors.Is(q.err, context.Canceled) || errors.Is(q.err, context.DeadlineExceeded):
		if q.err != q.ctx.Err() {
			v = violated(singleOutcome, "a request failed with %q, and the error of its context is %v", q.err, q.ctx.Err())
		}
	case q.ended:
		v = violated(singleOutcome, "a request failed with %q, although its context had ended before", q.err)
	case q.n > r.limit && !r.opts.ParksOversized, !r.fixed, r.closes, r.opts.MaxWaiters > 0, q.wait < semaphore.Forever:
	default:
		v = violated(singleOutcome, "a request failed with %q, and nothing can have been the reason", q.err)
	}
	r.fail(v)
}

// use is the critical section.
func (r *round) use(q *query, rng *rand.Rand) {
	r.fail(r.enter(q.n, q.since))
	yield(rng)
	first := rng.Int64N(q.n + 1)
	r.leave(first)
	r.Release(first)
	if rest := q.n - first; rest > 0 {
		yield(rng)
		r.leave(rest)
		r.Release(rest)
	}
}

// yield lets others run, or not, or for a while.
func yield(rng *rand.Rand) {
	for range rng.IntN(4) {
		runtime.Gosched()
	}
}

// wait is a wait so short that it meets whatever else happens.
func wait(rng *rand.Rand) time.Duration {
	return time.Duration(rng.IntN(100)) * time.Microsecond
}
