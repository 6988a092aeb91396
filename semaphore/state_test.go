package semaphore

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// wait begins a call that is expected to wait. Only in a bubble.
func wait(f func() error) {
	go f()
	synctest.Wait()
}

// After each kind of operation the state word is what the table in state.go
// says. What is told by Stats is tested elsewhere; here is what the fast paths
// see, and one word that is wrong, or negative without need, would at best make
// every later operation take the mutex.
func TestStateWordAfterEachOperation(t *testing.T) {
	const limit = 4
	ctx := context.Background()
	// waiting returns a semaphore with so much in use and one waiter, whose
	// context can be canceled and whose wait is an hour at most.
	waiting := func(s *Weighted, inUse, n int64) (cancel func()) {
		ctx, cancel := context.WithCancel(ctx)
		s.TryAcquire(inUse)
		wait(func() error { return s.AcquireWithin(ctx, n, time.Hour) })
		return cancel
	}
	draining := func(s *Weighted, inUse int64) (cancel func()) {
		ctx, cancel := context.WithCancel(ctx)
		s.TryAcquire(inUse)
		wait(func() error { return s.Drain(ctx) })
		return cancel
	}
	elapse := func(d time.Duration) {
		time.Sleep(d)
		synctest.Wait()
	}

	for _, tt := range []struct {
		reason string
		do     func(s *Weighted)
		want   int64 // the word
		avail  int64 // the truth, where the word is negative
	}{
		{"new", func(s *Weighted) {}, 4, 0},
		{"some taken by a try", func(s *Weighted) { s.TryAcquire(3) }, 1, 0},
		{"some taken by an acquire", func(s *Weighted) { s.Acquire(ctx, 3) }, 1, 0},
		{"all taken", func(s *Weighted) { s.TryAcquire(4) }, 0, 0},
		{"nothing taken of nothing", func(s *Weighted) { s.TryAcquire(4); s.TryAcquire(0) }, 0, 0},
		{"a try failed", func(s *Weighted) { s.TryAcquire(3); s.TryAcquire(2) }, 1, 0},
		{"all released", func(s *Weighted) { s.TryAcquire(4); s.Release(4) }, 4, 0},
		{"looked at", func(s *Weighted) { s.TryAcquire(3); s.Stats() }, 1, 0},
		{"too much released", func(s *Weighted) {
			s.TryAcquire(3)
			defer func() { recover() }()
			s.Release(4)
		}, 1, 0},

		{"refused for its weight", func(s *Weighted) { s.Acquire(ctx, 5) }, 4, 0},
		{"refused for lack of time", func(s *Weighted) { s.TryAcquire(3); s.AcquireWithin(ctx, 2, 0) }, 1, 0},
		{"refused for a full queue", func(s *Weighted) { waiting(s, 3, 4); s.Acquire(ctx, 1) }, shut, 1},

		{"somebody waits", func(s *Weighted) { waiting(s, 3, 4) }, shut, 1},
		{"somebody waits for nothing free", func(s *Weighted) { waiting(s, 4, 1) }, shut, 0},
		{"a try while somebody waits", func(s *Weighted) { waiting(s, 3, 4); s.TryAcquire(1) }, shut, 1},
		{"a release that does not suffice", func(s *Weighted) { waiting(s, 3, 4); s.Release(1) }, shut, 2},
		{"a waiter was granted all", func(s *Weighted) { waiting(s, 3, 4); s.Release(3) }, 0, 0},
		{"a waiter was granted some", func(s *Weighted) { waiting(s, 4, 1); s.Release(4) }, 3, 0},
		{"a waiter was canceled", func(s *Weighted) { waiting(s, 3, 4)(); synctest.Wait() }, 1, 0},
		{"a waiter expired", func(s *Weighted) { waiting(s, 3, 4); elapse(time.Hour) }, 1, 0},
		{"a waiter was evicted", func(s *Weighted) { waiting(s, 1, 4); s.SetLimit(2) }, 1, 0},
		{"a waiter was granted by growth", func(s *Weighted) { waiting(s, 3, 4); s.SetLimit(8) }, 1, 0},

		{"the same limit", func(s *Weighted) { s.TryAcquire(3); s.SetLimit(4) }, 1, 0},
		{"a lower limit", func(s *Weighted) { s.TryAcquire(1); s.SetLimit(2) }, 1, 0},
		{"what is in use as the limit", func(s *Weighted) { s.TryAcquire(3); s.SetLimit(3) }, 0, 0},
		{"debt", func(s *Weighted) { s.TryAcquire(3); s.SetLimit(1) }, shut, -2},
		{"debt, a try", func(s *Weighted) { s.TryAcquire(3); s.SetLimit(1); s.TryAcquire(0) }, shut, -2},
		{"debt half paid", func(s *Weighted) { s.TryAcquire(3); s.SetLimit(1); s.Release(1) }, shut, -1},
		{"debt paid", func(s *Weighted) { s.TryAcquire(3); s.SetLimit(1); s.Release(2) }, 0, 0},
		{"debt forgiven", func(s *Weighted) { s.TryAcquire(3); s.SetLimit(1); s.SetLimit(5) }, 2, 0},
		{"paused, idle", func(s *Weighted) { s.SetLimit(0) }, 0, 0},
		{"paused, in use", func(s *Weighted) { s.TryAcquire(1); s.SetLimit(0) }, shut, -1},
		{"paused, somebody waits", func(s *Weighted) { s.SetLimit(0); waiting(s, 0, 9) }, shut, 0},
		{"all there can be", func(s *Weighted) { s.SetLimit(math.MaxInt64) }, math.MaxInt64, 0},
		{"the deepest debt", func(s *Weighted) {
			s.SetLimit(math.MaxInt64)
			s.TryAcquire(math.MaxInt64)
			s.SetLimit(0)
		}, shut, -math.MaxInt64},

		{"drained when idle", func(s *Weighted) { draining(s, 0) }, 4, 0},
		{"being drained", func(s *Weighted) { draining(s, 3) }, slow, 1},
		{"being drained, a try", func(s *Weighted) { draining(s, 1); s.TryAcquire(1) }, slow, 2},
		{"being drained, a failed try", func(s *Weighted) { draining(s, 3); s.TryAcquire(2) }, slow, 1},
		{"being drained, a release", func(s *Weighted) { draining(s, 3); s.Release(1) }, slow, 2},
		{"being drained, somebody waits", func(s *Weighted) { draining(s, 3); waiting(s, 0, 4) }, slow, 1},
		{"being drained, in debt", func(s *Weighted) { draining(s, 3); s.SetLimit(1) }, slow, -2},
		{"drained", func(s *Weighted) { draining(s, 3); s.Release(3) }, 4, 0},
		{"the only drain gave up", func(s *Weighted) { draining(s, 3)(); synctest.Wait() }, 1, 0},
		{"one of two drains gave up", func(s *Weighted) { draining(s, 3); draining(s, 0)(); synctest.Wait() }, slow, 1},
		{"the drain of an indebted one gave up", func(s *Weighted) {
			cancel := draining(s, 3)
			s.SetLimit(1)
			cancel()
			synctest.Wait()
		}, shut, -2},

		{"closed, idle", func(s *Weighted) { s.Close() }, shut, 4},
		{"closed, in use", func(s *Weighted) { s.TryAcquire(3); s.Close() }, shut, 1},
		{"closed twice", func(s *Weighted) { s.Close(); s.Close() }, shut, 4},
		{"closed, somebody waited", func(s *Weighted) { waiting(s, 3, 4); s.Close() }, shut, 1},
		{"closed, a release", func(s *Weighted) { s.TryAcquire(3); s.Close(); s.Release(2) }, shut, 3},
		{"closed, a try", func(s *Weighted) { s.Close(); s.TryAcquire(1) }, shut, 4},
		{"closed, another limit", func(s *Weighted) { s.TryAcquire(3); s.Close(); s.SetLimit(9) }, shut, 6},
		{"closed, being drained", func(s *Weighted) { s.TryAcquire(3); s.Close(); draining(s, 0) }, shut, 1},
		{"closed while being drained", func(s *Weighted) { draining(s, 3); s.Close() }, shut, 1},
		{"closed, drained", func(s *Weighted) { draining(s, 3); s.Close(); s.Release(3) }, shut, 4},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := New(Config{Limit: limit, MaxWaiters: 1})
				tt.do(s)
				if got := s.state.Load(); got != tt.want {
					t.Errorf("word = %d, want %d", got, tt.want)
				}
				if tt.want < 0 && s.avail != tt.avail {
					t.Errorf("avail = %d, want %d", s.avail, tt.avail)
				}
				s.Close()
				synctest.Wait()
				s.Release(s.Stats().InUse) // ends what drains
			})
		})
	}
}

// While mu is held the word is negative, so no fast path succeeds, and what it
// was is kept.
func TestStateWordWhileMuIsHeld(t *testing.T) {
	for _, tt := range []struct {
		reason string
		before func(s *Weighted)
		held   int64
		after  int64
	}{
		{"free", func(s *Weighted) { s.TryAcquire(1) }, slow, 3},
		{"none free", func(s *Weighted) { s.TryAcquire(4) }, slow, 0},
		{"debt", func(s *Weighted) { s.TryAcquire(2); s.SetLimit(1) }, shut, shut},
		{"closed", func(s *Weighted) { s.Close() }, shut, shut},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s := NewWeighted(4)
			tt.before(s)
			inUse := s.Stats().InUse
			s.lock()
			if got := s.state.Load(); got != tt.held {
				t.Errorf("word = %d while mu is held, want %d", got, tt.held)
			}
			if got := s.inUseLocked(); got != inUse {
				t.Errorf("%d in use while mu is held, want %d", got, inUse)
			}
			s.unlock()
			if got := s.state.Load(); got != tt.after {
				t.Errorf("word = %d afterwards, want %d", got, tt.after)
			}
		})
	}
}

// These take no mutex: with it held by somebody else, they return.
func TestFastPathsTakeNoMutex(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		reason string
		before func(s *Weighted)
		do     func(s *Weighted) any
		want   any
	}{
		{"acquire what is free", func(s *Weighted) {}, func(s *Weighted) any { return s.Acquire(ctx, 3) }, nil},
		{"try what is free", func(s *Weighted) {}, func(s *Weighted) any { return s.TryAcquire(3) }, true},
		{"release when nobody waits", func(s *Weighted) { s.TryAcquire(3) }, func(s *Weighted) any { s.Release(2); return nil }, nil},
		{"release nothing, free", func(s *Weighted) {}, func(s *Weighted) any { s.Release(0); return nil }, nil},
		{"release nothing, debt", func(s *Weighted) { s.TryAcquire(3); s.SetLimit(1) }, func(s *Weighted) any { s.Release(0); return nil }, nil},
		{"release nothing, closed", func(s *Weighted) { s.Close() }, func(s *Weighted) any { s.Release(0); return nil }, nil},
		{"try more than is free", func(s *Weighted) { s.TryAcquire(3) }, func(s *Weighted) any { return s.TryAcquire(2) }, false},
		{"try while somebody waits", func(s *Weighted) {
			s.TryAcquire(4)
			go s.Acquire(ctx, 1)
			for s.Stats().Waiting == 0 {
				runtime.Gosched()
			}
		}, func(s *Weighted) any { return s.TryAcquire(1) }, false},
		{"try in debt", func(s *Weighted) { s.TryAcquire(3); s.SetLimit(1) }, func(s *Weighted) any { return s.TryAcquire(0) }, false},
		{"try on a closed one", func(s *Weighted) { s.Close() }, func(s *Weighted) any { return s.TryAcquire(1) }, false},
		{"refuse one, full", func(s *Weighted) { s.TryAcquire(4) }, func(s *Weighted) any { return s.AcquireWithin(ctx, 1, 0) }, ErrTimeout},
		{"refuse a context that is done", func(s *Weighted) { s.Close() }, func(s *Weighted) any {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return s.Acquire(ctx, 1)
		}, context.Canceled},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			s := NewWeighted(4)
			tt.before(s)
			got := make(chan any, 1)
			s.mu.Lock() // but leave the word as it is
			go func() { got <- tt.do(s) }()
			select {
			case got := <-got:
				if got != tt.want {
					t.Errorf("got %v, want %v", got, tt.want)
				}
			case <-time.After(20 * time.Second): // passes only in a test that fails
				t.Error("it waits for the mutex")
			}
			s.mu.Unlock()
			s.Close()
		})
	}
}

// At any moment of any life the word follows from the rest by the table, and
// what is in flight is what the callers count.
func TestStateWordFollowsFromTheRest(t *testing.T) {
	for _, unfair := range []bool{false, true} {
		t.Run(fmt.Sprintf("unfair=%v", unfair), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(8, 8))
				for round := range 100 {
					life(t, rng, unfair)
					if t.Failed() {
						t.Fatalf("in round %d", round)
					}
				}
			})
		})
	}
}

// life plays a random life of a semaphore, and its end.
func life(t *testing.T, rng *rand.Rand, unfair bool) {
	s, _ := New(Config{Limit: rng.Int64N(6), MaxWaiters: 5, Unfair: unfair})
	base, cancelAll := context.WithCancel(context.Background())
	grants := make(chan int64, 1000)
	var inUse int64
	settle := func(op string) {
		t.Helper()
		synctest.Wait()
		for len(grants) > 0 {
			inUse += <-grants
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		got := s.state.Load()
		avail := s.avail
		if got >= 0 {
			avail = got
		}
		waits := s.queue.Len() > 0
		want := avail
		switch {
		case s.closed:
			want = shut
		case s.drainers > 0, waits && s.unfair:
			want = slow
		case waits, avail < 0:
			want = shut
		}
		if got != want {
			t.Errorf("after %s: word = %d, want %d", op, got, want)
		}
		if got := s.limit.Load() - avail; got != inUse {
			t.Errorf("conservation: after %s %d in flight, the callers count %d", op, got, inUse)
		}
		if (s.idle != nil) != (s.drainers > 0) {
			t.Errorf("after %s: a channel to drain on: %v, drainers: %d", op, s.idle != nil, s.drainers)
		}
		if w, _ := s.queue.Earliest(); (s.timer != nil) != (w != nil) {
			t.Errorf("after %s: a timer: %v, deadlines: %v", op, s.timer != nil, w != nil)
		}
	}
	var cancels []context.CancelFunc
	for range 60 {
		switch op := rng.IntN(8); op {
		case 0, 1:
			n := rng.Int64N(4)
			maxWait := []time.Duration{0, time.Millisecond, time.Second, Forever}[rng.IntN(4)]
			ctx, cancel := context.WithCancel(base)
			cancels = append(cancels, cancel)
			go func() {
				if s.AcquireWithin(ctx, n, maxWait) == nil {
					grants <- n
				}
			}()
			settle("an acquire")
		case 2:
			if n := rng.Int64N(3); s.TryAcquire(n) {
				inUse += n
			}
			settle("a try")
		case 3:
			n := rng.Int64N(inUse + 1)
			inUse -= n
			s.Release(n)
			settle("a release")
		case 4:
			s.SetLimit(rng.Int64N(6))
			settle("another limit")
		case 5:
			ctx, cancel := context.WithCancel(base)
			cancels = append(cancels, cancel)
			go s.Drain(ctx)
			settle("a drain")
		case 6:
			if len(cancels) > 0 {
				cancels[rng.IntN(len(cancels))]()
			}
			settle("a cancellation")
		case 7:
			time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Millisecond))))
			settle("some time")
		}
	}
	s.Close()
	settle("the end")
	s.Release(inUse)
	inUse = 0
	settle("the last release")
	cancelAll()
	settle("all contexts ended")
}
