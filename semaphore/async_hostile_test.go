package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// sabotage makes a method of a context fail, at one of its calls, by a panic or
// by ending the goroutine. It strikes where the semaphore is the caller: on the
// goroutine that makes the request and, with Goexit, on those that the
// semaphore starts. (A panic there would end the process.)
type sabotage struct {
	method string
	at     int
	goexit bool

	mu     sync.Mutex
	caller string // the goroutine that makes the request
	calls  int
}

func (s *sabotage) String() string {
	return fmt.Sprintf("%s, call %d, goexit=%t", s.method, s.at, s.goexit)
}

func (s *sabotage) strike(method string) {
	s.mu.Lock()
	due := false
	if method == s.method && (goroutine() == s.caller || s.goexit && startedBySemaphore()) {
		s.calls++
		due = s.calls == s.at
	}
	s.mu.Unlock()
	switch {
	case due && s.goexit:
		runtime.Goexit()
	case due:
		panic(method)
	}
}

// startedBySemaphore reports whether the semaphore has started the goroutine,
// itself or by context.AfterFunc.
func startedBySemaphore() bool {
	buf := make([]byte, 1<<14)
	stack := string(buf[:runtime.Stack(buf, false)])
	return strings.Contains(stack, "turnstile/semaphore.") && !strings.Contains(stack, "turnstile/semaphore_test.Test")
}

// bystander is a context that has nothing but its Done channel in common with
// another.
type bystander struct{ done <-chan struct{} }

var errBystander = errors.New("bystander")

func (c bystander) Deadline() (time.Time, bool) { return time.Time{}, false }
func (c bystander) Done() <-chan struct{}       { return c.done }
func (c bystander) Value(any) any               { return nil }

func (c bystander) Err() error {
	select {
	case <-c.done:
		return errBystander
	default:
		return nil
	}
}

// ambush is a hostile context at work on a semaphore of limit 1, whose permit
// is held.
type ambush struct {
	*semaphore.Weighted
	ctx        *manual
	held       int64
	bystanders []*asked
}

func (a *ambush) release() {
	a.Release(a.held)
	a.held = 0
}

// bystand queues a request, whose f returns what it is granted.
func (a *ambush) bystand() {
	told := make(chan told, 2)
	a.bystanders = append(a.bystanders, &asked{told: told, Pending: a.askReleasing(bystander{a.ctx.done}, told)})
}

func (a *ambush) askReleasing(ctx context.Context, c chan<- told) *semaphore.Pending {
	return a.AcquireFunc(ctx, 1, time.Minute, func(err error) {
		if err == nil {
			a.Release(1)
		}
		c <- told{err: err}
	})
}

// A method of a context that panics or ends its goroutine, at whichever call,
// leaves nothing queued and nothing held: its caller gets no Pending to give
// permits back with. And others with the same Done channel do not suffer.
func TestHostileContextHarmsNobodyElse(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before func(a *ambush)
		arming func(a *ambush) // while AfterFunc is called
	}{
		{name: "alone"},
		{name: "in a group of others", before: (*ambush).bystand},
		{name: "others join meanwhile", arming: (*ambush).bystand},
		{name: "granted meanwhile", arming: (*ambush).release},
		{name: "granted meanwhile, others join", arming: func(a *ambush) {
			a.release()
			a.bystand()
		}},
		{name: "expired meanwhile, others join", arming: func(a *ambush) {
			time.Sleep(time.Minute - 1)
			a.bystand()
			time.Sleep(time.Nanosecond)
		}},
		{name: "ended meanwhile", arming: func(a *ambush) {
			a.bystand()
			a.ctx.finish(errCustom)
		}},
		{name: "ended meanwhile, before a Release", arming: func(a *ambush) {
			a.bystand()
			a.ctx.finish(errCustom)
			a.release()
		}},
	} {
		for _, method := range []string{"Done", "Err", "Value", "AfterFunc", "stop"} {
			t.Run(tt.name+"/"+method, func(t *testing.T) {
				for at := 1; at <= 5; at++ {
					for _, goexit := range []bool{false, true} {
						for _, withFunc := range []bool{false, true} {
							s := &sabotage{method: method, at: at, goexit: goexit}
							synctest.Test(t, func(t *testing.T) { s.play(t, tt.before, tt.arming, withFunc) })
						}
					}
				}
			})
		}
	}
}

func (s *sabotage) play(t *testing.T, before, arming func(*ambush), withFunc bool) {
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	a := &ambush{Weighted: sem, ctx: newManual(sem), held: 1}
	a.ctx.hook = func(method string) {
		if method == "AfterFunc" && arming != nil {
			arming(a)
		}
		s.strike(method)
	}
	if before != nil {
		before(a)
	}
	c := make(chan told, 2)
	result := make(chan *semaphore.Pending, 1)
	go func() {
		var p *semaphore.Pending // stays nil if the call does not return
		defer func() {
			_ = recover()
			result <- p
		}()
		s.mu.Lock()
		s.caller = goroutine()
		s.mu.Unlock()
		if withFunc {
			p = a.askReleasing(a.ctx, c)
		} else {
			p = sem.AcquireAsync(a.ctx, 1, time.Minute)
		}
	}()
	p := <-result
	if p == nil && !withFunc {
		a.want(t, s)
	}
	if before != nil {
		a.bystand() // after
	}
	a.ctx.end(errCustom)
	synctest.Wait()
	for i, b := range a.bystanders {
		if calls := b.called(); len(calls) != 1 {
			t.Errorf("%v: f of bystander %d was called %d times, want 1", s, i, len(calls))
		} else if err := calls[0].err; err != nil && err != errBystander {
			t.Errorf("%v: f of bystander %d was called with %v", s, i, err)
		}
	}
	switch {
	case withFunc && (len(c) > 1 || p != nil && len(c) < 1):
		t.Errorf("%v: f was called %d times, want 1", s, len(c))
	case p != nil && p.Err() == semaphore.ErrPending:
		t.Errorf("%v: the request is still pending", s)
	case p != nil && p.Err() == errBystander:
		t.Errorf("%v: the request ended with the error of another's context", s)
	case p != nil && !withFunc && p.Err() == nil:
		sem.Release(1)
	}
	if p != nil {
		select {
		case <-p.Done():
		default:
			t.Errorf("%v: Done is open", s)
		}
	}
	a.release()
	if got, want := sem.Stats(), (semaphore.Stats{Limit: 1, Available: 1}); got != want {
		t.Errorf("%v: Stats = %+v, want %+v", s, got, want)
	}
}

// want fails the test unless only the bystanders wait or hold.
func (a *ambush) want(t *testing.T, s *sabotage) {
	t.Helper()
	synctest.Wait()
	waiting := 0
	for _, b := range a.bystanders {
		if b.Err() == semaphore.ErrPending {
			waiting++
		}
	}
	if got := a.Stats(); got.Waiting != waiting || got.InUse != a.held {
		t.Errorf("%v: Stats = %+v, want %d waiting and %d in use", s, got, waiting, a.held)
	}
}

// A context that fails once more while the semaphore cleans up after it.
func TestHostileContextThatFailsTwice(t *testing.T) {
	for _, goexit := range []bool{false, true} {
		for _, form := range forms {
			t.Run(fmt.Sprintf("goexit=%t/%s", goexit, form.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem := semaphore.NewWeighted(1)
					sem.TryAcquire(1)
					a := &ambush{Weighted: sem, ctx: newManual(sem), held: 1}
					failing, caller := false, ""
					a.ctx.hook = func(method string) {
						if method == "AfterFunc" {
							a.bystand()
							a.ctx.finish(errCustom)
							a.release()
							failing = true
						}
						switch {
						case failing && goexit:
							runtime.Goexit()
						case failing && goroutine() == caller:
							panic(method)
						}
					}
					result := make(chan any)
					go func() {
						defer func() { result <- recover() }()
						caller = goroutine()
						form.ask(a.ctx, sem, 1, semaphore.Forever)
					}()
					if got := <-result; got == nil && !goexit {
						t.Error("the panic did not reach the caller")
					}
					for _, b := range a.bystanders {
						b.want(t, "bystander", errBystander)
					}
					wantIdle(t, sem, 1)
				})
			})
		}
	}
}

// Whoever watches over the requests of a context whose AfterFunc fails goes
// when they have: the context need not end for that, or the bubble would not.
func TestHostileContextLeavesNoGoroutine(t *testing.T) {
	for _, bystanders := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			sem := semaphore.NewWeighted(1)
			sem.TryAcquire(1)
			a := &ambush{Weighted: sem, ctx: newManual(sem), held: 1}
			a.ctx.hook = func(method string) {
				if method == "AfterFunc" {
					for range bystanders {
						a.bystand()
					}
					panic(method)
				}
			}
			if got := panicOf(func() { sem.AcquireAsync(a.ctx, 1, semaphore.Forever) }); got != "AfterFunc" {
				t.Errorf("panic: got %q, want that of AfterFunc", got)
			}
			for _, b := range a.bystanders {
				b.want(t, "bystander", semaphore.ErrPending)
				b.Cancel()
			}
			a.release()
			wantIdle(t, sem, 1)
		})
	}
}

// Of several contexts that lose their last request at one moment, each is let
// go of, even if letting go of another ends the goroutine.
func TestHostileStopStrandsNoOther(t *testing.T) {
	for hostile := range 3 {
		t.Run(fmt.Sprint(hostile), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				sem.TryAcquire(1)
				var contexts []*manual
				for i := range 3 {
					ctx := newManual(sem)
					ctx.hook = func(method string) {
						if method == "stop" && i == hostile {
							runtime.Goexit()
						}
					}
					askAsync(ctx, sem, 1, semaphore.Forever)
					contexts = append(contexts, ctx)
				}
				sem.Close()
				for i, ctx := range contexts {
					if i != hostile {
						ctx.wantFuncs(t, fmt.Sprintf("context %d", i), 1, 1)
					}
				}
			})
		})
	}
}
