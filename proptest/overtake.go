package proptest

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"
)

// overtake is a round in which one request waits for all permits and others
// hammer the semaphore with requests for one. Those who come after it has begun
// to wait must not get past it; or, in an unfair queue, not for ever. With one
// permit there would be nothing to get past it with.
func (r *round) overtake() *violation {
	if r.limit == 1 {
		return nil
	}
	if !r.TryAcquire(r.limit) {
		return violated(conservation, "TryAcquire(%d) = false on a semaphore that nobody uses", r.limit)
	}
	var seen atomic.Bool // the heavy request was granted; it says so before it releases
	r.start(func() {
		err := r.Acquire(context.Background(), r.limit)
		seen.Store(true)
		if err != nil {
			r.fail(violated(singleOutcome, "a request failed with %q, and nothing can have been the reason", err))
			return
		}
		r.Release(r.limit)
	})
	if !r.opts.Unfair {
		// While somebody waits TryAcquire fails, so this tells when it waits.
		for end := time.Now().Add(r.patience); ; runtime.Gosched() {
			r.Release(1)
			if !r.TryAcquire(1) {
				break
			}
			if time.Now().After(end) {
				return violated(noBarging, "TryAcquire(1) = true for %v, although a request for %d waits", r.patience, r.limit)
			}
		}
	} else {
		r.Release(1)
	}
	ready := make(chan struct{})
	for i := range 2 + r.rng.IntN(maxWorkers-1) {
		rng := r.fork()
		// They leave one place in a bounded queue to the heavy request: one that
		// is refused is not overtaken.
		waits := r.opts.MaxWaiters == 0 || i < r.opts.MaxWaiters-1
		r.start(func() {
			<-ready
			r.hammer(rng, waits, &seen)
		})
	}
	close(ready)
	for range r.limit - 1 {
		yield(r.rng)
		r.Release(1)
	}
	if v := r.rest(); v != nil {
		return v
	}
	return r.look()
}

// hammer makes requests for one permit, some of which wait if waits says so,
// until the heavy one has been granted.
func (r *round) hammer(rng *rand.Rand, waits bool, seen *atomic.Bool) {
	for end := time.Now().Add(r.patience / 2); !seen.Load(); {
		if time.Now().After(end) {
			r.fail(violated(noBarging, "a request for %d permits has been overtaken for %v", r.limit, r.patience/2))
			return
		}
		if !waits || rng.IntN(2) == 0 {
			if !r.TryAcquire(1) {
				runtime.Gosched()
				continue
			}
		} else if err := r.Acquire(context.Background(), 1); err != nil {
			r.fail(violated(singleOutcome, "a request failed with %q, and nothing can have been the reason", err))
			return
		}
		if !seen.Load() && !r.opts.Unfair {
			r.fail(violated(noBarging, "a request for 1 was granted past one for %d that waited before it", r.limit))
		}
		yield(rng)
		r.Release(1)
	}
}
