package semaphore_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// Long queues are worked through in chunks, with the mutex free in between.
// Lengths lie about the ends of chunks, and beyond.
func queueLengths() []int {
	lengths := []int{1, semaphore.Chunk - 1, semaphore.Chunk, semaphore.Chunk + 1, 2 * semaphore.Chunk, 5*semaphore.Chunk + 7}
	if !testing.Short() && !raceEnabled {
		lengths = append(lengths, 100_000)
	}
	return lengths
}

// longQueue is a semaphore and the requests that wait for it, in the order of
// their arrival.
type longQueue struct {
	*semaphore.Weighted
	t     *testing.T
	calls []*call
}

// wants fails the test unless each request has the outcome that is asked
// for by its place.
func (c *longQueue) wants(when string, want func(i int) error) {
	c.t.Helper()
	synctest.Wait()
	for i, call := range c.calls {
		if got, want := call.now(), want(i); got != want {
			c.t.Fatalf("%s: request %d of %d: got %v, want %v", when, i, len(c.calls), got, want)
		}
	}
}

// inLongQueues runs f with queues of all lengths, each behind a limit of 0. The
// request in place i has the weight and the maximum wait that ask returns.
func inLongQueues(t *testing.T, ask func(i int) (n int64, maxWait time.Duration), f func(c *longQueue, cancel func())) {
	for _, size := range queueLengths() {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := &longQueue{Weighted: semaphore.NewWeighted(0), t: t}
				for i := range size {
					n, maxWait := ask(i)
					c.calls = append(c.calls, acquireWithin(ctx, c.Weighted, n, maxWait))
				}
				wantStats(t, c.Weighted, 0, 0, size)
				f(c, cancel)
			})
		})
	}
}

func ones(int) (int64, time.Duration) { return 1, semaphore.Forever }

func TestLongQueueIsGrantedInOrder(t *testing.T) {
	inLongQueues(t, ones, func(c *longQueue, _ func()) {
		size := len(c.calls)
		for _, limit := range []int{size/2 + 1, size} {
			c.SetLimit(int64(limit))
			wantStats(c.t, c.Weighted, int64(limit), int64(limit), size-limit)
			c.wants("a higher limit", func(i int) error {
				if i < limit {
					return nil
				}
				return errWaiting
			})
		}
		c.Release(int64(size))
		wantIdle(c.t, c.Weighted, int64(size))
	})
}

func TestLongQueueIsGrantedByOneRelease(t *testing.T) {
	inLongQueues(t, ones, func(c *longQueue, _ func()) {
		size := int64(len(c.calls))
		all := acquire(c.t.Context(), c.Weighted, size) // at the end
		c.SetLimit(size - 1)
		if size == 1 {
			c.SetLimit(1)
		}
		c.Release(c.Stats().InUse)
		c.wants("a release", func(int) error { return nil })
		c.Close()
		if err := all.outcome(); err != semaphore.ErrExceedsLimit && err != nil && err != semaphore.ErrClosed {
			c.t.Errorf("the one at the end: %v", err)
		}
	})
}

func TestLongQueueIsClosed(t *testing.T) {
	inLongQueues(t, ones, func(c *longQueue, _ func()) {
		c.Close()
		c.wants("close", func(int) error { return semaphore.ErrClosed })
		wantClosed(c.t, c.Weighted, 0, 0)
	})
}

func TestLongQueueIsCanceled(t *testing.T) {
	inLongQueues(t, ones, func(c *longQueue, cancel func()) {
		last := acquire(c.t.Context(), c.Weighted, 1)
		cancel()
		c.wants("cancellation", func(int) error { return context.Canceled })
		last.want(c.t, "one with a context of its own", errWaiting)
		c.SetLimit(1)
		last.want(c.t, "one with a context of its own", nil)
		c.Release(1)
		wantIdle(c.t, c.Weighted, 1)
	})
}

// A permit meets a run of requests whose context has ended, and which have not
// run yet.
func TestLongQueueOfDeadIsPassedOver(t *testing.T) {
	oneProc(t)
	inLongQueues(t, ones, func(c *longQueue, cancel func()) {
		last := acquire(c.t.Context(), c.Weighted, 1)
		cancel()
		c.SetLimit(1)
		wantStats(c.t, c.Weighted, 1, 1, 0)
		last.want(c.t, "one with a context of its own", nil)
		c.wants("cancellation", func(int) error { return context.Canceled })
		c.Release(1)
		wantIdle(c.t, c.Weighted, 1)
	})
}

// Every tenth has no deadline. Those keep their order.
func TestLongQueueExpiresAtOneInstant(t *testing.T) {
	stays := func(i int) bool { return i%10 == 3 }
	inLongQueues(t, func(i int) (int64, time.Duration) {
		if stays(i) {
			return 1, semaphore.Forever
		}
		return 1, time.Hour
	}, func(c *longQueue, _ func()) {
		left := 0
		for i := range c.calls {
			if stays(i) {
				left++
			}
		}
		elapse(time.Hour - 1)
		wantStats(c.t, c.Weighted, 0, 0, len(c.calls))
		elapse(1)
		wantStats(c.t, c.Weighted, 0, 0, left)
		c.SetLimit(int64(left/2 + 1))
		seen := 0
		c.wants("expiry", func(i int) error {
			if !stays(i) {
				return semaphore.ErrTimeout
			}
			if seen++; seen <= left/2+1 {
				return nil
			}
			return errWaiting
		})
		c.Close()
	})
}

// Every third is too heavy for what the limit becomes. The others keep their
// order.
func TestLongQueueIsEvicted(t *testing.T) {
	heavy := func(i int) bool { return i%3 == 1 }
	inLongQueues(t, func(i int) (int64, time.Duration) {
		if heavy(i) {
			return 1 << 40, semaphore.Forever
		}
		return 1, semaphore.Forever
	}, func(c *longQueue, _ func()) {
		light := 0
		for i := range c.calls {
			if !heavy(i) {
				light++
			}
		}
		limit := light/2 + 1
		c.SetLimit(int64(limit))
		wantStats(c.t, c.Weighted, int64(limit), int64(min(limit, light)), light-min(limit, light))
		seen := 0
		c.wants("eviction", func(i int) error {
			if heavy(i) {
				return semaphore.ErrExceedsLimit
			}
			if seen++; seen <= limit {
				return nil
			}
			return errWaiting
		})
		c.Close()
	})
}

// With the mutex free between two chunks, another operation gets in. Whatever comes of it, each request has one outcome, nothing is lost, and
// nobody is left.
func TestLongQueueMeetsTwoOperations(t *testing.T) {
	const size = 3*semaphore.Chunk + 1
	type operation struct {
		name string
		do   func(sem *semaphore.Weighted, cancel func())
	}
	operations := []operation{
		{"growth", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(2 * size) }},
		{"eviction", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(2) }},
		{"another eviction", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(1) }},
		{"a pause", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(0) }},
		{"cancellation", func(_ *semaphore.Weighted, cancel func()) { cancel() }},
		{"release", func(sem *semaphore.Weighted, _ func()) { sem.Release(size) }},
		{"close", func(sem *semaphore.Weighted, _ func()) { sem.Close() }},
	}
	for i, a := range operations {
		for _, b := range operations[i+1:] {
			t.Run(a.name+" meets "+b.name, func(t *testing.T) {
				for range max(1, rounds(3)) {
					sem := semaphore.NewWeighted(size)
					sem.TryAcquire(size)
					ctx, cancel := context.WithCancel(context.Background())
					var calls []*call
					for i := range size {
						calls = append(calls, begin(func() error { return sem.Acquire(ctx, int64(1+i%3)) }))
					}
					untilWaiting(sem, size)
					together(func() { a.do(sem, cancel) }, func() { b.do(sem, cancel) })
					inUse := int64(size)
					if a.name == "release" || b.name == "release" {
						inUse = 0
					}
					cancel() // for those who wait on
					for i, c := range calls {
						switch err := <-c.done; err {
						case nil:
							inUse += int64(1 + i%3)
						case context.Canceled, semaphore.ErrExceedsLimit, semaphore.ErrClosed:
						default:
							t.Errorf("request %d: got %v", i, err)
						}
					}
					if got := sem.Stats(); got.InUse != inUse || got.Waiting != 0 {
						t.Fatalf("conservation: %d in flight and %d waiting, want %d and none", got.InUse, got.Waiting, inUse)
					}
					sem.Release(inUse)
					if st := sem.Stats(); !st.Closed {
						wantIdle(t, sem, st.Limit)
					}
				}
				wantNobodyInside(t)
			})
		}
	}
}
