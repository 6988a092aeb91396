package semaphore_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/turnstile-go/turnstile/semaphore"
)

// endings are the ways a blocking request can end, once it waits for 2 permits
// with 1 of 2 in flight.
var endings = []struct {
	name string
	end  func(sem *semaphore.Weighted, cancel func())
	want error // nil: it holds 2 permits
}{
	{"granted", func(sem *semaphore.Weighted, _ func()) { sem.Release(1) }, nil},
	{"canceled", func(_ *semaphore.Weighted, cancel func()) { cancel() }, errOwn},
	{"canceled, then passed over", func(sem *semaphore.Weighted, cancel func()) { cancel(); sem.Release(1) }, errOwn},
	{"granted, then canceled", func(sem *semaphore.Weighted, cancel func()) { sem.Release(1); cancel() }, errOwn},
	{"expired", func(*semaphore.Weighted, func()) { elapse(time.Minute) }, semaphore.ErrTimeout},
	{"evicted", func(sem *semaphore.Weighted, _ func()) { sem.SetLimit(1) }, semaphore.ErrExceedsLimit},
	{"closed", func(sem *semaphore.Weighted, _ func()) { sem.Close() }, semaphore.ErrClosed},
}

// No method of a context is called with the mutex held, so each may look into
// the semaphore. (Broken, this test hangs.)
func TestContextMayLookIntoTheSemaphore(t *testing.T) {
	oneProc(t)
	for _, tt := range endings {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(2)
				ctx := newManual(sem)
				if err := sem.AcquireWithin(ctx, 1, 0); err != nil {
					t.Errorf("with a free permit: %v", err)
				}
				if err := sem.AcquireWithin(ctx, 2, 0); err != semaphore.ErrTimeout {
					t.Errorf("without time to wait: %v", err)
				}
				if err := sem.Acquire(ctx, 3); err != semaphore.ErrExceedsLimit {
					t.Errorf("above the limit: %v", err)
				}
				drain := start(func() error { return sem.Drain(ctx) })
				w := acquireWithin(ctx, sem, 2, time.Minute)
				tt.end(sem, func() { ctx.end(errOwn) })
				w.want(t, "waiter", tt.want)
				ctx.end(errOwn)
				if err := drain.outcome(); err != errOwn && err != nil {
					t.Errorf("Drain = %v, want %v or nil", err, errOwn)
				}
				if err := sem.Acquire(ctx, 1); err != errOwn {
					t.Errorf("with a context that is done: %v", err)
				}
			})
		})
	}
}

// A context that ended after it was looked at and before the caller parked woke
// nobody, and the caller slept past its own deadline. Nor does a permit that is
// released after that end go to the caller.
// https://github.com/e2b-dev/infra/pull/3629
func TestContextThatEndsBeforeItsCallerParks(t *testing.T) {
	for _, tt := range []struct {
		reason string
		then   func(sem *semaphore.Weighted)
		inUse  int64
		call   func(sem *semaphore.Weighted, ctx context.Context) error
	}{
		{"Acquire", func(*semaphore.Weighted) {}, 1, func(sem *semaphore.Weighted, ctx context.Context) error {
			return sem.Acquire(ctx, 2)
		}},
		{"AcquireWithin", func(*semaphore.Weighted) {}, 1, func(sem *semaphore.Weighted, ctx context.Context) error {
			return sem.AcquireWithin(ctx, 2, time.Minute)
		}},
		{"Acquire, and then a release", func(sem *semaphore.Weighted) { sem.Release(1) }, 0, func(sem *semaphore.Weighted, ctx context.Context) error {
			return sem.Acquire(ctx, 2)
		}},
		{"Drain", func(*semaphore.Weighted) {}, 1, func(sem *semaphore.Weighted, ctx context.Context) error {
			return sem.Drain(ctx)
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(2)
				sem.TryAcquire(1)
				ctx := newManual(sem)
				ctx.hook = func(method string) {
					if method == "Done" {
						ctx.finish(errOwn)
						tt.then(sem)
					}
				}
				began := time.Now()
				start(func() error { return tt.call(sem, ctx) }).want(t, "call", errOwn)
				if waited := time.Since(began); waited != 0 {
					t.Errorf("it waited %v, want 0s", waited)
				}
				wantStats(t, sem, 2, tt.inUse, 0)
				sem.Release(tt.inUse)
				wantIdle(t, sem, 2)
			})
		})
	}
}

// A context is user code, and user code panics. Whatever it is asked at that
// moment, nothing is taken and nothing stays in the queue.
func TestContextThatPanicsLeavesTheSemaphoreUsable(t *testing.T) {
	oneProc(t)
	type scene struct {
		sem *semaphore.Weighted
		ctx *manual
	}
	acquire := func(n int64) func(scene) error {
		return func(x scene) error { return x.sem.AcquireWithin(x.ctx, n, time.Minute) }
	}
	finish := func(x scene) { x.ctx.finish(errOwn) }
	for _, tt := range []struct {
		reason  string
		method  string
		call    func(scene) error
		between func(scene)
		inUse   int64 // in the end
	}{
		{"Err, with a free permit", "Err", acquire(1), nil, 1},
		{"Err, with none", "Err", acquire(2), nil, 1},
		{"Done, with none", "Done", acquire(2), nil, 1},
		{"Err, above the limit", "Err", acquire(3), nil, 1},
		{"Done, above the limit", "Done", acquire(3), nil, 1},
		{"Err, after the end of the wait", "Err", acquire(2), finish, 1},
		{"Err, passed over", "Err", acquire(2), func(x scene) { finish(x); x.sem.Release(1) }, 0},
		{"Err, after a grant", "Err", acquire(2), func(x scene) { x.sem.Release(1); finish(x) }, 0},
		{"Done, in Drain", "Done", func(x scene) error { return x.sem.Drain(x.ctx) }, nil, 1},
		{"Err, in Drain", "Err", func(x scene) error { return x.sem.Drain(x.ctx) }, finish, 1},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := scene{semaphore.NewWeighted(2), newManual()}
				x.sem.TryAcquire(1)
				panicking := tt.between == nil
				x.ctx.hook = func(method string) {
					if panicking && method == tt.method {
						panic("the context panics")
					}
				}
				c := start(func() (err error) {
					defer func() {
						if recover() != "the context panics" {
							t.Errorf("no panic came out, but %v", err)
						}
					}()
					return tt.call(x)
				})
				if tt.between != nil {
					panicking = true
					tt.between(x)
				}
				c.want(t, "call", nil)
				wantStats(t, x.sem, 2, tt.inUse, 0)
				drain := start(func() error { return x.sem.Drain(t.Context()) })
				x.sem.Release(tt.inUse)
				drain.want(t, "Drain", nil)
				wantIdle(t, x.sem, 2)
			})
		})
	}
}

func TestEveryKindOfContextEndsAWait(t *testing.T) {
	for _, tt := range contexts {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				ctx, end, want := tt.make()
				if err := sem.Acquire(ctx, 1); err != nil {
					t.Errorf("with a free permit: %v", err)
				}
				w := acquire(ctx, sem, 1)
				timed := acquireWithin(ctx, sem, 1, 2*time.Hour)
				drain := start(func() error { return sem.Drain(ctx) })
				w.want(t, "waiter", errWaiting)
				end()
				w.want(t, "waiter", want)
				timed.want(t, "timed waiter", want)
				drain.want(t, "Drain", want)
				sem.Release(1)
				acquire(ctx, sem, 1).want(t, "late one, with a free permit", want)
				wantIdle(t, sem, 1)
			})
		})
	}
}

// A context that closes Done and has no error has a fault. But what holds no
// permit must not be told that it does.
func TestEndedContextWithoutErrorIsNoGrant(t *testing.T) {
	oneProc(t)
	for _, tt := range endings {
		if tt.want != errOwn {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(2)
				sem.TryAcquire(1)
				ctx := newManual()
				w := acquire(ctx, sem, 2)
				tt.end(sem, func() { ctx.end(nil) })
				w.want(t, "waiter", context.Canceled)
				sem.Release(sem.Stats().InUse)
				wantIdle(t, sem, 2)
			})
		})
	}
}

// Entries of those who had waited kept their contexts, and all that hangs on
// them, long after.
// https://github.com/golang/go/issues/33850
func TestContextIsCollectableOnceItsRequestIsDecided(t *testing.T) {
	type heavy struct {
		context.Context
		_ [1 << 10]byte
	}
	for _, tt := range endings {
		for _, stays := range []bool{false, true} {
			name := tt.name
			if stays {
				name += ", others wait on"
			}
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(2)
					sem.TryAcquire(1)
					gone := func() weak.Pointer[heavy] {
						own := newManual()
						ctx := &heavy{Context: own}
						w := acquireWithin(ctx, sem, 2, time.Minute)
						if stays {
							acquire(t.Context(), sem, 1)
						}
						tt.end(sem, func() { own.end(errOwn) })
						if err := w.outcome(); err != nil && err != tt.want {
							t.Errorf("waiter: got %v, want %v", err, tt.want)
						}
						return weak.Make(ctx)
					}()
					runtime.GC()
					if gone.Value() != nil {
						t.Error("its context is still reachable")
					}
					sem.Close()
				})
			})
		}
	}
}

// And so it is if the request was decided at once, or never made.
func TestContextOfARequestThatDidNotWaitIsCollectable(t *testing.T) {
	type heavy struct {
		context.Context
		_ [1 << 10]byte
	}
	for _, tt := range []struct {
		reason string
		n      int64
		want   error
	}{
		{"granted", 1, nil},
		{"refused for lack of time", 2, semaphore.ErrTimeout},
		{"refused for its weight", 3, semaphore.ErrExceedsLimit},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			sem := semaphore.NewWeighted(2)
			sem.TryAcquire(1)
			gone := func() weak.Pointer[heavy] {
				ctx := &heavy{Context: context.Background()}
				if err := sem.AcquireWithin(ctx, tt.n, 0); err != tt.want {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				return weak.Make(ctx)
			}()
			runtime.GC()
			if gone.Value() != nil {
				t.Error("its context is still reachable")
			}
			runtime.KeepAlive(sem)
		})
	}
}

// A timer of its own kept every limiter alive.
// https://github.com/dotnet/runtime/issues/99865
func TestSemaphoreThatNobodyUsesIsCollectable(t *testing.T) {
	for _, tt := range endings {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gone := func() weak.Pointer[semaphore.Weighted] {
					sem := semaphore.NewWeighted(2)
					sem.TryAcquire(1)
					ctx, cancel := context.WithCancelCause(t.Context())
					w := acquireWithin(ctx, sem, 2, time.Minute)
					tt.end(sem, func() { cancel(nil) })
					if w.outcome() == errWaiting {
						t.Error("it still waits")
					}
					cancel(nil)
					return weak.Make(sem)
				}()
				elapse(time.Hour) // the runtime forgets a stopped timer when it is due
				runtime.GC()
				if gone.Value() != nil {
					t.Error("the semaphore is still reachable")
				}
			})
		})
	}
}
