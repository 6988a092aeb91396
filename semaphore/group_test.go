package semaphore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// manual is a context that is not built on package context and has an AfterFunc
// method. Its end can be taken apart: finish closes Done, and tell, later, does
// what AfterFunc was asked for. Between the two lies what other contexts get
// over in some nanoseconds.
type manual struct {
	done chan struct{}

	// sems are looked into at the start of every method, and of the stop
	// function, which hangs if their mutex is held. Then hook, if set, is called
	// with the method's name.
	sems []*semaphore.Weighted
	hook func(method string)

	// inline makes tell call the functions of AfterFunc one after another on
	// its own goroutine.
	inline bool

	mu         sync.Mutex
	finished   bool
	err        error
	funcs      map[int]func()
	registered int // calls of AfterFunc
	stopped    int // calls of stop that were in time
}

func newManual(sems ...*semaphore.Weighted) *manual {
	return &manual{done: make(chan struct{}), funcs: make(map[int]func()), sems: sems}
}

func (c *manual) called(method string) {
	for _, sem := range c.sems {
		sem.Stats()
	}
	if c.hook != nil {
		c.hook(method)
	}
}

func (c *manual) Deadline() (time.Time, bool) { c.called("Deadline"); return time.Time{}, false }

func (c *manual) Done() <-chan struct{} { c.called("Done"); return c.done }

func (c *manual) Value(any) any { c.called("Value"); return nil }

func (c *manual) Err() error {
	c.called("Err")
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// AfterFunc is what context.AfterFunc calls instead of starting a goroutine.
func (c *manual) AfterFunc(f func()) (stop func() bool) {
	c.called("AfterFunc")
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.registered
	c.registered++
	c.funcs[id] = f
	return func() bool {
		c.called("stop")
		c.mu.Lock()
		defer c.mu.Unlock()
		_, ok := c.funcs[id]
		delete(c.funcs, id)
		if ok {
			c.stopped++
		}
		return ok
	}
}

// finish closes Done and sets what Err returns, and tells nobody.
func (c *manual) finish(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.finished {
		c.finished, c.err = true, err
		close(c.done)
	}
}

// tell runs the functions given to AfterFunc.
func (c *manual) tell() {
	c.mu.Lock()
	funcs := c.funcs
	c.funcs = make(map[int]func())
	c.mu.Unlock()
	for _, f := range funcs {
		if c.inline {
			f()
		} else {
			go f()
		}
	}
}

func (c *manual) end(err error) {
	c.finish(err)
	c.tell()
}

// wantFuncs fails the test unless AfterFunc was called so many times, and so
// many of those were stopped, once everything that can go on has gone on.
func (c *manual) wantFuncs(t *testing.T, when string, registered, stopped int) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.registered != registered || c.stopped != stopped {
		t.Errorf("%s: AfterFunc was called %d times, and stopped %d times, want %d and %d",
			when, c.registered, c.stopped, registered, stopped)
	}
}

// renamed is another context with the same Done channel, and, being a slice, it
// can be no key of a map.
type renamed []context.Context

func (c renamed) Deadline() (time.Time, bool) { return c[0].Deadline() }
func (c renamed) Done() <-chan struct{}       { return c[0].Done() }
func (c renamed) Err() error                  { return c[0].Err() }
func (c renamed) Value(key any) any           { return c[0].Value(key) }

func (c renamed) AfterFunc(f func()) func() bool {
	return c[0].(interface{ AfterFunc(func()) func() bool }).AfterFunc(f)
}

// However many requests wait with a Done channel, there is one AfterFunc per
// semaphore, and it is stopped when the last of them has been decided.
func TestGroupHasOneAfterFunc(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 1000
		sems := []*semaphore.Weighted{semaphore.NewWeighted(requests), semaphore.NewWeighted(requests)}
		ctx := newManual(sems...)
		for spell := 1; spell <= 3; spell++ {
			for _, sem := range sems {
				sem.TryAcquire(requests)
				var c context.Context = ctx
				for i := range requests {
					if i%3 == 0 {
						c = renamed{ctx, c}
					}
					forms[i%2].ask(c, sem, 1, semaphore.Forever)
				}
			}
			ctx.wantFuncs(t, "while all wait", 2*spell, 2*spell-2)
			for _, sem := range sems {
				sem.Release(requests - 1)
			}
			ctx.wantFuncs(t, "while one waits", 2*spell, 2*spell-2)
			for _, sem := range sems {
				sem.Release(1)
			}
			ctx.wantFuncs(t, "when nobody waits", 2*spell, 2*spell)
			for _, sem := range sems {
				sem.Release(requests)
				wantIdle(t, sem, requests)
			}
		}
	})
}

// That the group of one context is over makes no difference to another.
func TestGroupOutlivesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		a, b := newManual(sem), newManual(sem)
		ofA, ofB := askAsync(a, sem, 1, semaphore.Forever), askAsync(b, sem, 1, semaphore.Forever)
		ofA.Cancel()
		another := askFunc(b, sem, 1, semaphore.Forever)
		a.wantFuncs(t, "a", 1, 1)
		b.wantFuncs(t, "b", 1, 0)
		b.end(errCustom)
		ofB.want(t, "b's first request", errCustom)
		another.want(t, "b's second request", errCustom)
	})
}

// An AfterFunc costs something, so there is none where nothing waits for it.
func TestGroupIsNotMadeWithoutNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(2)
		ctx := newManual(sem)
		for _, form := range forms {
			form.ask(ctx, sem, 1, semaphore.Forever).want(t, "granted at once", nil)
			form.ask(ctx, sem, 3, semaphore.Forever).want(t, "refused at once", semaphore.ErrExceedsLimit)
		}
		for _, form := range forms {
			form.ask(ctx, sem, 1, 0).want(t, "not willing to wait", semaphore.ErrTimeout)
			form.ask(t.Context(), sem, 1, semaphore.Forever).want(t, "another context", semaphore.ErrPending)
		}
		ctx.wantFuncs(t, "at the end", 0, 0)
	})
}

// deciders are what can decide the only request of a context, of 2 permits on a
// semaphore of limit 2, which are both held. It has a maximum wait of a minute.
var deciders = []struct {
	name   string
	decide func(sem *semaphore.Weighted, p *asked)
	want   error
}{
	{"Release", func(sem *semaphore.Weighted, _ *asked) { sem.Release(2) }, nil},
	{"SetLimit up", func(sem *semaphore.Weighted, _ *asked) { sem.SetLimit(4) }, nil},
	{"SetLimit down", func(sem *semaphore.Weighted, _ *asked) { sem.SetLimit(1) }, semaphore.ErrExceedsLimit},
	{"Close", func(sem *semaphore.Weighted, _ *asked) { sem.Close() }, semaphore.ErrClosed},
	{"the timer", func(*semaphore.Weighted, *asked) { time.Sleep(time.Minute) }, semaphore.ErrTimeout},
	{"Cancel", func(_ *semaphore.Weighted, p *asked) { p.Cancel() }, context.Canceled},
	{"Wait", func(_ *semaphore.Weighted, p *asked) { p.withdrawn = p.Wait(canceled()) != nil }, context.Canceled},
}

// Methods of a context are the user's code. They are called by whoever makes a
// request, or on a goroutine of their own: stopping may even block for good, and
// whoever decided the request goes on.
func TestGroupStopsOffTheDecidersGoroutine(t *testing.T) {
	for _, tt := range deciders {
		for _, form := range forms {
			t.Run(tt.name+"/"+form.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(2)
					sem.TryAcquire(2)
					ctx := newManual(sem)
					here := goroutine()
					var deciding atomic.Bool
					blocked := make(chan struct{})
					ctx.hook = func(method string) {
						if deciding.Load() && goroutine() == here {
							t.Errorf("%s was called on the goroutine of %s", method, tt.name)
						} else if method == "stop" {
							<-blocked
						}
					}
					p := form.ask(ctx, sem, 2, time.Minute)
					ctx.wantFuncs(t, "while it waits", 1, 0)
					deciding.Store(true)
					tt.decide(sem, p)
					p.want(t, "the request", tt.want)
					if !sem.Stats().Closed {
						late := acquireWithin(t.Context(), sem, 1, time.Hour)
						elapse(time.Hour) // the timer goes on as well
						if late.outcome() == errWaiting {
							t.Error("nothing goes on while stop blocks")
						}
					}
					deciding.Store(false)
					close(blocked)
					ctx.wantFuncs(t, "in the end", 1, 1)
					ctx.finish(errCustom)
				})
			})
		}
	}
}

// When the context's end decided the requests there is nothing to stop, and
// nothing is left with the context either.
func TestGroupThatFiredIsNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		ctx := newManual(sem)
		a, b := askAsync(ctx, sem, 1, semaphore.Forever), askFunc(ctx, sem, 1, semaphore.Forever)
		ctx.end(errCustom)
		a.want(t, "a", errCustom)
		b.want(t, "b", errCustom)
		ctx.wantFuncs(t, "in the end", 1, 0)
	})
}

// Contexts with a common Done channel may still have errors of their own.
func TestGroupMembersKeepTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		shared := newManual(sem)
		var ps []*asked
		var errs []error
		for i := range 600 { // more than are decided in one hold of the mutex
			errs = append(errs, fmt.Errorf("error %d", i))
			ps = append(ps, forms[i%2].ask(withErr{shared, errs[i]}, sem, 1, semaphore.Forever))
		}
		shared.end(errCustom)
		for i, p := range ps {
			p.want(t, "request", errs[i])
		}
		shared.wantFuncs(t, "in the end", 1, 0)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// withErr is a context with an error of its own.
type withErr struct {
	*manual
	err error
}

func (c withErr) Err() error {
	if c.manual.Err() == nil {
		return nil
	}
	return c.err
}

// Between the end of a context and the call of what it was told to call, a
// Release may come by. It passes over the ended requests, wherever they stand
// and however many, and they are canceled from then on; they are told when the
// context gets round to it.
func TestGroupEndedBeforeReleaseIsPassedOver(t *testing.T) {
	for _, dead := range []int{1, 2, 255, 256, 257, 1000} {
		for _, behind := range []int{0, 1} { // alive, in front of the dead
			t.Run(fmt.Sprintf("dead=%d/behind=%d", dead, behind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(2)
					sem.TryAcquire(2)
					ctx := newManual(sem)
					var front, ended []*asked
					for i := range behind {
						front = append(front, forms[i%2].ask(t.Context(), sem, 1, semaphore.Forever))
					}
					for i := range dead {
						ended = append(ended, forms[i%2].ask(ctx, sem, int64(1+i%2), time.Minute))
					}
					back := askFunc(t.Context(), sem, 1, semaphore.Forever)
					last := acquire(t.Context(), sem, 1)

					ctx.finish(errCustom)
					for _, p := range ended {
						p.want(t, "ended, before a Release", semaphore.ErrPending)
					}
					wantStats(t, sem, 2, 2, behind+dead+2)
					sem.Release(int64(1 + behind))
					for _, p := range front {
						p.want(t, "in front of the ended", nil)
					}
					back.want(t, "behind the ended", nil)
					last.want(t, "next", errWaiting)
					wantStats(t, sem, 2, 2, 1)
					for _, p := range ended {
						if err := p.Err(); err != errCustom {
							t.Fatalf("ended: Err() = %v, want %v", err, errCustom)
						}
						if p.Cancel() {
							t.Fatal("ended: Cancel() = true, want false: it is decided")
						}
						if err := p.Wait(t.Context()); err != errCustom {
							t.Fatalf("ended: Wait() = %v, want %v", err, errCustom)
						}
						if len(p.called()) != 0 {
							t.Fatal("ended: f was called before the context's AfterFunc")
						}
					}
					time.Sleep(time.Minute) // nothing is left that could expire
					ctx.tell()
					for _, p := range ended {
						p.want(t, "ended", errCustom)
					}
					ctx.wantFuncs(t, "in the end", 1, 0)
					sem.Release(1)
					last.want(t, "the last", nil)
					sem.Release(2)
					wantIdle(t, sem, 2)
				})
			})
		}
	}
}

// Done, asked for after the grant loop passed over the request and before its
// context told, is closed: the request is decided.
func TestGroupEndedBeforeReleaseIsDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		ctx := newManual(sem)
		p := sem.AcquireAsync(ctx, 1, semaphore.Forever)
		ctx.finish(errCustom)
		sem.Release(1)
		<-p.Done()
		ctx.tell()
		synctest.Wait()
		<-p.Done()
		wantIdle(t, sem, 1)
	})
}

// A context that is done and has no error ends the process when package context
// is told so. Until then, the request is canceled, and not granted.
func TestGroupEndedWithoutError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		ctx := newManual(sem)
		p := askFunc(ctx, sem, 1, semaphore.Forever)
		ctx.finish(nil)
		sem.Release(1)
		if err := p.Err(); err != context.Canceled {
			t.Errorf("Err() = %v, want %v", err, context.Canceled)
		}
		wantIdle(t, sem, 1)
	})
}

// What decides a request between its context's end and the context's telling
// decides it for good, be it another than the grant loop.
func TestGroupEndedMeetsOtherDecisions(t *testing.T) {
	for _, tt := range deciders {
		if tt.want == nil {
			continue // the grant loop, above
		}
		for _, form := range forms {
			t.Run(tt.name+"/"+form.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(2)
					sem.TryAcquire(2)
					ctx := newManual(sem)
					p := form.ask(ctx, sem, 2, time.Minute)
					ctx.finish(errCustom)
					tt.decide(sem, p)
					p.want(t, "decided", tt.want)
					ctx.tell()
					p.want(t, "told", tt.want)
				})
			})
		}
	}
}

// arming is when AfterFunc is being called for a group: its first request is
// queued already, and the mutex is free.
func TestGroupWhileArming(t *testing.T) {
	for _, form := range forms {
		for _, tt := range []struct {
			name    string
			arming  func(ctx *manual, sem *semaphore.Weighted)
			want    error
			stopped int
		}{
			{"nothing happens", func(*manual, *semaphore.Weighted) {}, semaphore.ErrPending, 0},
			{"the request is granted", func(_ *manual, sem *semaphore.Weighted) { sem.Release(1) }, nil, 1},
			{"the semaphore is closed", func(_ *manual, sem *semaphore.Weighted) { sem.Close() }, semaphore.ErrClosed, 1},
			{"the request expires", func(*manual, *semaphore.Weighted) { time.Sleep(time.Minute) }, semaphore.ErrTimeout, 1},
			{"the context ends", func(ctx *manual, _ *semaphore.Weighted) {
				ctx.finish(errCustom)
				go func() { time.Sleep(time.Nanosecond); ctx.tell() }()
			}, errCustom, 0},
			{"the context ends, then comes a Release", func(ctx *manual, sem *semaphore.Weighted) {
				ctx.finish(errCustom)
				sem.Release(1)
				go func() { time.Sleep(time.Nanosecond); ctx.tell() }()
			}, errCustom, 0},
		} {
			t.Run(tt.name+"/"+form.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(1)
					sem.TryAcquire(1)
					ctx := newManual(sem)
					ctx.hook = func(method string) {
						if method == "AfterFunc" {
							tt.arming(ctx, sem)
						}
					}
					p := form.ask(ctx, sem, 1, time.Minute)
					time.Sleep(time.Nanosecond)
					p.want(t, "the request", tt.want)
					ctx.wantFuncs(t, "after arming", 1, tt.stopped)
					ctx.end(errCustom)
					if tt.want == semaphore.ErrPending {
						tt.want = errCustom
					}
					p.want(t, "in the end", tt.want)
					ctx.wantFuncs(t, "in the end", 1, tt.stopped)
				})
			})
		}
	}
}

// Others may join a group that is being armed, and outlive its first request.
func TestGroupJoinedWhileArming(t *testing.T) {
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				sem.TryAcquire(1)
				ctx := newManual(sem)
				var second *asked
				ctx.hook = func(method string) {
					if method == "AfterFunc" {
						second = form.ask(renamed{ctx}, sem, 1, semaphore.Forever)
						sem.Release(1) // to the first
					}
				}
				first := form.ask(ctx, sem, 1, semaphore.Forever)
				first.want(t, "first", nil)
				second.want(t, "second", semaphore.ErrPending)
				ctx.wantFuncs(t, "while the second waits", 1, 0)
				ctx.end(errCustom)
				first.want(t, "first", nil)
				second.want(t, "second", errCustom)
				sem.Release(1)
				wantIdle(t, sem, 1)
			})
		})
	}
}

// A request made while its group is being told by the context joins no group
// that nobody will tell any more.
func TestGroupIsNotJoinedOnceItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		ctx := newManual(sem)
		askAsync(ctx, sem, 1, semaphore.Forever)
		ctx.finish(errCustom)
		late := askFunc(ctx, sem, 1, semaphore.Forever)
		late.want(t, "a request after the end", errCustom)
		ctx.tell()
		synctest.Wait()
		wantStats(t, sem, 1, 1, 0)
	})
}

// contexts are kinds of contexts that can end, and how.
var contexts = []struct {
	name string
	make func() (ctx context.Context, end func(), want error)
}{
	{"of package context", func() (context.Context, func(), error) {
		ctx, cancel := context.WithCancel(context.Background())
		return ctx, cancel, context.Canceled
	}},
	{"with a value", func() (context.Context, func(), error) {
		ctx, cancel := context.WithCancel(context.Background())
		return context.WithValue(ctx, contextKey{}, 1), cancel, context.Canceled
	}},
	{"with a cause", func() (context.Context, func(), error) {
		ctx, cancel := context.WithCancelCause(context.Background())
		return ctx, func() { cancel(errCustom) }, context.Canceled
	}},
	{"with a deadline", func() (context.Context, func(), error) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		return ctx, func() { time.Sleep(time.Hour + 1); cancel() }, context.DeadlineExceeded
	}},
	{"with an AfterFunc of its own", func() (context.Context, func(), error) {
		ctx := newManual()
		return ctx, func() { ctx.end(errCustom) }, errCustom
	}},
	{"whose canceler calls what AfterFunc was given", func() (context.Context, func(), error) {
		ctx := newManual()
		ctx.inline = true
		return ctx, func() { ctx.end(errCustom) }, errCustom
	}},
	{"without AfterFunc", func() (context.Context, func(), error) {
		ctx := newManual()
		return plain{ctx}, func() { ctx.end(errCustom) }, errCustom
	}},
	{"that cannot be hashed", func() (context.Context, func(), error) {
		ctx := newManual()
		return renamed{ctx}, func() { ctx.end(errCustom) }, errCustom
	}},
	{"that cannot be hashed, of package context", func() (context.Context, func(), error) {
		ctx, cancel := context.WithCancel(context.Background())
		return unhashable{ctx}, cancel, context.Canceled
	}},
}

type contextKey struct{}

// plain hides all that an interface does not ask for.
type plain struct{ context.Context }

// unhashable is a context that package context sees through.
type unhashable []context.Context

func (c unhashable) Deadline() (time.Time, bool) { return c[0].Deadline() }
func (c unhashable) Done() <-chan struct{}       { return c[0].Done() }
func (c unhashable) Err() error                  { return c[0].Err() }
func (c unhashable) Value(key any) any           { return c[0].Value(key) }

// Every context that ends, whatever it is made of, cancels all requests made
// with it and no other.
func TestGroupOfEveryKindOfContext(t *testing.T) {
	for _, tt := range contexts {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				sem.TryAcquire(1)
				ctx, end, want := tt.make()
				var ps []*asked
				for i := range 300 {
					ps = append(ps, forms[i%2].ask(ctx, sem, 1, 2*time.Hour))
				}
				other := askFunc(t.Context(), sem, 1, semaphore.Forever)
				end()
				for _, p := range ps {
					p.want(t, "the request", want)
				}
				for _, form := range forms {
					form.ask(ctx, sem, 1, semaphore.Forever).want(t, "another one", want)
				}
				other.want(t, "with another context", semaphore.ErrPending)
				wantStats(t, sem, 1, 1, 1)
				sem.Release(1)
				other.want(t, "with another context", nil)
				sem.Release(1)
				wantIdle(t, sem, 1)
			})
		})
	}
}

// A context that never ends has a Done channel that is nil, and so no group.
func TestGroupOfContextWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		ctx := newManual(sem)
		ctx.done = nil
		p := askFunc(ctx, sem, 1, semaphore.Forever)
		ctx.wantFuncs(t, "while it waits", 0, 0)
		sem.Release(1)
		p.want(t, "the request", nil)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// Members that leave in any order leave the others linked, and those who join
// later.
func TestGroupMembersLeaveInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const members = 20
		for seed := range uint64(50) {
			r := rand.New(rand.NewPCG(seed, 0))
			sem := semaphore.NewWeighted(1)
			sem.TryAcquire(1)
			ctx := newManual(sem)
			var ps []*asked
			for range 3 {
				for i := range members {
					ps = append(ps, forms[i%2].ask(ctx, sem, 1, semaphore.Forever))
				}
				for _, i := range r.Perm(len(ps))[:r.IntN(len(ps)+1)] {
					ps[i].Cancel()
				}
			}
			ctx.end(errCustom)
			for i, p := range ps {
				want := errCustom
				if p.withdrawn {
					want = context.Canceled
				}
				p.want(t, fmt.Sprintf("seed %d: member %d", seed, i), want)
			}
			sem.Release(1)
			wantIdle(t, sem, 1)
		}
	})
}
