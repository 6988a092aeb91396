package bulkhead_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// collections are the two ways to come by a permit that was asked for, once
// that is decided.
var collections = []struct {
	name    string
	collect func(*bulkhead.PendingPermit) (*bulkhead.Permit, error)
}{
	{"Permit", func(p *bulkhead.PendingPermit) (*bulkhead.Permit, error) { <-p.Done(); return p.Permit() }},
	{"Wait", func(p *bulkhead.PendingPermit) (*bulkhead.Permit, error) { return p.Wait(context.Background()) }},
}

// TestEveryOutcomeOfAPendingPermit asks for a permit, collects it, and wants:
// the time and the error, the events field by field, and every permit back.
//
// The bulkhead has a limit of 3, one place in the queue, and waits a minute. Of
// its permits, others hold some for 10 s, and something happens after 5 s.
func TestEveryOutcomeOfAPendingPermit(t *testing.T) {
	errCause := errors.New("client gone")
	permitted := event.Record{Kind: event.KindPermitted, Weight: 2, Active: 2}
	rejected := event.Record{Kind: event.KindRejected, Weight: 2, MaxConcurrent: 3, MaxWait: time.Minute}
	canceled := event.Record{Kind: event.KindCanceled, Weight: 2, Err: context.Canceled}
	with := func(e event.Record, change func(*event.Record)) event.Record { change(&e); return e }
	type bulk = *bulkhead.Bulkhead[int]

	tests := []struct {
		name     string
		held     int64
		queued   int64 // the weight of a call that waits already; 0 means none
		handle   func(bulk) bulk
		before   func(bulk, context.CancelCauseFunc)
		then     func(*testing.T, bulk, context.CancelCauseFunc, *bulkhead.PendingPermit) // after 5 s
		deadline time.Duration

		after   time.Duration // when it is decided
		is, not []error
		event   event.Record
	}{
		{
			name:  "free",
			event: permitted,
		},
		{
			name:   "free, and not willing to wait",
			handle: func(b bulk) bulk { return b.Waiting(0) },
			event:  permitted,
		},
		{
			name:  "waits",
			held:  2,
			after: 10 * time.Second,
			event: with(permitted, func(e *event.Record) { e.Waited = 10 * time.Second }),
		},
		{
			name: "context ends after the grant",
			then: func(_ *testing.T, _ bulk, cancel context.CancelCauseFunc, _ *bulkhead.PendingPermit) {
				cancel(errCause)
			},
			event: permitted,
		},
		{
			name:   "full",
			held:   2,
			handle: func(b bulk) bulk { return b.Waiting(0) },
			is: []error{bulkhead.ErrFull, bulkhead.RejectedError{
				Name: "db", Reason: event.Full, MaxConcurrent: 3, Weight: 2,
			}},
			not:   []error{bulkhead.ErrTooHeavy, bulkhead.ErrClosed},
			event: with(rejected, func(e *event.Record) { e.MaxWait, e.Reason = 0, event.Full }),
		},
		{
			name:   "times out",
			held:   2,
			handle: func(b bulk) bulk { return b.Waiting(5 * time.Second) },
			after:  5 * time.Second,
			is: []error{bulkhead.ErrFull, bulkhead.RejectedError{
				Name: "db", Reason: event.TimedOut, MaxConcurrent: 3, MaxWait: 5 * time.Second, Waited: 5 * time.Second, Weight: 2,
			}},
			not: []error{bulkhead.ErrTooHeavy, bulkhead.ErrClosed, context.DeadlineExceeded},
			event: with(rejected, func(e *event.Record) {
				e.MaxWait, e.Waited, e.Reason = 5*time.Second, 5*time.Second, event.TimedOut
			}),
		},
		{
			name:   "queue full",
			held:   2,
			queued: 2,
			is: []error{bulkhead.ErrFull, bulkhead.RejectedError{
				Name: "db", Reason: event.QueueFull, MaxConcurrent: 3, MaxWait: time.Minute, Weight: 2,
			}},
			not:   []error{bulkhead.ErrTooHeavy, bulkhead.ErrClosed},
			event: with(rejected, func(e *event.Record) { e.Reason = event.QueueFull }),
		},
		{
			name:   "too heavy",
			handle: func(b bulk) bulk { return b.Weighing(4) },
			is: []error{bulkhead.ErrTooHeavy, bulkhead.RejectedError{
				Name: "db", Reason: event.TooHeavy, MaxConcurrent: 3, MaxWait: time.Minute, Weight: 4,
			}},
			not:   []error{bulkhead.ErrFull, bulkhead.ErrClosed},
			event: with(rejected, func(e *event.Record) { e.Weight, e.Reason = 4, event.TooHeavy }),
		},
		{
			name: "made too heavy while it waits",
			held: 2,
			then: func(_ *testing.T, b bulk, _ context.CancelCauseFunc, _ *bulkhead.PendingPermit) {
				b.SetMaxConcurrent(1)
			},
			after: 5 * time.Second,
			is: []error{bulkhead.ErrTooHeavy, bulkhead.RejectedError{
				Name: "db", Reason: event.TooHeavy, MaxConcurrent: 1, MaxWait: time.Minute, Waited: 5 * time.Second, Weight: 2,
			}},
			not: []error{bulkhead.ErrFull, bulkhead.ErrClosed},
			event: with(rejected, func(e *event.Record) {
				e.MaxConcurrent, e.Waited, e.Reason = 1, 5*time.Second, event.TooHeavy
			}),
		},
		{
			name:   "closed",
			before: func(b bulk, _ context.CancelCauseFunc) { b.Close() },
			is: []error{bulkhead.ErrClosed, bulkhead.RejectedError{
				Name: "db", Reason: event.Closed, MaxConcurrent: 3, MaxWait: time.Minute, Weight: 2,
			}},
			not:   []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy},
			event: with(rejected, func(e *event.Record) { e.Reason = event.Closed }),
		},
		{
			name:  "closed while it waits",
			held:  2,
			then:  func(_ *testing.T, b bulk, _ context.CancelCauseFunc, _ *bulkhead.PendingPermit) { b.Close() },
			after: 5 * time.Second,
			is: []error{bulkhead.ErrClosed, bulkhead.RejectedError{
				Name: "db", Reason: event.Closed, MaxConcurrent: 3, MaxWait: time.Minute, Waited: 5 * time.Second, Weight: 2,
			}},
			not:   []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy},
			event: with(rejected, func(e *event.Record) { e.Waited, e.Reason = 5*time.Second, event.Closed }),
		},
		{
			name:   "context done before",
			before: func(_ bulk, cancel context.CancelCauseFunc) { cancel(errCause) },
			is:     []error{context.Canceled, errCause},
			not:    []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy, bulkhead.ErrClosed},
			event:  canceled,
		},
		{
			name: "context canceled while it waits",
			held: 2,
			then: func(_ *testing.T, _ bulk, cancel context.CancelCauseFunc, _ *bulkhead.PendingPermit) {
				cancel(errCause)
			},
			after: 5 * time.Second,
			is:    []error{context.Canceled, errCause},
			not:   []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy, bulkhead.ErrClosed},
			event: with(canceled, func(e *event.Record) { e.Waited = 5 * time.Second }),
		},
		{
			name:     "context's deadline passes while it waits",
			held:     2,
			deadline: 5 * time.Second,
			after:    5 * time.Second,
			is:       []error{context.DeadlineExceeded},
			not:      []error{bulkhead.ErrFull, context.Canceled},
			event: with(canceled, func(e *event.Record) {
				e.Waited, e.Err = 5*time.Second, context.DeadlineExceeded
			}),
		},
		{
			name: "withdrawn by Cancel",
			held: 2,
			then: func(t *testing.T, b bulk, _ context.CancelCauseFunc, p *bulkhead.PendingPermit) {
				if !p.Cancel() || b.Stats().Waiting != 0 {
					t.Errorf("Cancel = false, or it still waits: %+v", b.Stats())
				}
			},
			after: 5 * time.Second,
			is:    []error{context.Canceled},
			not:   []error{bulkhead.ErrFull, errCause},
			event: with(canceled, func(e *event.Record) { e.Waited = 5 * time.Second }),
		},
		{
			name: "withdrawn by a Wait",
			held: 2,
			then: func(t *testing.T, b bulk, _ context.CancelCauseFunc, p *bulkhead.PendingPermit) {
				ctx, cancel := context.WithCancelCause(context.Background())
				cancel(errCause)
				permit, err := p.Wait(ctx)
				var c *bulkhead.CanceledError
				if permit != nil || !errors.As(err, &c) || c.Waited != 5*time.Second || b.Stats().Waiting != 0 {
					t.Errorf("Wait with a done context = %v, %v; want canceled after 5s: %+v", permit, err, b.Stats())
				}
			},
			after: 5 * time.Second,
			is:    []error{context.Canceled, errCause},
			not:   []error{bulkhead.ErrFull},
			event: with(canceled, func(e *event.Record) { e.Waited = 5 * time.Second }),
		},
	}
	for _, tt := range tests {
		for _, c := range collections {
			t.Run(tt.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var all, own recorder
					b := bulkhead.MustNew[int](bulkhead.Config{
						Name: "db", MaxConcurrent: 3, MaxWait: time.Minute, MaxQueue: 1, Listener: all.listener(),
					})
					calls, weight := int64(1), tt.event.Weight
					if tt.held > 0 {
						calls, weight = calls+1, weight+tt.held
						time.AfterFunc(10*time.Second, hold(t, b, tt.held).Release)
					}
					if tt.queued > 0 {
						calls, weight = calls+1, weight+tt.queued
						b.Weighing(tt.queued).ExecuteAsync(t.Context(), answer)
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if tt.deadline > 0 {
						var stop context.CancelFunc
						ctx, stop = context.WithTimeout(ctx, tt.deadline)
						defer stop()
					}
					if tt.before != nil {
						tt.before(b, cancel)
					}
					ofCalls := own.listener()
					ofCalls.LimitChanged = nil
					defer b.Subscribe(ofCalls)()

					start := time.Now()
					h := b.Weighing(2)
					if tt.handle != nil {
						h = tt.handle(h)
					}
					p := h.AcquireAsync(ctx)
					if got := time.Since(start); got != 0 {
						t.Errorf("AcquireAsync took %v", got)
					}
					if tt.then != nil {
						time.AfterFunc(5*time.Second, func() { tt.then(t, b, cancel, p) })
					}
					for tt.after > 0 && time.Since(start) < tt.after-1 {
						if permit, err := p.Permit(); permit != nil || err != bulkhead.ErrPending {
							t.Fatalf("after %v, Permit = %v, %v, want ErrPending", time.Since(start), permit, err)
						}
						time.Sleep(tt.after - 1)
					}

					permit, err := c.collect(p)
					if got := time.Since(start); got != tt.after {
						t.Errorf("decided after %v, want %v", got, tt.after)
					}
					if (permit == nil) == (tt.is == nil) || (err == nil) != (tt.is == nil) {
						t.Errorf("%v, %v; want an error: %v", permit, err, tt.is != nil)
					}
					for _, target := range tt.is {
						if !errors.Is(err, target) {
							t.Errorf("error %q does not match %q", err, target)
						}
					}
					for _, target := range tt.not {
						if errors.Is(err, target) {
							t.Errorf("error %q matches %q", err, target)
						}
					}
					want := tt.event
					want.Name = "db"
					if diff := cmp.Diff([]event.Record{want}, own.take(), cmpopts.IgnoreFields(event.Record{}, "Time"), cmpopts.EquateErrors()); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}

					// From here on it stays as it is, whoever asks, and how.
					time.Sleep(5 * time.Second)
					done, end := context.WithCancel(t.Context())
					end()
					if p.Cancel() {
						t.Error("Cancel = true after the decision")
					}
					for range 2 {
						if again, e := p.Permit(); again != permit || e != err {
							t.Errorf("later, Permit = %v, %v, want %v, %v", again, e, permit, err)
						}
						if again, e := p.Wait(done); again != permit || e != err {
							t.Errorf("later, Wait with a done context = %v, %v, want %v, %v", again, e, permit, err)
						}
					}
					if permit != nil && b.Stats().Active < 2 {
						t.Errorf("the permit is not in flight: %+v", b.Stats())
					}
					permit.Complete(nil)
					for _, e := range own.take() {
						if permit == nil || e.Kind != event.KindFinished || e.Elapsed != 5*time.Second {
							t.Errorf("later, told %+v", e)
						}
					}
					time.Sleep(time.Minute) // the others end
					all.check(t, calls, weight)
					checkAtRest(t, b)
				})
			})
		}
	}
}

// A permit that was asked for is in flight as soon as it is granted, whether or
// not anybody collects it; and nothing is told of it until somebody does.
func TestPendingPermitIsInFlightUncollected(t *testing.T) {
	bubble(t, bulkhead.Config{MaxConcurrent: 2, MaxWait: bulkhead.Forever}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		first := hold(t, b, 2)
		p := b.Weighing(2).AcquireAsync(t.Context())
		told.take()
		if s := b.Stats(); s.Waiting != 1 {
			t.Errorf("on return of AcquireAsync, Stats = %+v, want one waiting", s)
		}
		first.Release()
		told.take()
		time.Sleep(time.Hour)
		if s := b.Stats(); s.Active != 2 || s.Waiting != 0 {
			t.Errorf("granted, Stats = %+v, want 2 active", s)
		}
		if _, ok := b.TryAcquire(); ok {
			t.Error("a permit is free beside the uncollected one")
		}
		if got := told.take(); len(got) != 1 || got[0].Kind != event.KindRejected {
			t.Errorf("told %+v before the permit was collected, want only the try", got)
		}
		permit, err := p.Permit()
		if err != nil {
			t.Fatal(err)
		}
		got := told.take()
		if len(got) != 1 || got[0].Kind != event.KindPermitted || got[0].Waited != 0 {
			t.Errorf("collected, told %+v, want permitted, which waited 0", got)
		}
		permit.Release()
		if got := told.take(); len(got) != 1 || got[0].Kind != event.KindReleased || got[0].Elapsed != time.Hour {
			t.Errorf("released, told %+v, want released after 1h", got)
		}
	})
}

func TestPendingPermitDoneIsOneChannel(t *testing.T) {
	bubble(t, bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		first := hold(t, b, 1)
		p := b.AcquireAsync(t.Context())
		done := p.Done()
		select {
		case <-done:
			t.Error("Done is closed while the request waits")
		default:
		}
		first.Release()
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("Done is open although the permit was granted")
		}
		if p.Done() != done {
			t.Error("Done has changed")
		}
		permit, _ := p.Permit()
		permit.Release()
	})
}

// With nobody listening at the grant, nobody hears of the permit later either.
func TestPendingPermitWithNobodyListening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
		free := b.AcquireAsync(t.Context())
		queued := b.AcquireAsync(t.Context())
		var late recorder
		defer b.Subscribe(late.listener())()
		for _, p := range []*bulkhead.PendingPermit{free, queued} {
			permit, err := p.Wait(t.Context())
			if err != nil || b.Stats().Active != 1 {
				t.Errorf("%v with %+v, want a permit", err, b.Stats())
			}
			permit.Complete(nil)
		}
		synctest.Wait()
		// The second one's turn came when somebody was listening.
		late.check(t, 1, 1)
		checkAtRest(t, b)
	})
}

// Several goroutines collect one permit. Permitted is told by the first of them
// alone, and whoever has the permit in hand knows that it was told.
func TestPermittedIsToldOnceBeforeAnybodyHasThePermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const racers = 4
		told, where := 0, ""
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 1,
			Listener: event.Listener{Permitted: func(context.Context, event.Permitted) {
				time.Sleep(time.Second)
				told++
				where = goroutine()
			}},
		})
		p := b.AcquireAsync(t.Context())
		start := time.Now()
		got := make(chan string, racers)
		permits := make(chan *bulkhead.Permit, racers)
		for i := range racers {
			go func() {
				permit, err := collections[i%2].collect(p)
				if err != nil || told != 1 || time.Since(start) != time.Second {
					t.Errorf("%v, after %v and told %d times; want it after 1s, told once", err, time.Since(start), told)
				}
				permits <- permit
				got <- goroutine()
			}()
			synctest.Wait()
		}
		first := <-permits
		for range racers - 1 {
			if permit := <-permits; permit != first {
				t.Error("two permits for one request")
			}
		}
		if tellers := []string{<-got, <-got, <-got, <-got}; !slices.Contains(tellers, where) {
			t.Errorf("told on %s, want one of %v", where, tellers)
		}
		first.Release()
		checkAtRest(t, b)
	})
}

// The same with real goroutines at a barrier.
func TestRacingCollectorsTellOnce(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever, Listener: told.listener()})
	for range 500 {
		p := b.AcquireAsync(t.Context())
		var racers sync.WaitGroup
		barrier := make(chan struct{})
		for _, c := range collections {
			racers.Go(func() {
				<-barrier
				permit, err := c.collect(p)
				if err != nil {
					t.Error(err)
				}
				permit.Complete(nil)
			})
		}
		close(barrier)
		racers.Wait()
		var kinds []event.Kind
		for _, e := range told.take() {
			kinds = append(kinds, e.Kind)
		}
		if want := []event.Kind{event.KindPermitted, event.KindFinished}; !slices.Equal(kinds, want) {
			t.Fatalf("told %v, want %v", kinds, want)
		}
	}
	checkAtRest(t, b)
}

// misbehaviours are what a listener can do to the goroutine it is told on.
var misbehaviours = []struct {
	name string
	do   func()
}{
	{"panics", func() { panic("listener") }},
	{"goexit", runtime.Goexit},
}

// TestListenerMisbehavesToAPendingPermit has a listener panic or call Goexit
// in each of its functions, between two others: every Permit and Wait says so,
// and no permit is lost.
func TestListenerMisbehavesToAPendingPermit(t *testing.T) {
	type bulk = *bulkhead.Bulkhead[int]
	tests := []struct {
		name string
		in   []event.Kind
		full bool
		ask  func(ctx context.Context, b bulk) *bulkhead.PendingPermit
		told []event.Kind
	}{
		{
			name: "permitted", in: []event.Kind{event.KindPermitted},
			ask:  func(ctx context.Context, b bulk) *bulkhead.PendingPermit { return b.AcquireAsync(ctx) },
			told: []event.Kind{event.KindPermitted, event.KindReleased},
		},
		{
			name: "permitted and released", in: []event.Kind{event.KindPermitted, event.KindReleased},
			ask:  func(ctx context.Context, b bulk) *bulkhead.PendingPermit { return b.AcquireAsync(ctx) },
			told: []event.Kind{event.KindPermitted, event.KindReleased},
		},
		{
			name: "rejected", in: []event.Kind{event.KindRejected}, full: true,
			ask:  func(ctx context.Context, b bulk) *bulkhead.PendingPermit { return b.Waiting(0).AcquireAsync(ctx) },
			told: []event.Kind{event.KindRejected},
		},
		{
			name: "rejected later", in: []event.Kind{event.KindRejected}, full: true,
			ask:  func(ctx context.Context, b bulk) *bulkhead.PendingPermit { return b.Waiting(1).AcquireAsync(ctx) },
			told: []event.Kind{event.KindRejected},
		},
		{
			name: "context canceled", in: []event.Kind{event.KindCanceled}, full: true,
			ask: func(ctx context.Context, b bulk) *bulkhead.PendingPermit {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				return b.AcquireAsync(ctx)
			},
			told: []event.Kind{event.KindCanceled},
		},
		{
			name: "withdrawn by Cancel", in: []event.Kind{event.KindCanceled}, full: true,
			ask: func(ctx context.Context, b bulk) *bulkhead.PendingPermit {
				p := b.AcquireAsync(ctx)
				p.Cancel()
				return p
			},
			told: []event.Kind{event.KindCanceled},
		},
		{
			name: "withdrawn by Wait", in: []event.Kind{event.KindCanceled}, full: true,
			ask: func(ctx context.Context, b bulk) *bulkhead.PendingPermit {
				ctx, cancel := context.WithCancel(ctx)
				p := b.AcquireAsync(context.Background())
				cancel()
				p.Wait(ctx) // it does not wait for the listener either
				return p
			},
			told: []event.Kind{event.KindCanceled},
		},
	}
	for _, tt := range tests {
		for _, mis := range misbehaviours {
			for _, c := range collections {
				t.Run(tt.name+"/"+mis.name+"/"+c.name, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var before, after recorder
						b := bulkhead.MustNew[int](bulkhead.Config{
							Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever, Listener: before.listener(),
						})
						var first *bulkhead.Permit
						if tt.full {
							first = hold(t, b, 1)
							before.take()
						}
						unsubscribe := b.Subscribe(event.All(func(_ context.Context, e event.Record) {
							if slices.Contains(tt.in, e.Kind) {
								mis.do()
							}
						}))
						b.Subscribe(after.listener())
						p := tt.ask(t.Context(), b)
						for i := range 3 {
							var permit *bulkhead.Permit
							var err error
							got := watch(func() { permit, err = c.collect(p) })
							// A Goexit in Permitted ends the first collector's goroutine.
							goexit := mis.name == "goexit" && !tt.full && i == 0
							switch {
							case mis.name == "panics":
								e, _ := got.panicked.(*bulkhead.PanicError)
								if e == nil || e.Value != "listener" || !strings.Contains(string(e.Stack), "TestListenerMisbehavesToAPendingPermit") {
									t.Errorf("ended with %v, want the listener's panic and its stack", got)
								}
							case got != ended{goexit: goexit}:
								t.Errorf("time %d: ended with %+v, want goexit: %v", i, got, goexit)
							case !goexit && (permit != nil || err != bulkhead.ErrGoexit):
								t.Errorf("time %d: %v, %v, want ErrGoexit", i, permit, err)
							}
							if got := b.Stats(); got.Waiting != 0 || got.Active != 0 && !tt.full {
								t.Errorf("Stats = %+v, want nothing of the request left", got)
							}
						}
						for name, r := range map[string]*recorder{"before": &before, "after": &after} {
							var told []event.Kind
							for _, e := range r.take() {
								told = append(told, e.Kind)
							}
							if !slices.Equal(told, tt.told) {
								t.Errorf("the listener %s it was told %v, want %v", name, told, tt.told)
							}
						}
						unsubscribe()
						first.Release()
						checkAtRest(t, b)
					})
				})
			}
		}
	}
}

// While a listener's panic in Permitted is on its way to one collector, nobody
// else comes by the permit, which goes back.
func TestNobodyCollectsAPermitThatAListenerSpoils(t *testing.T) {
	for _, mis := range misbehaviours {
		t.Run(mis.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bulkhead.MustNew[int](bulkhead.Config{
					Name: "db", MaxConcurrent: 1,
					Listener: event.Listener{Permitted: func(context.Context, event.Permitted) {
						time.Sleep(time.Second)
						mis.do()
					}},
				})
				p := b.AcquireAsync(t.Context())
				go watch(func() { p.Permit() })
				synctest.Wait()
				var permit *bulkhead.Permit
				got := watch(func() { permit, _ = p.Permit() })
				if permit != nil || (got.panicked == nil) != (mis.name == "goexit") {
					t.Errorf("ended with %+v and %v, want no permit", got, permit)
				}
				if s := b.Stats(); s.Active != 0 {
					t.Errorf("Stats = %+v, want the permit back", s)
				}
			})
		})
	}
}

// Granted, and its goroutine has not noted it yet: Cancel takes the permit
// back. With one processor that goroutine has no chance before Cancel.
func TestPendingPermitCanceledBetweenGrantAndNotice(t *testing.T) {
	oneProc(t)
	bubble(t, bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		canceled := 0
		for range 100 {
			first := hold(t, b, 1)
			p := b.AcquireAsync(t.Context())
			next := b.AcquireAsync(t.Context())
			told.take()
			first.Release()
			told.take()
			if p.Cancel() {
				canceled++
				if _, err := p.Wait(t.Context()); !errors.Is(err, context.Canceled) {
					t.Fatalf("after Cancel = true: %v, want canceled", err)
				}
				if got := told.take(); len(got) != 1 || got[0].Kind != event.KindCanceled {
					t.Fatalf("told %+v, want only canceled", got)
				}
			} else {
				permit, err := p.Wait(t.Context())
				if err != nil {
					t.Fatalf("after Cancel = false: %v, want the permit", err)
				}
				permit.Release()
			}
			permit, err := next.Wait(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			permit.Release()
			told.take()
		}
		if canceled == 0 {
			t.Error("none of 100 was canceled in between: the test does not reach that")
		}
	})
}

// A request that was refused is decided, even if nobody has been told yet: Cancel
// reports so, and has no permit to take back.
func TestPendingPermitRefusedIsNotCanceled(t *testing.T) {
	oneProc(t)
	for range 100 {
		bubble(t, bulkhead.Config{MaxConcurrent: 2, MaxWait: bulkhead.Forever}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
			first := hold(t, b, 1)
			p := b.Weighing(2).AcquireAsync(t.Context())
			told.take()
			b.Close()
			if p.Cancel() {
				t.Error("single outcome: Cancel withdrew a request that was refused")
			}
			if _, err := p.Wait(t.Context()); !errors.Is(err, bulkhead.ErrClosed) {
				t.Errorf("%v, want %v", err, bulkhead.ErrClosed)
			}
			told.check(t, 1, 2)
			if s := b.Stats(); s.Active != 1 {
				t.Errorf("Stats = %+v, want the other's permit in flight", s)
			}
			first.Release()
		})
	}
}

// The context that counts is that of AcquireAsync: listeners get it, whoever
// collects, and it decides whether the work was canceled.
func TestPendingPermitKeepsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var told recorder
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever,
			Listener: event.Join(told.listener(), event.All(func(ctx context.Context, e event.Record) {
				if got := ctx.Value(key{}); got != "caller" {
					t.Errorf("%v is told with %v in its context, want the caller's", e.Kind, got)
				}
			})),
		})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "caller"))
		permit, err := b.AcquireAsync(ctx).Wait(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		b.Waiting(0).AcquireAsync(ctx)
		b.AcquireAsync(ctx).Cancel()
		b.AcquireAsync(ctx)
		cancel()
		synctest.Wait()
		told.take()
		permit.Complete(context.Canceled)
		if got := told.take(); len(got) != 1 || got[0].Kind != event.KindReleased || got[0].Err != context.Canceled {
			t.Errorf("told %+v, want released by the context", got)
		}
		b.AcquireAsync(ctx)
		synctest.Wait()
		if s := b.Stats(); s.Active != 0 || s.Waiting != 0 {
			t.Errorf("at rest, Stats = %+v", s)
		}
	})
}

// A Cancel, or a Wait whose context ends, meets the grant: either the caller
// has the permit or nothing is held, and the request has one event.
func TestWithdrawalRacesTheGrant(t *testing.T) {
	withdrawals := []struct {
		name     string
		withdraw func(p *bulkhead.PendingPermit) *bulkhead.Permit
	}{
		{"Cancel", func(p *bulkhead.PendingPermit) *bulkhead.Permit {
			if p.Cancel() {
				return nil
			}
			permit, err := p.Wait(context.Background())
			if err != nil {
				t.Errorf("Cancel = false, and then %v", err)
			}
			return permit
		}},
		{"Wait", func(p *bulkhead.PendingPermit) *bulkhead.Permit {
			done, cancel := context.WithCancel(context.Background())
			cancel()
			permit, err := p.Wait(done)
			if (err == nil) == (permit == nil) || err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Wait = %v, %v", permit, err)
			}
			return permit
		}},
	}
	for _, w := range withdrawals {
		t.Run(w.name, func(t *testing.T) {
			var told recorder
			b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever, Listener: told.listener()})
			const rounds = 1000
			for range rounds {
				first := hold(t, b, 1)
				p := b.AcquireAsync(t.Context())
				var both sync.WaitGroup
				both.Go(first.Release)
				both.Go(func() { w.withdraw(p).Release() })
				both.Wait()
				<-p.Done() // the event is told
			}
			told.check(t, 2*rounds, 2*rounds)
			checkAtRest(t, b)
		})
	}
}

// Wait withdraws for everybody: others who wait get its error.
func TestWaitWithdrawsForAll(t *testing.T) {
	bubble(t, bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		first := hold(t, b, 1)
		p := b.AcquireAsync(t.Context())
		others := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := p.Wait(context.Background())
				others <- err
			}()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, own := p.Wait(ctx)
		c, ok := own.(*bulkhead.CanceledError)
		if !ok || c.Name != "db" || c.Waited != time.Second || c.Err != context.DeadlineExceeded {
			t.Errorf("Wait = %#v, want a CanceledError of 1s with the deadline", own)
		}
		for range 3 {
			if err := <-others; err != own {
				t.Errorf("another's Wait = %v, want %v", err, own)
			}
		}
		first.Release()
	})
}

// A listener that blocks holds up whoever asks for that request, and nobody
// else: not the releaser, the closer or the canceler, and not other calls.
func TestListenerThatBlocksAPendingPermit(t *testing.T) {
	type bulk = *bulkhead.Bulkhead[int]
	for _, tt := range []struct {
		name string
		in   event.Kind
		act  func(b bulk, first *bulkhead.Permit, cancel func(), p *bulkhead.PendingPermit)
	}{
		{"Cancel", event.KindCanceled, func(_ bulk, _ *bulkhead.Permit, _ func(), p *bulkhead.PendingPermit) { p.Cancel() }},
		{"its context", event.KindCanceled, func(_ bulk, _ *bulkhead.Permit, cancel func(), _ *bulkhead.PendingPermit) { cancel() }},
		{"Wait", event.KindCanceled, func(_ bulk, _ *bulkhead.Permit, _ func(), p *bulkhead.PendingPermit) {
			done, cancel := context.WithCancel(context.Background())
			cancel()
			p.Wait(done)
		}},
		{"SetMaxConcurrent", event.KindRejected, func(b bulk, _ *bulkhead.Permit, _ func(), _ *bulkhead.PendingPermit) {
			b.SetMaxConcurrent(1)
			b.SetMaxConcurrent(2)
		}},
		{"time-out", event.KindRejected, func(bulk, *bulkhead.Permit, func(), *bulkhead.PendingPermit) { time.Sleep(time.Second) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				unblock := make(chan struct{})
				var blocked atomic.Int64
				b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, MaxWait: time.Second})
				first := hold(t, b, 2)
				b.Subscribe(event.All(func(_ context.Context, e event.Record) {
					if e.Kind == tt.in {
						blocked.Add(1)
						<-unblock
					}
				}))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := b.Weighing(2).AcquireAsync(ctx)
				next := b.Waiting(bulkhead.Forever).AcquireAsync(t.Context())
				tt.act(b, first, cancel, p)
				synctest.Wait()
				if blocked.Load() != 1 {
					t.Fatalf("the listener is told %d times, want once", blocked.Load())
				}
				if _, err := p.Permit(); err != bulkhead.ErrPending {
					t.Errorf("Permit = %v while the listener is told, want ErrPending", err)
				}
				done, end := context.WithCancel(t.Context())
				end()
				late := make(chan error, 1)
				go func() {
					_, err := p.Wait(done) // too late to withdraw, so it gets the outcome
					late <- err
				}()
				first.Release()
				permit, err := next.Wait(t.Context())
				if err != nil {
					t.Errorf("the next request: %v, want its permit", err)
				}
				permit.Release()
				checkAtRest(t, b)
				close(unblock)
				_, err = p.Wait(t.Context())
				if l := <-late; err == nil || l != err {
					t.Errorf("Wait = %v, and %v of one whose context was done; want one error", err, l)
				}
			})
		})
	}
}

// What is wrong with the handle is said by the first Permit, and is no request.
func TestMisusedPendingPermit(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, Listener: told.listener()})
	for _, tt := range []struct {
		h    bulkhead.Any
		want string
	}{
		{b.Weighing(0), `bulkhead "db": weight is 0, want at least 1`},
		{b.Weighing(-1 << 63), `bulkhead "db": weight is -9223372036854775808, want at least 1`},
		{b.Waiting(-1), `bulkhead "db": wait is -1ns, must not be negative`},
		{bulkhead.Weighing(b, -1), `bulkhead "db": weight is -1, want at least 1`},
		{bulkhead.Waiting(b, -1), `bulkhead "db": wait is -1ns, must not be negative`},
	} {
		p := tt.h.AcquireAsync(t.Context())
		if p.Cancel() {
			t.Error("Cancel = true, want false")
		}
		for _, c := range collections {
			if permit, err := c.collect(p); permit != nil || err == nil || err.Error() != tt.want {
				t.Errorf("%s = %v, %v, want %s", c.name, permit, err, tt.want)
			}
		}
	}
	var none context.Context
	if got := watch(func() { b.AcquireAsync(none) }); got.panicked == nil {
		t.Errorf("AcquireAsync(nil) ended with %+v, want a panic", got)
	}
	told.check(t, 0, 0)
	checkAtRest(t, b)
}

// oneProc leaves the test one processor, so that a new goroutine starts when
// the one that made it lets go, and not before.
func oneProc(t *testing.T) {
	n := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(n) })
}
