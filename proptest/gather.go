package proptest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// gather is a round in which requests wait that fit together, and whoever is
// granted keeps its permits until all are: so a waiter that is forgotten is not
// helped by those who release after it. Among them are others, whose contexts
// end.
func (r *round) gather() *violation {
	if !r.TryAcquire(r.limit) {
		return violated(conservation, "TryAcquire(%d) = false on a semaphore that nobody uses", r.limit)
	}
	r.inside.Store(r.limit)
	var cancel context.CancelFunc
	r.shared, cancel = context.WithCancel(context.Background())
	defer cancel()
	var missing sync.WaitGroup
	all := make(chan struct{})
	for i, free := 0, r.limit; free > 0 && (r.opts.MaxWaiters == 0 || i < r.opts.MaxWaiters); i++ {
		n := 1 + r.rng.Int64N(min(free, 6))
		free -= n
		rng := r.fork()
		missing.Add(1)
		r.start(func() {
			yield(rng)
			q := &query{n: n, err: r.patient(n, rng)}
			if q.err != nil {
				r.fail(violated(singleOutcome, "a request failed with %q, and nothing can have been the reason", q.err))
			} else {
				r.fail(r.enter(n, 0))
				defer r.Release(n)
				defer r.leave(n)
			}
			missing.Done()
			<-all
		})
		if r.opts.MaxWaiters == 0 && r.rng.IntN(2) == 0 {
			heavy, rng := 1+r.rng.Int64N(r.limit), r.fork()
			r.start(func() { r.impatient(heavy, rng) })
		}
	}
	yield(r.rng)
	r.start(cancel)
	r.letGo()

	granted := make(chan struct{})
	go func() {
		missing.Wait()
		close(granted)
	}()
	timer := time.NewTimer(r.patience)
	defer timer.Stop()
	select {
	case <-granted:
	case <-timer.C:
		r.fail(violated(delivery, "requests that fit still wait after %v: %d of %d permits are in use", r.patience, r.inside.Load(), r.limit))
	}
	close(all)
	if v := r.rest(); v != nil {
		return v
	}
	return r.look()
}

// letGo returns all permits: in parts, or all at once, or in a pause that then
// ends.
func (r *round) letGo() {
	paused := r.resizable != nil && r.rng.IntN(3) == 0
	if paused {
		r.setLimit(0, r.resizable.SetLimit)
	}
	for held := r.limit; held > 0; yield(r.rng) {
		n := 1 + r.rng.Int64N(held)
		held -= n
		r.leave(n)
		r.Release(n)
	}
	if paused {
		r.setLimit(r.limit, r.resizable.SetLimit)
	}
}

// patient waits for n permits for as long as it takes.
func (r *round) patient(n int64, rng *rand.Rand) error {
	switch how := rng.IntN(3); {
	case how == 0 && r.asynchronous != nil:
		p := r.asynchronous.AcquireAsync(context.Background(), n, never)
		<-p.Done()
		return p.Err()
	case how == 1 && r.asynchronous != nil:
		err := make(chan error, 1)
		r.asynchronous.AcquireFunc(context.Background(), n, never, func(e error) { err <- e })
		return <-err
	case how == 2 && r.timed != nil:
		return r.timed.AcquireWithin(context.Background(), n, never-1)
	}
	return r.Acquire(context.Background(), n)
}

// impatient asks for n permits with a context that ends soon, for it alone or
// for many, and returns what it gets.
func (r *round) impatient(n int64, rng *rand.Rand) {
	ctx := r.shared
	if rng.IntN(2) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait(rng))
		defer cancel()
	}
	q := &query{ctx: ctx, n: n, wait: never, err: r.Acquire(ctx, n)}
	r.outcome(q, rng)
}
