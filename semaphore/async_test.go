package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// asked is an asynchronous request and, of AcquireFunc, the calls of its f.
type asked struct {
	*semaphore.Pending
	told      chan told // nil for AcquireAsync
	calls     []told    // those taken out of told
	withdrawn bool      // then f is never called
}

// told is one call of f.
type told struct {
	err   error
	where string // the goroutine
}

// forms are the two ways to ask.
var forms = []struct {
	name string
	ask  func(ctx context.Context, sem *semaphore.Weighted, n int64, maxWait time.Duration) *asked
}{
	{"AcquireAsync", askAsync},
	{"AcquireFunc", askFunc},
}

func askAsync(ctx context.Context, sem *semaphore.Weighted, n int64, maxWait time.Duration) *asked {
	return &asked{Pending: sem.AcquireAsync(ctx, n, maxWait)}
}

func askFunc(ctx context.Context, sem *semaphore.Weighted, n int64, maxWait time.Duration) *asked {
	c := make(chan told, 2) // room for one call too many
	return &asked{
		Pending: sem.AcquireFunc(ctx, n, maxWait, func(err error) { c <- told{err, goroutine()} }),
		told:    c,
	}
}

// goroutine names the goroutine that calls it.
func goroutine() string {
	buf := make([]byte, 64)
	name, _, _ := strings.Cut(string(buf[:runtime.Stack(buf, false)]), " [")
	return name
}

// Cancel cancels, and remembers that it succeeded.
func (a *asked) Cancel() bool {
	ok := a.Pending.Cancel()
	a.withdrawn = a.withdrawn || ok
	return ok
}

// called returns the calls of f, once everything that can go on has gone on.
func (a *asked) called() []told {
	synctest.Wait()
	for len(a.told) > 0 {
		a.calls = append(a.calls, <-a.told)
	}
	return a.calls
}

// want fails the test unless the request has this outcome once everything that
// can go on has gone on, or semaphore.ErrPending, and was told so everywhere.
func (a *asked) want(t *testing.T, who string, want error) {
	t.Helper()
	calls := a.called()
	if got := a.Err(); got != want {
		t.Errorf("%s: Err() = %v, want %v", who, got, want)
	}
	select {
	case <-a.Done():
		if want == semaphore.ErrPending {
			t.Errorf("%s: Done is closed before the request is decided", who)
		}
	default:
		if want != semaphore.ErrPending {
			t.Errorf("%s: Done is open, want closed: %v", who, want)
		}
	}
	wantCalls := 0
	if a.told != nil && !a.withdrawn && want != semaphore.ErrPending {
		wantCalls = 1
	}
	if len(calls) != wantCalls {
		t.Errorf("%s: f was called %d times, want %d: %v", who, len(calls), wantCalls, calls)
	} else if wantCalls == 1 && calls[0].err != want {
		t.Errorf("%s: f was called with %v, want %v", who, calls[0].err, want)
	}
}

// errCustom is what a context says that is not of package context.
var errCustom = errors.New("custom")

// scene is where an asynchronous request comes to its outcome.
type scene struct {
	*semaphore.Weighted
	*asked
	t     *testing.T
	ask   func(ctx context.Context, n int64, maxWait time.Duration)
	inUse int64 // by others
}

func (s *scene) hold(n int64) {
	s.t.Helper()
	if !s.TryAcquire(n) {
		s.t.Fatalf("TryAcquire(%d) = false: %+v", n, s.Stats())
	}
	s.inUse += n
}

func (s *scene) give(n int64) {
	s.Release(n)
	s.inUse -= n
}

// outcomes are all the ways in which a request of one permit can end, on a
// semaphore of limit 2 with room for one waiter.
var outcomes = []struct {
	name      string
	play      func(s *scene)
	want      error
	withdrawn bool
}{
	{"granted at once", func(s *scene) {
		s.ask(s.t.Context(), 1, semaphore.Forever)
	}, nil, false},
	{"granted at once, not willing to wait", func(s *scene) {
		s.ask(s.t.Context(), 1, math.MinInt64)
	}, nil, false},
	{"granted by Release", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		s.give(1)
	}, nil, false},
	{"granted by Release, in time", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, time.Minute)
		time.Sleep(time.Minute - 1)
		s.give(1)
		time.Sleep(time.Minute) // is over: nothing happens
	}, nil, false},
	{"granted by SetLimit", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		s.SetLimit(3)
	}, nil, false},
	{"granted by SetLimit after a pause", func(s *scene) {
		s.SetLimit(0)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		s.SetLimit(2)
	}, nil, false},
	{"granted, then its context ends", func(s *scene) {
		ctx, cancel := context.WithCancel(s.t.Context())
		s.hold(2)
		s.ask(ctx, 1, semaphore.Forever)
		s.give(1)
		cancel()
	}, nil, false},
	{"granted, and so not to be canceled", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		s.give(1)
		if s.Cancel() {
			s.t.Error("Cancel after the grant = true, want false")
		}
	}, nil, false},
	{"granted, and so not to be withdrawn by Wait", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		s.give(1)
		if err := s.Wait(canceled()); err != nil {
			s.t.Errorf("Wait after the grant = %v, want nil", err)
		}
	}, nil, false},
	{"expired", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, time.Minute)
		time.Sleep(time.Minute - 1)
		s.want(s.t, "a moment before", semaphore.ErrPending)
		time.Sleep(time.Nanosecond)
	}, semaphore.ErrTimeout, false},
	{"evicted", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 2, semaphore.Forever)
		s.SetLimit(1)
	}, semaphore.ErrExceedsLimit, false},
	{"evicted when a pause ends", func(s *scene) {
		s.SetLimit(0)
		s.ask(s.t.Context(), 1e9, semaphore.Forever)
		s.SetLimit(1)
	}, semaphore.ErrExceedsLimit, false},
	{"closed", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		s.Close()
	}, semaphore.ErrClosed, false},
	{"its context is canceled", func(s *scene) {
		ctx, cancel := context.WithCancel(s.t.Context())
		s.hold(2)
		s.ask(ctx, 1, semaphore.Forever)
		cancel()
	}, context.Canceled, false},
	{"its context's deadline passes", func(s *scene) {
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
		defer cancel()
		s.hold(2)
		s.ask(ctx, 1, semaphore.Forever)
		time.Sleep(time.Minute)
		synctest.Wait()
	}, context.DeadlineExceeded, false},
	{"its context ends with an error of its own", func(s *scene) {
		ctx := newManual()
		s.hold(2)
		s.ask(ctx, 1, semaphore.Forever)
		ctx.end(errCustom)
	}, errCustom, false},
	{"canceled", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		if !s.Cancel() {
			s.t.Error("Cancel of a request that waits = false, want true")
		}
	}, context.Canceled, true},
	{"canceled, and its context could say otherwise", func(s *scene) {
		ctx := newManual()
		s.hold(2)
		s.ask(ctx, 1, time.Minute)
		s.Cancel()
		ctx.end(errCustom)
		time.Sleep(time.Minute)
	}, context.Canceled, true},
	{"withdrawn by Wait", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		ctx := newManual()
		wait := start(func() error { return s.Wait(ctx) })
		wait.want(s.t, "Wait", errWaiting)
		ctx.end(errCustom)
		wait.want(s.t, "Wait", errCustom)
	}, context.Canceled, true},
	{"withdrawn by Wait at once", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		if err := s.Wait(canceled()); err != context.Canceled {
			s.t.Errorf("Wait = %v, want %v", err, context.Canceled)
		}
	}, context.Canceled, true},
	{"its context was done", func(s *scene) {
		s.ask(canceled(), 1, semaphore.Forever)
	}, context.Canceled, false},
	{"its context was done with an error of its own", func(s *scene) {
		ctx := newManual()
		ctx.end(errCustom)
		s.ask(ctx, 1, semaphore.Forever)
	}, errCustom, false},
	{"refused: closed", func(s *scene) {
		s.Close()
		s.ask(s.t.Context(), 1, semaphore.Forever)
	}, semaphore.ErrClosed, false},
	{"refused: too heavy", func(s *scene) {
		s.ask(s.t.Context(), 3, semaphore.Forever)
	}, semaphore.ErrExceedsLimit, false},
	{"refused: not willing to wait", func(s *scene) {
		s.hold(2)
		s.ask(s.t.Context(), 1, 0)
	}, semaphore.ErrTimeout, false},
	{"refused: not willing to wait, heavy", func(s *scene) {
		s.hold(1)
		s.ask(s.t.Context(), 2, -1)
	}, semaphore.ErrTimeout, false},
	{"refused: queue full", func(s *scene) {
		s.hold(2)
		before := s.AcquireAsync(s.t.Context(), 1, semaphore.Forever)
		s.ask(s.t.Context(), 1, semaphore.Forever)
		before.Cancel()
	}, semaphore.ErrQueueFull, false},
}

// Whatever the outcome, each of Err, Done, Wait, Cancel and f tells the same,
// and the request has no power over anything afterwards. Nor does Unfair make a
// difference to it.
func TestAsyncOutcome(t *testing.T) {
	for _, tt := range outcomes {
		for _, form := range forms {
			for _, early := range []bool{false, true} { // is Done asked for
				for _, unfair := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/early=%t/unfair=%t", tt.name, form.name, early, unfair), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							sem, err := semaphore.New(semaphore.Config{Limit: 2, MaxWaiters: 1, Unfair: unfair})
							if err != nil {
								t.Fatal(err)
							}
							done := make(<-chan struct{})
							s := &scene{Weighted: sem, t: t}
							s.ask = func(ctx context.Context, n int64, maxWait time.Duration) {
								s.asked = form.ask(ctx, sem, n, maxWait)
								if early {
									done = s.Done()
								}
							}
							tt.play(s)
							s.withdrawn = tt.withdrawn
							s.want(t, "the request", tt.want)
							if early {
								<-done
							}
							if len(s.calls) > 0 && s.calls[0].where == goroutine() {
								t.Error("f was called on the goroutine of a caller, a releaser or a canceler")
							}
							wantPowerless(t, s.asked, sem, tt.want)

							if tt.want == nil {
								s.inUse++
							}
							wantInUse(t, sem, s.inUse)
							sem.Release(s.inUse)
							if !sem.Stats().Closed {
								wantIdle(t, sem, sem.Stats().Limit)
							}
						})
					})
				}
			}
		}
	}
}

// wantPowerless fails the test unless a request that is decided answers as it
// should and leaves alone another, which waits.
func wantPowerless(t *testing.T, a *asked, sem *semaphore.Weighted, want error) {
	t.Helper()
	var other *asked
	if s := sem.Stats(); !s.Closed {
		sem.TryAcquire(s.Available)
		defer sem.Release(s.Available)
		other = askFunc(t.Context(), sem, 1, time.Hour)
	}
	inUse := sem.Stats().InUse
	for range 2 {
		if a.Pending.Cancel() {
			t.Error("Cancel of a decided request = true, want false")
		}
	}
	for _, ctx := range []context.Context{t.Context(), canceled()} {
		if got := a.Wait(ctx); got != want {
			t.Errorf("Wait of a decided request = %v, want %v", got, want)
		}
	}
	a.want(t, "after Cancel and Wait", want)
	wantInUse(t, sem, inUse)
	if other != nil {
		other.want(t, "another request", semaphore.ErrPending)
		other.Cancel()
		other.want(t, "another request", context.Canceled)
	}
}

func wantInUse(t *testing.T, sem *semaphore.Weighted, want int64) {
	t.Helper()
	if got := sem.Stats().InUse; got != want {
		t.Errorf("InUse = %d, want %d", got, want)
	}
}

// Each row is refused for one reason although the later ones hold as well.
func TestAsyncOrderOfChecks(t *testing.T) {
	for _, tt := range []struct {
		reason  string
		done    bool // ctx
		closed  bool
		n       int64
		free    bool
		maxWait time.Duration
		full    bool // the queue
		want    error
	}{
		{"the context first", true, true, 9, false, 0, true, context.Canceled},
		{"the context before free permits", true, false, 1, true, semaphore.Forever, false, context.Canceled},
		{"then closed", false, true, 9, false, 0, true, semaphore.ErrClosed},
		{"closed before free permits", false, true, 1, true, semaphore.Forever, false, semaphore.ErrClosed},
		{"then the limit", false, false, 9, false, 0, true, semaphore.ErrExceedsLimit},
		{"then free permits", false, false, 1, true, 0, false, nil},
		{"then the wait", false, false, 1, false, 0, true, semaphore.ErrTimeout},
		{"then the queue", false, false, 1, false, 1, true, semaphore.ErrQueueFull},
		{"at last it waits", false, false, 1, false, 1, false, semaphore.ErrPending},
	} {
		for _, form := range forms {
			t.Run(tt.reason+"/"+form.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sem, err := semaphore.New(semaphore.Config{Limit: 2, MaxWaiters: 2})
					if err != nil {
						t.Fatal(err)
					}
					ctx := t.Context()
					if tt.done {
						ctx = canceled()
					}
					if !tt.free {
						sem.TryAcquire(2)
						waiters := 1
						if tt.full {
							waiters = 2
						}
						for range waiters {
							defer sem.AcquireAsync(t.Context(), 1, semaphore.Forever).Cancel()
						}
					}
					if tt.closed {
						sem.Close()
					}
					a := form.ask(ctx, sem, tt.n, tt.maxWait)
					a.want(t, "the request", tt.want)
					a.Cancel()
				})
			})
		}
	}
}

// A mistake of the caller panics, before anything is taken or queued, whether
// permits are free or not.
func TestAsyncMistakesPanic(t *testing.T) {
	const nilDeref = "runtime error: invalid memory address or nil pointer dereference"
	nop := func(error) { t.Error("f was called") }
	var noCtx context.Context
	for _, tt := range []struct {
		mistake string
		want    string
		call    func(ctx context.Context, sem *semaphore.Weighted)
	}{
		{"AcquireAsync, negative weight", "semaphore: negative weight", func(ctx context.Context, sem *semaphore.Weighted) {
			sem.AcquireAsync(ctx, -1, semaphore.Forever)
		}},
		{"AcquireAsync, most negative weight", "semaphore: negative weight", func(ctx context.Context, sem *semaphore.Weighted) {
			sem.AcquireAsync(ctx, math.MinInt64, 0)
		}},
		{"AcquireFunc, negative weight", "semaphore: negative weight", func(ctx context.Context, sem *semaphore.Weighted) {
			sem.AcquireFunc(ctx, -1, semaphore.Forever, nop)
		}},
		{"AcquireFunc, nil f", "semaphore: nil func", func(ctx context.Context, sem *semaphore.Weighted) {
			sem.AcquireFunc(ctx, 1, semaphore.Forever, nil)
		}},
		{"AcquireAsync, nil context", nilDeref, func(_ context.Context, sem *semaphore.Weighted) {
			sem.AcquireAsync(noCtx, 1, semaphore.Forever)
		}},
		{"AcquireFunc, nil context", nilDeref, func(_ context.Context, sem *semaphore.Weighted) {
			sem.AcquireFunc(noCtx, 1, semaphore.Forever, nop)
		}},
	} {
		for _, held := range []int64{0, 2} {
			for _, state := range []string{"open", "closed", "done"} {
				t.Run(fmt.Sprintf("%s/held=%d/%s", tt.mistake, held, state), func(t *testing.T) {
					sem, ctx := semaphore.NewWeighted(2), t.Context()
					sem.TryAcquire(held)
					switch state {
					case "closed":
						sem.Close()
					case "done":
						ctx = canceled()
					}
					before := sem.Stats()
					if got := panicOf(func() { tt.call(ctx, sem) }); got != tt.want {
						t.Errorf("panic: got %q, want %q", got, tt.want)
					}
					if after := sem.Stats(); after != before {
						t.Errorf("Stats = %+v, want %+v as before", after, before)
					}
				})
			}
		}
	}
}

// panicOf returns what f panics with, as text.
func panicOf(f func()) (text string) {
	defer func() { text = fmt.Sprint(recover()) }()
	f()
	return ""
}

// A nil context given to Wait panics, and the request is as before.
func TestWaitNilContextPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		p := askAsync(t.Context(), sem, 1, semaphore.Forever)
		var noCtx context.Context
		if got := panicOf(func() { _ = p.Wait(noCtx) }); !strings.Contains(got, "nil pointer") {
			t.Errorf("Wait(nil): panic %q, want that of a nil pointer", got)
		}
		p.want(t, "the request", semaphore.ErrPending)
		p.Cancel()
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// Done is one channel from the first call to the decision.
func TestDoneIsOneChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		p := sem.AcquireAsync(t.Context(), 1, semaphore.Forever)
		done := p.Done()
		if p.Done() != done {
			t.Error("a second Done is another channel")
		}
		sem.Release(1)
		<-done
		<-p.Done()
	})
}

// Several goroutines may wait for one request. They all see its outcome, and if
// the context of one ends, the request is withdrawn for all.
func TestWaitFromSeveralGoroutines(t *testing.T) {
	for _, tt := range []struct {
		name   string
		decide func(sem *semaphore.Weighted, cancel func())
		want   error // of those whose context lives
		first  error // of the one whose context may end
	}{
		{"granted", func(sem *semaphore.Weighted, _ func()) { sem.Release(1) }, nil, nil},
		{"closed", func(sem *semaphore.Weighted, _ func()) { sem.Close() }, semaphore.ErrClosed, semaphore.ErrClosed},
		{"one gives up", func(_ *semaphore.Weighted, cancel func()) { cancel() }, context.Canceled, errCustom},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(1)
				sem.TryAcquire(1)
				p := sem.AcquireAsync(t.Context(), 1, semaphore.Forever)
				ctx := newManual()
				first := start(func() error { return p.Wait(ctx) })
				var others []*call
				for range 3 {
					others = append(others, start(func() error { return p.Wait(t.Context()) }))
				}
				for _, c := range others {
					c.want(t, "Wait", errWaiting)
				}
				tt.decide(sem, func() { ctx.end(errCustom) })
				first.want(t, "first Wait", tt.first)
				for _, c := range others {
					c.want(t, "Wait", tt.want)
				}
			})
		})
	}
}

// When the end of Wait's context and a grant meet, Wait says which came first,
// and the permits are where it says.
func TestWaitMeetsAGrant(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	outcomes := make(map[error]int)
	for range rounds(10_000) {
		sem.TryAcquire(1)
		p := sem.AcquireAsync(context.Background(), 1, semaphore.Forever)
		ctx := newManual()
		released := make(chan struct{})
		go func() {
			ctx.finish(errCustom)
			sem.Release(1)
			close(released)
		}()
		err := p.Wait(ctx)
		<-released
		outcomes[err]++
		switch err {
		case nil:
			wantInUse(t, sem, 1)
			sem.Release(1)
		case errCustom:
			if got := p.Err(); got != context.Canceled {
				t.Fatalf("Err() = %v after Wait withdrew, want %v", got, context.Canceled)
			}
		default:
			t.Fatalf("Wait = %v, want nil or %v", err, errCustom)
		}
		wantIdle(t, sem, 1)
	}
	t.Log(outcomes)
}

// Wait observes a request of AcquireFunc: the permits are f's.
func TestWaitObservesWhatFuncOwns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		p := sem.AcquireFunc(t.Context(), 1, semaphore.Forever, func(error) { sem.Release(1) })
		wait := start(func() error { return p.Wait(t.Context()) })
		sem.Release(1)
		wait.want(t, "Wait", nil)
		wantIdle(t, sem, 1)
	})
}

// Blocking and asynchronous requests of all kinds wait in one queue. The limit
// is the weight of all of them, so what is released says how many must have
// been granted: the longest run from the front that fits.
func TestAsyncAndBlockingAreOneQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const waiters = 60
		weight := func(i int) int64 { return int64(1 + i*i%4) }
		var total int64
		for i := range waiters {
			total += weight(i)
		}
		sem := semaphore.NewWeighted(total)
		sem.TryAcquire(total)

		outcome := make([]func() error, waiters)
		pending := func(err error) error {
			if err == semaphore.ErrPending {
				return errWaiting
			}
			return err
		}
		for i := range waiters {
			n := weight(i)
			switch i * 7 % 5 {
			case 0:
				c := acquire(ctx, sem, n)
				outcome[i] = c.outcome
			case 1:
				c := acquireWithin(ctx, sem, n, time.Hour)
				outcome[i] = c.outcome
			case 2:
				p := sem.AcquireAsync(context.Background(), n, semaphore.Forever)
				outcome[i] = func() error { return pending(p.Err()) }
			case 3:
				p := sem.AcquireAsync(ctx, n, time.Hour)
				outcome[i] = func() error { return pending(p.Err()) }
			case 4:
				p := askFunc(ctx, sem, n, semaphore.Forever)
				outcome[i] = func() error {
					if calls := p.called(); len(calls) > 0 {
						return calls[0].err
					}
					return errWaiting
				}
			}
		}
		for released := int64(1); released <= total; released++ {
			sem.Release(1)
			fits := released
			for i := range waiters {
				want := errWaiting
				if fits -= weight(i); fits >= 0 {
					want = nil
				}
				if got := outcome[i](); got != want {
					t.Fatalf("no barging: after %d released, waiter %d: %v, want %v", released, i, got, want)
				}
			}
		}
		sem.Release(total)
		wantIdle(t, sem, total)
	})
}

// A request has its place when the call returns: nothing has to run first.
func TestAsyncPlaceIsFixedOnReturn(t *testing.T) {
	const requests = 1000
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			sem := semaphore.NewWeighted(requests)
			sem.TryAcquire(requests)
			var ps []*asked
			for i := range requests {
				ps = append(ps, form.ask(ctx, sem, 1, semaphore.Forever))
				if got := sem.Stats().Waiting; got != i+1 {
					t.Fatalf("Waiting = %d after %d requests", got, i+1)
				}
			}
			for i, p := range ps {
				sem.Release(1)
				if err := p.Err(); err != nil {
					t.Fatalf("request %d of %d after as many were released: %v", i+1, requests, err)
				}
				if i+1 < len(ps) && ps[i+1].Err() != semaphore.ErrPending {
					t.Fatalf("request %d is decided before its turn", i+2)
				}
			}
			for _, p := range ps {
				<-p.Done()
			}
		})
	}
}

// A request that leaves passes its turn on at once, without a Release, and one
// that leaves from the middle lets nobody past.
func TestAsyncLeavingServesThoseBehind(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(p *semaphore.Pending, cancel func())
	}{
		{"by Cancel", func(p *semaphore.Pending, _ func()) { p.Cancel() }},
		{"by Wait", func(p *semaphore.Pending, _ func()) { _ = p.Wait(canceled()) }},
		{"by its context", func(_ *semaphore.Pending, cancel func()) { cancel() }},
		{"by its maximum wait", func(*semaphore.Pending, func()) { time.Sleep(time.Minute) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sem := semaphore.NewWeighted(4)
				sem.TryAcquire(2)
				ask := func(n int64) (*semaphore.Pending, func()) {
					ctx, cancel := context.WithCancel(t.Context())
					t.Cleanup(cancel)
					return sem.AcquireAsync(ctx, n, time.Minute), cancel
				}
				a, cancelA := ask(4)
				time.Sleep(time.Second) // so that a falls due before b
				b, cancelB := ask(3)
				c := askFunc(t.Context(), sem, 2, semaphore.Forever)
				d := acquire(t.Context(), sem, 1)
				if tt.name != "by its maximum wait" {
					tt.leave(b, cancelB) // from the middle
					c.want(t, "no barging: behind the front", semaphore.ErrPending)
				}
				tt.leave(a, cancelA) // from the front
				c.want(t, "the first that fits", nil)
				d.want(t, "the next, which does not fit", errWaiting)
				sem.Release(1)
				d.want(t, "the next", nil)
				sem.Release(4)
				wantIdle(t, sem, 4)
			})
		})
	}
}

// The zero value is paused, and weights may be as heavy as there are numbers.
func TestAsyncAtTheEndsOfTheRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sem semaphore.Weighted
		a := askAsync(t.Context(), &sem, math.MaxInt64, semaphore.Forever)
		b := askFunc(t.Context(), &sem, math.MaxInt64, semaphore.Forever)
		c := askFunc(t.Context(), &sem, 1, semaphore.Forever)
		a.want(t, "paused", semaphore.ErrPending)
		sem.SetLimit(math.MaxInt64)
		a.want(t, "the first", nil)
		b.want(t, "the second", semaphore.ErrPending)
		sem.Release(math.MaxInt64 - 1)
		b.want(t, "the second, one short", semaphore.ErrPending)
		sem.Release(1)
		b.want(t, "the second", nil)
		c.want(t, "the third", semaphore.ErrPending)
		sem.Release(math.MaxInt64)
		c.want(t, "the third", nil)
		sem.Release(1)
		wantIdle(t, &sem, math.MaxInt64)
	})
}

// A weight of 0 waits its turn and needs nothing but that.
func TestAsyncZeroWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(0)
		askFunc(t.Context(), sem, 0, 0).want(t, "at limit 0", nil)
		front := askAsync(t.Context(), sem, 1, semaphore.Forever)
		zero := askFunc(t.Context(), sem, 0, semaphore.Forever)
		zero.want(t, "behind a waiter", semaphore.ErrPending)
		askAsync(t.Context(), sem, 0, 0).want(t, "not willing to wait behind a waiter", semaphore.ErrTimeout)
		front.Cancel()
		zero.want(t, "after the waiter left", nil)
		wantStats(t, sem, 0, 0, 0)
	})
}

// A deadline beyond the end of the clock is none, and not one in the past.
func TestAsyncHugeMaxWait(t *testing.T) {
	const years = 365 * 24 * time.Hour
	for _, maxWait := range []time.Duration{semaphore.Forever, semaphore.Forever - 1, math.MaxInt64 / 2} {
		t.Run(maxWait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(100 * years) // a bubble begins before the clock does
				sem := semaphore.NewWeighted(1)
				sem.TryAcquire(1)
				p := askFunc(t.Context(), sem, 1, maxWait)
				askFunc(t.Context(), sem, 1, time.Second)
				time.Sleep(100 * years) // the second expires, and all that seem due
				p.want(t, "after 100 years", semaphore.ErrPending)
				wantStats(t, sem, 1, 1, 1)
				sem.Release(1)
				p.want(t, "after the Release", nil)
			})
		})
	}
}

// The bound on waiters counts both kinds, and a place is free again as soon as
// its request is decided.
func TestAsyncQueueBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem, err := semaphore.New(semaphore.Config{Limit: 1, MaxWaiters: 3})
		if err != nil {
			t.Fatal(err)
		}
		sem.TryAcquire(1)
		a := askAsync(t.Context(), sem, 1, semaphore.Forever)
		b := acquire(t.Context(), sem, 1)
		c := askFunc(t.Context(), sem, 1, semaphore.Forever)
		askAsync(t.Context(), sem, 1, semaphore.Forever).want(t, "a fourth", semaphore.ErrQueueFull)
		askFunc(t.Context(), sem, 1, time.Hour).want(t, "a fourth", semaphore.ErrQueueFull)
		c.Cancel()
		d := askAsync(t.Context(), sem, 1, semaphore.Forever)
		d.want(t, "in place of one that left", semaphore.ErrPending)
		sem.Release(1)
		a.want(t, "the first", nil)
		e := askAsync(t.Context(), sem, 1, semaphore.Forever)
		e.want(t, "in place of one that was granted", semaphore.ErrPending)
		askAsync(t.Context(), sem, 1, semaphore.Forever).want(t, "one too many", semaphore.ErrQueueFull)
		sem.Release(1)
		b.want(t, "the second", nil)
		sem.Release(1)
		d.want(t, "the third", nil)
		sem.Release(1)
		e.want(t, "the fourth", nil)
		sem.Release(1)
		wantIdle(t, sem, 1)
	})
}

// A grant that nobody has asked about yet is in flight.
func TestDrainWaitsForGrantsNotCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		p := sem.AcquireAsync(t.Context(), 1, semaphore.Forever)
		drain := start(func() error { return sem.Drain(t.Context()) })
		sem.Release(1) // goes to p and never leaves flight
		drain.want(t, "Drain while p holds", errWaiting)
		sem.Release(1)
		drain.want(t, "Drain", nil)
		if err := p.Err(); err != nil {
			t.Errorf("Err() = %v, want nil", err)
		}
	})
}
