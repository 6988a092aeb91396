package semaphore_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// Races that take two processors, tried often. Whatever wins, every call has
// one outcome and no permit is lost; a wake-up that is lost hangs the test.

// together calls all at one moment, as far as there are processors, and waits
// for them. Where there are none free, one goes after the other, in any order.
func together(fs ...func()) {
	var wg sync.WaitGroup
	var missing atomic.Int32
	missing.Store(int32(len(fs)))
	for _, i := range rand.Perm(len(fs)) {
		f := fs[i]
		wg.Go(func() {
			missing.Add(-1)
			for missing.Load() > 0 {
				runtime.Gosched()
			}
			f()
		})
	}
	wg.Wait()
}

// The permit was released between a waiter's failed look and its falling
// asleep, and nobody told it. A permit can come to be free in other ways than
// by a Release.
// https://github.com/marusama/semaphore/issues/2
func TestPermitThatMeetsOneAboutToWaitIsNotMissed(t *testing.T) {
	for _, tt := range []struct {
		reason string
		n      int64
		free   func(sem *semaphore.Weighted, cancel func()) []func()
		inUse  int64 // of 2, before
	}{
		{"by a release", 1, func(sem *semaphore.Weighted, _ func()) []func() {
			return []func(){func() { sem.Release(2) }}
		}, 2},
		{"by two releases", 2, func(sem *semaphore.Weighted, _ func()) []func() {
			return []func(){func() { sem.Release(1) }, func() { sem.Release(1) }}
		}, 2},
		{"by growth", 2, func(sem *semaphore.Weighted, _ func()) []func() {
			return []func(){func() { sem.SetLimit(4) }}
		}, 2},
		{"by the cancellation of the one before", 1, func(_ *semaphore.Weighted, cancel func()) []func() {
			return []func(){cancel}
		}, 1},
	} {
		for _, maxWait := range []time.Duration{semaphore.Forever, time.Hour} {
			t.Run(fmt.Sprintf("%s, within %v", tt.reason, maxWait), func(t *testing.T) {
				for range rounds(1000) {
					sem := semaphore.NewWeighted(2)
					sem.TryAcquire(tt.inUse)
					ctx, cancel := context.WithCancel(context.Background())
					front := &call{done: make(chan error, 1)}
					if tt.inUse < 2 {
						front = begin(func() error { return sem.Acquire(ctx, 2) })
						untilWaiting(sem, 1)
					} else {
						front.done <- context.Canceled
					}
					together(append(tt.free(sem, cancel), func() {
						if err := sem.AcquireWithin(context.Background(), tt.n, maxWait); err != nil {
							t.Errorf("got %v, want nil", err)
						}
					})...)
					cancel()
					if err := <-front.done; err != context.Canceled {
						t.Errorf("the one before: got %v, want %v", err, context.Canceled)
					}
					sem.Release(sem.Stats().InUse)
					wantIdle(t, sem, sem.Stats().Limit)
				}
			})
		}
	}
}

func TestCancellationThatMeetsOneAboutToWaitIsNotMissed(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	for range rounds(3000) {
		ctx, cancel := context.WithCancel(context.Background())
		together(cancel, func() {
			if err := sem.Acquire(ctx, 1); err != context.Canceled {
				t.Errorf("Acquire = %v, want %v", err, context.Canceled)
			}
		}, func() {
			if err := sem.Drain(ctx); err != context.Canceled {
				t.Errorf("Drain = %v, want %v", err, context.Canceled)
			}
		})
	}
	sem.Release(1)
	wantIdle(t, sem, 1)
}

// Cancellation and release of one waiter at a time dead-locked. Here those
// behind are owed the permit if the first has none, and one who comes later and
// is lent what the first leaves behind, its channel too, must not find a
// wake-up in it.
// https://github.com/jackc/puddle/issues/2
func TestCancellationMeetsRelease(t *testing.T) {
	for range rounds(3000) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		ctx, cancel := context.WithCancel(context.Background())
		first := begin(func() error { return sem.Acquire(ctx, 1) })
		untilWaiting(sem, 1)
		var others []*call
		for i := range 3 {
			others = append(others, begin(func() error { return sem.Acquire(context.Background(), 1) }))
			untilWaiting(sem, 2+i)
		}
		together(cancel, func() { sem.Release(1) })
		switch err := <-first.done; err {
		case nil:
			sem.Release(1)
		case context.Canceled:
		default:
			t.Errorf("first: got %v, want nil or %v", err, context.Canceled)
		}
		others = append(others, begin(func() error { return sem.Acquire(context.Background(), 1) }))
		for i, c := range others {
			if err := <-c.done; err != nil {
				t.Errorf("one of those behind, %d: got %v, want nil", i, err)
			}
			sem.Release(1) // panics if one of them only thought that it had it
		}
		wantIdle(t, sem, 1)
	}
}

// A select between two ready channels picks either. A waiter that is awake on
// another processor must not be granted after its context has ended.
// https://github.com/bufbuild/buf/issues/913
func TestNoGrantAfterTheContextEnded(t *testing.T) {
	for range rounds(10_000) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		ctx, cancel := context.WithCancel(context.Background())
		first := begin(func() error { return sem.Acquire(ctx, 1) })
		untilWaiting(sem, 1)
		cancel()
		sem.Release(1)
		if err := <-first.done; err != context.Canceled {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
		wantIdle(t, sem, 1)
	}
}

// A permit on its way to a waiter was taken by somebody who tried.
// https://github.com/agronholm/anyio/issues/1170
// https://github.com/golang/go/issues/29889
func TestNobodyTakesAPermitOnItsWayToAWaiter(t *testing.T) {
	for range rounds(3000) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		w := begin(func() error { return sem.Acquire(context.Background(), 1) })
		untilWaiting(sem, 1)
		together(func() { sem.Release(1) }, func() {
			if sem.TryAcquire(1) {
				t.Error("no barging: TryAcquire = true")
			}
		})
		if err := <-w.done; err != nil {
			t.Errorf("waiter: got %v, want nil", err)
		}
		sem.Release(1)
		wantIdle(t, sem, 1)
	}
}

// A deadline that passed while everything was torn down took its waiter out of
// the queue a second time. All that can end a wait meets here, in every
// combination, with a waiter of its own and one it passes the permits on to.
// https://github.com/microsoft/vs-threading/pull/924
func TestWhateverEndsAWaitAtOneMomentHasOneOutcome(t *testing.T) {
	type event struct {
		name     string
		do       func(sem *semaphore.Weighted, cancel func())
		outcomes []error
		returns  int64 // permits
	}
	events := []event{
		{"release", func(sem *semaphore.Weighted, _ func()) { sem.Release(2) }, []error{nil}, 2},
		{"cancellation", func(_ *semaphore.Weighted, cancel func()) { cancel() }, []error{context.Canceled}, 0},
		{"eviction", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(1) }, []error{semaphore.ErrExceedsLimit}, 0},
		{"growth", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(5) }, []error{nil}, 0},
		{"close", func(sem *semaphore.Weighted, _ func()) { sem.Close() }, []error{semaphore.ErrClosed}, 0},
		// The deadline is some microseconds away, and passes by itself.
		{"expiry", func(*semaphore.Weighted, func()) {}, []error{semaphore.ErrTimeout}, 0},
	}
	for i, a := range events {
		for _, b := range events[i+1:] {
			t.Run(a.name+" meets "+b.name, func(t *testing.T) {
				allowed := append(append([]error{}, a.outcomes...), b.outcomes...)
				for round := range rounds(300) {
					sem := semaphore.NewWeighted(2)
					sem.TryAcquire(2)
					ctx, cancel := context.WithCancel(context.Background())
					maxWait := time.Hour
					if b.name == "expiry" {
						maxWait = time.Duration(1+round%50) * time.Microsecond
					}
					var calls []*call
					for range 2 {
						calls = append(calls, begin(func() error { return sem.AcquireWithin(ctx, 2, maxWait) }))
					}
					if maxWait == time.Hour {
						untilWaiting(sem, 2)
					}
					together(
						func() { a.do(sem, cancel) },
						func() { b.do(sem, cancel) },
					)
					inUse := 2 - a.returns - b.returns
					sem.Close() // for a second that is owed nothing
					for i, c := range calls {
						err := <-c.done
						switch {
						case err == nil:
							inUse += 2
						case err == semaphore.ErrClosed:
							continue
						}
						found := false
						for _, want := range allowed {
							found = found || err == want
						}
						if !found {
							t.Errorf("request %d: got %v, want one of %v", i, err, allowed)
						}
					}
					if got := sem.Stats(); got.InUse != inUse || got.Waiting != 0 {
						t.Fatalf("conservation: %d in flight and %d waiting, want %d and none", got.InUse, got.Waiting, inUse)
					}
					cancel()
				}
				wantNobodyInside(t)
			})
		}
	}
}

// Many who came at once all saw that there was room.
// https://github.com/joshrotenberg/tower-resilience/issues/365
func TestCrowdAtOnceGetsTheLimitAndNotOneMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, crowd = 4, 64
		sem := semaphore.NewWeighted(limit)
		var inside, peak atomic.Int64
		var fs []func()
		for i := range crowd {
			fs = append(fs, func() {
				for i%2 == 0 && !sem.TryAcquire(1) {
					time.Sleep(time.Second)
				}
				if i%2 == 1 {
					if err := sem.Acquire(context.Background(), 1); err != nil {
						t.Error(err)
					}
				}
				n := inside.Add(1)
				for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
				}
				time.Sleep(time.Second)
				inside.Add(-1)
				sem.Release(1)
			})
		}
		together(fs...)
		if peak.Load() != limit {
			t.Errorf("at most %d were inside at once, want %d", peak.Load(), limit)
		}
		wantIdle(t, sem, limit)
	})
}

// Waiters were woken by new calls only, and the last ones slept for ever. So did
// one that queued at the moment the last running one finished.
// https://github.com/alitto/pond/issues/115
// https://github.com/smallrye/smallrye-fault-tolerance/commit/8594b51c
func TestLastWaitersNeedNoNudge(t *testing.T) {
	for range rounds(500) {
		sem := semaphore.NewWeighted(2)
		var fs []func()
		for i := range 10 {
			fs = append(fs, func() {
				n := int64(1 + i%2)
				if err := sem.Acquire(context.Background(), n); err != nil {
					t.Error(err)
				}
				runtime.Gosched() // or, on one processor, nobody would wait
				sem.Release(n)
			})
		}
		together(fs...)
		wantIdle(t, sem, 2)
	}
}

// With the limit changed under them, holders released into something else than
// they had acquired from.
// https://github.com/golang/sync/pull/14
func TestReleasesMeetChangesOfTheLimit(t *testing.T) {
	for range rounds(1000) {
		sem := semaphore.NewWeighted(10)
		sem.TryAcquire(10)
		fs := []func(){
			func() { sem.SetLimit(math.MaxInt64) },
			func() { sem.SetLimit(1) },
			func() { sem.SetLimit(0) },
			func() { sem.SetLimit(7) },
		}
		for range 10 {
			fs = append(fs, func() { sem.Release(1) })
		}
		together(fs...)
		wantIdle(t, sem, sem.Stats().Limit)
		wantPanic(t, overRelease, func() { sem.Release(1) })
	}
}

// With a count of what is in use, and the limit beside it, an acquire that had
// looked at the old limit succeeds after SetLimit has returned.
func TestNoGrantAboveTheLimitAfterSetLimitReturned(t *testing.T) {
	sem := semaphore.NewWeighted(10)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for held := int64(0); !stop.Load() || held > 0; {
				if held < 3 && !stop.Load() && sem.TryAcquire(1) {
					held++
				} else if held > 0 {
					sem.Release(1)
					held--
				}
			}
		})
	}
	for range rounds(2000) {
		sem.SetLimit(2)
		for sem.Stats().InUse > 2 {
			runtime.Gosched()
		}
		for range 10 {
			if got := sem.Stats().InUse; got > 2 {
				t.Errorf("%d in flight at a limit of 2", got)
			}
		}
		sem.SetLimit(10)
	}
	stop.Store(true)
	wg.Wait()
	wantIdle(t, sem, 10)
}

// Over a short queue each operation is one step: nobody sees the semaphore
// between the leaving of the front and the grants to those behind.
func TestOperationIsOneStepToWhoeverLooks(t *testing.T) {
	before := semaphore.Stats{Limit: 4, InUse: 2, Available: 2, Waiting: 3}
	for _, tt := range []struct {
		reason string
		do     func(sem *semaphore.Weighted, cancel func())
		after  semaphore.Stats
	}{
		{"eviction", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(3) }, semaphore.Stats{Limit: 3, InUse: 3, Waiting: 1}},
		{"growth", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(8) }, semaphore.Stats{Limit: 8, InUse: 8}},
		{"release", func(sem *semaphore.Weighted, _ func()) { sem.Release(2) }, semaphore.Stats{Limit: 4, InUse: 4, Waiting: 2}},
		{"cancellation", func(_ *semaphore.Weighted, cancel func()) { cancel() }, semaphore.Stats{Limit: 4, InUse: 4}},
		{"close", func(sem *semaphore.Weighted, _ func()) { sem.Close() }, semaphore.Stats{Limit: 4, InUse: 2, Available: 2, Closed: true}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			for range rounds(150) {
				sem := semaphore.NewWeighted(4)
				sem.TryAcquire(2)
				ctx, cancel := context.WithCancel(context.Background())
				var calls []*call
				for i, n := range []int64{4, 1, 1} {
					ctx := ctx
					if i > 0 {
						ctx = context.Background()
					}
					calls = append(calls, begin(func() error { return sem.Acquire(ctx, n) }))
					untilWaiting(sem, i+1)
				}
				together(func() { tt.do(sem, cancel) }, func() {
					for st := sem.Stats(); st != tt.after; st = sem.Stats() {
						if st != before {
							t.Errorf("seen on the way: %+v", st)
							return
						}
					}
				})
				sem.Close()
				for _, c := range calls {
					<-c.done
				}
				cancel()
			}
		})
	}
}

func TestDrainMeetsTheLastRelease(t *testing.T) {
	for _, limit := range []int64{5, 2, 1} { // the last one with a debt
		for range rounds(1000) {
			sem := semaphore.NewWeighted(2)
			sem.TryAcquire(2)
			sem.SetLimit(limit)
			drain := func() {
				if err := sem.Drain(context.Background()); err != nil {
					t.Errorf("Drain = %v, want nil", err)
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			together(func() { sem.Release(1) }, func() { sem.Release(1) }, drain, drain, cancel, func() {
				if err := sem.Drain(ctx); err != nil && err != context.Canceled {
					t.Errorf("Drain = %v, want nil or %v", err, context.Canceled)
				}
			})
			drain()
			wantIdle(t, sem, limit)
		}
	}
}

func TestCloseMeetsRequests(t *testing.T) {
	for round := range rounds(2000) {
		sem := semaphore.NewWeighted(2)
		sem.TryAcquire(int64(round % 3))
		var granted atomic.Int64
		request := func(n int64) func() {
			return func() {
				switch err := sem.Acquire(context.Background(), n); err {
				case nil:
					granted.Add(n)
				case semaphore.ErrClosed:
				default:
					t.Errorf("got %v, want nil or %v", err, semaphore.ErrClosed)
				}
			}
		}
		together(sem.Close, request(1), request(2), sem.Close)
		wantClosed(t, sem, 2, int64(round%3)+granted.Load())
	}
}
