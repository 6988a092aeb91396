package linearize

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/turnstile-go/turnstile/semaphore"
)

// TestBrokenIsFound runs histories on semaphores that are each broken in one
// way, until the checker objects to one.
func TestBrokenIsFound(t *testing.T) {
	for _, tt := range []struct {
		name   string
		kind   kind
		broken func(ours) limiter
	}{
		{"limit and permits in use in two words", notWaiting, func(s ours) limiter {
			return newTwoWords(s.Stats().Limit, runtime.Gosched)
		}},
		{"try fails when it loses a race", notWaiting, func(s ours) limiter { return &hasty{ours: s} }},
		{"try fails when it loses a race, unfair", unfair, func(s ours) limiter { return &hasty{ours: s} }},
		{"release takes effect later", notWaiting, func(s ours) limiter { return late{s} }},
		{"stats of two moments", notWaiting, func(s ours) limiter { return torn{s} }},
		{"waiter that timed out stays queued", inOrder, func(s ours) limiter { return abandoning{s} }},
		{"waiter that timed out stays queued, unfair", unfair, func(s ours) limiter { return abandoning{s} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			findBroken(t, tt.kind, func(sc script) limiter {
				s, err := semaphore.New(semaphore.Config{Limit: sc.limit, Unfair: sc.unfair})
				if err != nil {
					t.Fatal(err)
				}
				return tt.broken(ours{s})
			})
		})
	}
}

// findBroken fails if no history on such a limiter, which has no bound on its
// queue, is objected to.
func findBroken(t *testing.T, k kind, broken func(sc script) limiter) {
	const atMost = 2000
	for seed := range uint64(atMost) {
		sc := scriptFor(seed, k)
		sc.maxWaiters = 0
		sc.untilRest = 100 * time.Millisecond
		if sc.check(sc.run(broken(sc))) == porcupine.Illegal {
			t.Logf("found by history %d", seed)
			return
		}
	}
	t.Errorf("%d histories got past the checker, want one found", atMost)
}

// twoWords has the limit in one word and the permits in use in another, and
// swaps the latter only. It looks right as long as nobody calls SetLimit.
type twoWords struct {
	ours         // nil: requests that wait are beyond it
	limit, inUse atomic.Int64
	closed       atomic.Bool
	between      func() // runs when the limit was loaded
}

func newTwoWords(limit int64, between func()) *twoWords {
	s := &twoWords{between: between}
	s.limit.Store(limit)
	return s
}

func (s *twoWords) TryAcquire(n int64) bool {
	return s.AcquireWithin(context.Background(), n, 0) == nil
}

func (s *twoWords) AcquireWithin(_ context.Context, n int64, _ time.Duration) error {
	for {
		limit := s.limit.Load()
		s.between()
		inUse := s.inUse.Load()
		switch {
		case s.closed.Load():
			return semaphore.ErrClosed
		case 0 < limit && limit < n:
			return semaphore.ErrExceedsLimit
		case inUse+n > limit:
			return semaphore.ErrTimeout
		case s.inUse.CompareAndSwap(inUse, inUse+n):
			return nil
		}
	}
}

func (s *twoWords) Release(n int64)      { s.inUse.Add(-n) }
func (s *twoWords) SetLimit(limit int64) { s.limit.Store(limit) }
func (s *twoWords) Close()               { s.closed.Store(true) }

func (s *twoWords) Drain(ctx context.Context) error {
	if s.inUse.Load() > 0 {
		return ctx.Err()
	}
	return nil
}

func (s *twoWords) Stats() semaphore.Stats {
	limit, inUse := s.limit.Load(), s.inUse.Load()
	return semaphore.Stats{Limit: limit, InUse: inUse, Available: max(0, limit-inUse), Closed: s.closed.Load()}
}

// TestStaleLimitIsFound makes twoWords do the wrong thing for certain: an
// acquire that has loaded the limit succeeds after SetLimit(0) has returned.
func TestStaleLimitIsFound(t *testing.T) {
	loaded, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := newTwoWords(1, func() {
		once.Do(func() {
			close(loaded)
			<-goOn
		})
	})
	h := &history{script: script{limit: 1}, lim: s, begun: time.Now()}
	acquirer, other := h.client(0), h.client(1)
	var wg sync.WaitGroup
	wg.Go(func() { acquirer.do(call{op: try, n: 1}, func() reply { return reply{ok: s.TryAcquire(1)} }) })
	<-loaded
	other.do(call{op: setLimit, n: 0}, func() (r reply) { s.SetLimit(0); return })
	other.stats(stats)
	close(goOn)
	wg.Wait()

	ops := append(acquirer.ops, other.ops...)
	if got := h.check(ops); got != porcupine.Illegal {
		t.Errorf("got %s, want %s\n%s", got, porcupine.Illegal, describe(ops))
	}
	// Without the look in between it might have acquired before SetLimit.
	ops = append(acquirer.ops, other.ops[:1]...)
	if got := h.check(ops); got != porcupine.Ok {
		t.Errorf("without Stats: got %s, want %s\n%s", got, porcupine.Ok, describe(ops))
	}
}

// hasty refuses when another TryAcquire is under way.
type hasty struct {
	ours
	mu sync.Mutex
}

func (s *hasty) TryAcquire(n int64) bool {
	if !s.mu.TryLock() {
		return false
	}
	defer s.mu.Unlock()
	runtime.Gosched()
	return s.Weighted.TryAcquire(n)
}

// late has Release return before the permits are back.
type late struct{ ours }

func (s late) Release(n int64) { go s.Weighted.Release(n) }

// torn puts its Stats together from two.
type torn struct{ ours }

func (s torn) Stats() semaphore.Stats {
	limit := s.Weighted.Stats().Limit
	runtime.Gosched()
	st := s.Weighted.Stats()
	st.Limit, st.Available = limit, max(0, limit-st.InUse)
	return st
}

// abandoning forgets a waiter that timed out, but leaves it in the queue.
type abandoning struct{ ours }

func (s abandoning) AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error {
	if maxWait <= 0 {
		return s.Weighted.AcquireWithin(ctx, n, maxWait)
	}
	p := s.Weighted.AcquireAsync(ctx, n, semaphore.Forever)
	select {
	case <-p.Done():
		return p.Err()
	case <-time.After(maxWait):
		return semaphore.ErrTimeout
	}
}
