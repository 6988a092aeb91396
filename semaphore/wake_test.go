package semaphore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

func newUnfair(t *testing.T, limit int64) *Weighted {
	t.Helper()
	s, err := New(Config{Limit: limit, Unfair: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// park queues a blocking request whose goroutine does not come to run: what it
// would look at stays in its channel.
func (s *Weighted) park(n int64) *waiter {
	s.lock()
	defer s.unlock()
	w := s.takeLocked()
	w.Weight = n
	s.pushLocked(&w.Waiter, Forever, s.now(Forever))
	return &w.Waiter
}

// A second wake would say nothing new, and with a third the channel would be
// full: the releaser would wait for the waiter.
func TestUnfairHeadIsWokenOnceUntilItLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newUnfair(t, 1)
		s.TryAcquire(1)
		w := s.park(1)
		for range 3 {
			s.Release(1)
			if !s.TryAcquire(1) {
				t.Fatal("a newcomer does not pass a waiter that is young")
			}
		}
		if got := len(w.Value.ready); got != 1 {
			t.Errorf("%d wakes are on their way, want 1", got)
		}
	})
}

// A woken waiter may take long to run. From 1 ms on, whoever comes along grants
// it what is free, instead of passing it or queueing behind it for nothing.
func TestUnfairHeadThatWaitedLongIsServedByNewcomers(t *testing.T) {
	newcomers := []struct {
		name string
		come func(s *Weighted) error
	}{
		{"TryAcquire", func(s *Weighted) error {
			if !s.TryAcquire(1) {
				return ErrTimeout
			}
			return nil
		}},
		{"AcquireWithin 0", func(s *Weighted) error { return s.AcquireWithin(context.Background(), 1, 0) }},
		{"AcquireAsync", func(s *Weighted) error { return s.AcquireAsync(context.Background(), 1, 0).Err() }},
	}
	for _, newcomer := range newcomers {
		t.Run(newcomer.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newUnfair(t, 3)
				s.TryAcquire(3)
				heavy, light := s.park(2), s.park(1)
				s.Release(2)
				time.Sleep(2 * time.Millisecond)
				if heavy.Outcome() != waitq.Waiting {
					t.Fatal("a young waiter was granted without being asked")
				}
				if err := newcomer.come(s); err != ErrTimeout {
					t.Errorf("no barging: the newcomer got %v, want %v", err, ErrTimeout)
				}
				if got := heavy.Outcome(); got != waitq.Granted {
					t.Errorf("outcome of the waiter: got %d, want granted", got)
				}
				if got := light.Outcome(); got != waitq.Waiting {
					t.Errorf("outcome of the one behind it, which does not fit: got %d, want that it waits", got)
				}
			})
		})
	}
}
