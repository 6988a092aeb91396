package bulkhead_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// TestEveryOutcomeOfACall makes one call in each of the ways in which a call
// can end, by every entry, and wants: the error, the call's events field by
// field, the sums, and every permit back.
//
// The bulkhead has a limit of 3, one place in the queue, and waits a minute.
func TestEveryOutcomeOfACall(t *testing.T) {
	errCause := errors.New("client gone")
	work := func(err error) func(context.Context) error {
		return func(context.Context) error { time.Sleep(time.Second); return err }
	}
	untilDone := func(err func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error { <-ctx.Done(); return err(ctx) }
	}
	type other struct {
		weight int64
		keeps  time.Duration
	}
	permitted := event.Record{Kind: event.KindPermitted, Weight: 2, Active: 2}
	finished := event.Record{Kind: event.KindFinished, Weight: 2, Elapsed: time.Second, Outcome: event.OK}
	released := event.Record{Kind: event.KindReleased, Weight: 2, Elapsed: 10 * time.Second}
	rejected := event.Record{Kind: event.KindRejected, Weight: 2, MaxConcurrent: 3, MaxWait: time.Minute}
	canceled := event.Record{Kind: event.KindCanceled, Weight: 2, Err: context.Canceled}
	with := func(e event.Record, change func(*event.Record)) event.Record { change(&e); return e }

	tests := []struct {
		name     string
		others   []other       // made before, in this order: they run or wait
		weight   int64         // of the call; 0 means 2
		waiting  time.Duration // of the handle; 0 means that it is not set
		noWait   bool          // the handle waits 0
		close    time.Duration // when the bulkhead is closed; 0 means not
		closed   bool          // it is closed before the call
		shrink   bool          // to 1, after 10 s
		done     bool          // the context is done before the call
		cancel   time.Duration // when the context is canceled; 0 means not
		deadline time.Duration // the context's; 0 means none
		fn       func(context.Context) error

		want    ended
		is, not []error // what the error matches, and does not
		events  []event.Record
	}{
		{
			name:   "returns",
			fn:     work(nil),
			events: []event.Record{permitted, finished},
		},
		{
			name: "fails",
			fn:   work(errBoom),
			is:   []error{errBoom},
			events: []event.Record{permitted, with(finished, func(e *event.Record) {
				e.Outcome, e.Err = event.Failed, errBoom
			})},
		},
		{
			name: "panics",
			fn:   func(context.Context) error { time.Sleep(time.Second); panic("boom") },
			want: ended{panicked: "boom"},
			events: []event.Record{permitted, with(finished, func(e *event.Record) {
				e.Outcome = event.Panicked
			})},
		},
		{
			name: "goexit",
			fn:   func(context.Context) error { time.Sleep(time.Second); runtime.Goexit(); return nil },
			want: ended{goexit: true},
			events: []event.Record{permitted, with(finished, func(e *event.Record) {
				e.Outcome = event.Panicked
			})},
		},
		{
			name:   "waits and returns",
			others: []other{{2, 10 * time.Second}},
			fn:     work(nil),
			events: []event.Record{
				with(permitted, func(e *event.Record) { e.Waited = 10 * time.Second }),
				finished,
			},
		},
		{
			name:   "its error matches its canceled context",
			fn:     untilDone(context.Context.Err),
			cancel: 10 * time.Second,
			is:     []error{context.Canceled},
			events: []event.Record{permitted, with(released, func(e *event.Record) { e.Err = context.Canceled })},
		},
		{
			name:   "its error matches the cause of its context",
			fn:     untilDone(context.Cause),
			cancel: 10 * time.Second,
			is:     []error{errCause},
			not:    []error{context.Canceled},
			events: []event.Record{permitted, with(released, func(e *event.Record) { e.Err = errCause })},
		},
		{
			name:     "its error matches its context's deadline",
			fn:       untilDone(context.Context.Err),
			deadline: 10 * time.Second,
			is:       []error{context.DeadlineExceeded},
			events:   []event.Record{permitted, with(released, func(e *event.Record) { e.Err = context.DeadlineExceeded })},
		},
		{
			name:   "fails otherwise although its context is done",
			fn:     untilDone(func(context.Context) error { return errBoom }),
			cancel: 10 * time.Second,
			is:     []error{errBoom},
			events: []event.Record{permitted, with(finished, func(e *event.Record) {
				e.Elapsed, e.Outcome, e.Err = 10*time.Second, event.Failed, errBoom
			})},
		},
		{
			name:   "returns although its context is done",
			fn:     untilDone(func(context.Context) error { return nil }),
			cancel: 10 * time.Second,
			events: []event.Record{permitted, with(finished, func(e *event.Record) { e.Elapsed = 10 * time.Second })},
		},
		{
			name: "an error like a context's that is not its own",
			fn:   work(context.Canceled),
			is:   []error{context.Canceled},
			events: []event.Record{permitted, with(finished, func(e *event.Record) {
				e.Outcome, e.Err = event.Failed, context.Canceled
			})},
		},
		{
			name:   "full",
			others: []other{{2, 10 * time.Second}},
			noWait: true,
			is: []error{bulkhead.ErrFull, bulkhead.RejectedError{
				Name: "db", Reason: event.Full, MaxConcurrent: 3, Weight: 2,
			}},
			not: []error{bulkhead.ErrTooHeavy, bulkhead.ErrClosed},
			events: []event.Record{with(rejected, func(e *event.Record) {
				e.MaxWait, e.Reason = 0, event.Full
			})},
		},
		{
			name:   "times out",
			others: []other{{2, 2 * time.Minute}},
			is: []error{bulkhead.ErrFull, bulkhead.RejectedError{
				Name: "db", Reason: event.TimedOut, MaxConcurrent: 3, MaxWait: time.Minute, Waited: time.Minute, Weight: 2,
			}},
			not: []error{bulkhead.ErrTooHeavy, bulkhead.ErrClosed, context.DeadlineExceeded},
			events: []event.Record{with(rejected, func(e *event.Record) {
				e.Waited, e.Reason = time.Minute, event.TimedOut
			})},
		},
		{
			name:    "times out on the handle's wait",
			others:  []other{{2, 2 * time.Minute}},
			waiting: time.Millisecond,
			is: []error{bulkhead.ErrFull, bulkhead.RejectedError{
				Name: "db", Reason: event.TimedOut, MaxConcurrent: 3, MaxWait: time.Millisecond, Waited: time.Millisecond, Weight: 2,
			}},
			events: []event.Record{with(rejected, func(e *event.Record) {
				e.MaxWait, e.Waited, e.Reason = time.Millisecond, time.Millisecond, event.TimedOut
			})},
		},
		{
			name:   "queue full",
			others: []other{{2, 10 * time.Second}, {3, time.Second}},
			is: []error{bulkhead.ErrFull, bulkhead.RejectedError{
				Name: "db", Reason: event.QueueFull, MaxConcurrent: 3, MaxWait: time.Minute, Weight: 2,
			}},
			not: []error{bulkhead.ErrTooHeavy, bulkhead.ErrClosed},
			events: []event.Record{with(rejected, func(e *event.Record) {
				e.Reason = event.QueueFull
			})},
		},
		{
			name:   "too heavy",
			weight: 4,
			is: []error{bulkhead.ErrTooHeavy, bulkhead.RejectedError{
				Name: "db", Reason: event.TooHeavy, MaxConcurrent: 3, MaxWait: time.Minute, Weight: 4,
			}},
			not: []error{bulkhead.ErrFull, bulkhead.ErrClosed},
			events: []event.Record{with(rejected, func(e *event.Record) {
				e.Weight, e.Reason = 4, event.TooHeavy
			})},
		},
		{
			name:   "made too heavy while it waits",
			others: []other{{2, 20 * time.Second}},
			shrink: true,
			is: []error{bulkhead.ErrTooHeavy, bulkhead.RejectedError{
				Name: "db", Reason: event.TooHeavy, MaxConcurrent: 1, MaxWait: time.Minute, Waited: 10 * time.Second, Weight: 2,
			}},
			not: []error{bulkhead.ErrFull, bulkhead.ErrClosed},
			events: []event.Record{with(rejected, func(e *event.Record) {
				e.MaxConcurrent, e.Waited, e.Reason = 1, 10*time.Second, event.TooHeavy
			})},
		},
		{
			name:   "closed",
			closed: true,
			is: []error{bulkhead.ErrClosed, bulkhead.RejectedError{
				Name: "db", Reason: event.Closed, MaxConcurrent: 3, MaxWait: time.Minute, Weight: 2,
			}},
			not: []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy},
			events: []event.Record{with(rejected, func(e *event.Record) {
				e.Reason = event.Closed
			})},
		},
		{
			name:   "closed while it waits",
			others: []other{{2, 20 * time.Second}},
			close:  10 * time.Second,
			is: []error{bulkhead.ErrClosed, bulkhead.RejectedError{
				Name: "db", Reason: event.Closed, MaxConcurrent: 3, MaxWait: time.Minute, Waited: 10 * time.Second, Weight: 2,
			}},
			not: []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy},
			events: []event.Record{with(rejected, func(e *event.Record) {
				e.Waited, e.Reason = 10*time.Second, event.Closed
			})},
		},
		{
			name:   "canceled before",
			done:   true,
			is:     []error{context.Canceled, errCause},
			not:    []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy, bulkhead.ErrClosed},
			events: []event.Record{canceled},
		},
		{
			name:   "canceled before, and closed",
			done:   true,
			closed: true,
			is:     []error{context.Canceled, errCause},
			not:    []error{bulkhead.ErrClosed},
			events: []event.Record{canceled},
		},
		{
			name:   "canceled while it waits",
			others: []other{{2, 20 * time.Second}},
			cancel: 10 * time.Second,
			is:     []error{context.Canceled, errCause},
			not:    []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy, bulkhead.ErrClosed},
			events: []event.Record{with(canceled, func(e *event.Record) { e.Waited = 10 * time.Second })},
		},
		{
			name:     "its deadline passes while it waits",
			others:   []other{{2, 20 * time.Second}},
			deadline: 10 * time.Second,
			is:       []error{context.DeadlineExceeded},
			not:      []error{bulkhead.ErrFull, bulkhead.ErrTooHeavy, bulkhead.ErrClosed},
			events: []event.Record{with(canceled, func(e *event.Record) {
				e.Waited, e.Err = 10*time.Second, context.DeadlineExceeded
			})},
		},
	}
	for _, tt := range tests {
		for _, entry := range entries {
			t.Run(tt.name+"/"+entry.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var all, own recorder
					b := bulkhead.MustNew[int](bulkhead.Config{
						Name:          "db",
						MaxConcurrent: 3,
						MaxWait:       time.Minute,
						MaxQueue:      1,
						Listener:      all.listener(),
					})
					calls, weights := int64(1), tt.weight
					if weights == 0 {
						weights = 2
					}
					h := b.Weighing(weights)
					for _, o := range tt.others {
						calls, weights = calls+1, weights+o.weight
						go b.Weighing(o.weight).Run(t.Context(), func(context.Context) error {
							time.Sleep(o.keeps)
							return nil
						})
						synctest.Wait()
					}
					if tt.waiting != 0 || tt.noWait {
						h = h.Waiting(tt.waiting)
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					if tt.done {
						cancel(errCause)
					}
					if tt.cancel != 0 {
						time.AfterFunc(tt.cancel, func() { cancel(errCause) })
					}
					if tt.deadline != 0 {
						var stop context.CancelFunc
						ctx, stop = context.WithTimeout(ctx, tt.deadline)
						defer stop()
					}
					if tt.closed {
						b.Close()
					}
					if tt.close != 0 {
						time.AfterFunc(tt.close, b.Close)
					}
					if tt.shrink {
						time.AfterFunc(10*time.Second, func() { b.SetMaxConcurrent(1) })
					}

					// Only calls that start from here on tell own.
					defer b.Subscribe(own.listener())()
					ran := false
					var err error
					got := watch(func() {
						err = entry.call(ctx, h, func(ctx context.Context) error {
							ran = true
							if tt.fn == nil {
								return nil
							}
							return tt.fn(ctx)
						})
					})

					if got != tt.want {
						t.Errorf("ended with %+v, want %+v", got, tt.want)
					}
					if want := tt.events[0].Kind == event.KindPermitted; ran != want {
						t.Errorf("function ran: %v, want %v", ran, want)
					}
					if (err != nil) != (tt.is != nil) {
						t.Errorf("error = %v, want one: %v", err, tt.is != nil)
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

					want := slices.Clone(tt.events)
					if entry.name == "Acquire" && (tt.want != ended{}) {
						// Whoever holds a permit and panics gives it back unused.
						last := &want[len(want)-1]
						last.Kind, last.Outcome = event.KindReleased, 0
					}
					var told []event.Record
					for _, e := range own.take() {
						if e.Kind != event.KindLimitChanged {
							told = append(told, e)
						}
					}
					for i := range want {
						want[i].Name = "db"
					}
					if diff := cmp.Diff(want, told, cmpopts.IgnoreFields(event.Record{}, "Time"), cmpopts.EquateErrors()); diff != "" {
						t.Errorf("events of the call (-want +got):\n%s", diff)
					}

					time.Sleep(time.Hour) // the others end
					all.check(t, calls, weights)
					checkAtRest(t, b)
				})
			})
		}
	}
}

func TestExecuteReturnsWhatTheFunctionReturns(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	if got, err := b.Execute(t.Context(), answer); got != 42 || err != nil {
		t.Errorf("Execute = %v, %v, want 42, nil", got, err)
	}
	both := func(context.Context) (int, error) { return 7, errBoom }
	if got, err := b.Execute(t.Context(), both); got != 7 || err != errBoom {
		t.Errorf("Execute = %v, %v, want 7 and the very error", got, err)
	}
	if err := b.Run(t.Context(), func(context.Context) error { return errBoom }); err != errBoom {
		t.Errorf("Run = %v, want the very error", err)
	}
	word := func(_ context.Context, s string) (string, error) { return strings.ToUpper(s), nil }
	if got, err := bulkhead.DecorateFunc(b, word)(t.Context(), "hi"); got != "HI" || err != nil {
		t.Errorf("DecorateFunc = %q, %v, want HI, nil", got, err)
	}
	var consumed string
	consume := func(_ context.Context, s string) error { consumed = s; return errBoom }
	if err := bulkhead.DecorateConsumer(b, consume)(t.Context(), "hi"); consumed != "hi" || err != errBoom {
		t.Errorf("DecorateConsumer = %v with %q, want the very error with hi", err, consumed)
	}
	checkAtRest(t, b)
}

func TestFunctionGetsTheCallersContext(t *testing.T) {
	type key struct{}
	want := context.WithValue(t.Context(), key{}, 1)
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	for _, entry := range entries {
		err := entry.call(want, b, func(got context.Context) error {
			if got != want {
				t.Errorf("%s: context %v, want the caller's", entry.name, got)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", entry.name, err)
		}
	}
}

func TestMisuseIsAnErrorAndNotACall(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, Listener: told.listener()})
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"Execute", second(b.Execute(t.Context(), nil)), `bulkhead "db": function is nil`},
		{"Run", b.Run(t.Context(), nil), `bulkhead "db": function is nil`},
		{"Do", second(bulkhead.Do[string](t.Context(), b, nil)), `bulkhead "db": function is nil`},
		{"Decorate", second(bulkhead.Decorate[string](b, nil)(t.Context())), `bulkhead "db": function is nil`},
		{"DecorateFunc", second(bulkhead.DecorateFunc[int, string](b, nil)(t.Context(), 1)), `bulkhead "db": function is nil`},
		{"DecorateRun", bulkhead.DecorateRun(b, nil)(t.Context()), `bulkhead "db": function is nil`},
		{"DecorateConsumer", bulkhead.DecorateConsumer[int](b, nil)(t.Context(), 1), `bulkhead "db": function is nil`},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("%s with nil: error %v, want %s", tt.name, tt.err, tt.want)
		}
	}

	handles := []struct {
		h    *bulkhead.Bulkhead[int]
		want string
	}{
		{b.Weighing(0), `bulkhead "db": weight is 0, want at least 1`},
		{b.Weighing(-1), `bulkhead "db": weight is -1, want at least 1`},
		{b.Weighing(-1 << 63), `bulkhead "db": weight is -9223372036854775808, want at least 1`},
		{b.Waiting(-1), `bulkhead "db": wait is -1ns, must not be negative`},
		{b.Waiting(-1 << 63), `bulkhead "db": wait is -2562047h47m16.854775808s, must not be negative`},
	}
	for _, tt := range handles {
		for _, entry := range entries {
			err := entry.call(t.Context(), tt.h, func(context.Context) error {
				t.Errorf("%s ran the function: %s", entry.name, tt.want)
				return nil
			})
			if err == nil || err.Error() != tt.want {
				t.Errorf("%s: error %v, want %s", entry.name, err, tt.want)
			}
		}
		if p, ok := tt.h.TryAcquire(); p != nil || ok {
			t.Errorf("TryAcquire = %v, %v, want nil, false: %s", p, ok, tt.want)
		}
	}
	told.check(t, 0, 0)
	checkAtRest(t, b)
}

func second[T any](_ T, err error) error { return err }

// Elsewhere the panic of a nil context left the pool locked.
// https://github.com/jackc/puddle/issues/8
func TestNilContextPanicsBeforeAnythingIsTaken(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: time.Second, Listener: told.listener()})
	for _, entry := range entries {
		got := watch(func() {
			entry.call(nil, b, func(context.Context) error {
				t.Errorf("%s ran the function", entry.name)
				return nil
			})
		})
		if got.panicked == nil {
			t.Errorf("%s with a nil context ended with %+v, want a panic", entry.name, got)
		}
	}
	told.check(t, 0, 0)
	checkAtRest(t, b)
}

func TestHandlesShareOneBulkhead(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 5, Listener: told.listener()})
	for _, h := range []bulkhead.Any{
		b,
		b.Weighing(2),
		b.Waiting(time.Second),
		b.Weighing(7).Waiting(0).Weighing(2),
		bulkhead.Weighing(b, 2),
		bulkhead.Waiting(bulkhead.Weighing(b, 2), time.Second),
	} {
		if h.Name() != "db" || h.Config().MaxConcurrent != 5 || h.Config().MaxWait != 0 {
			t.Errorf("handle is %q with %+v, want the bulkhead's", h.Name(), h.Config())
		}
		if err := h.SetMaxConcurrent(6); err != nil {
			t.Error(err)
		}
		if got := b.Stats().MaxConcurrent; got != 6 {
			t.Errorf("set on a handle, the limit is %d, want 6", got)
		}
		b.SetMaxConcurrent(5)
		p, _ := h.TryAcquire()
		if b.Stats().Active != h.Stats().Active || b.Stats().Active == 0 {
			t.Errorf("active: %d by the bulkhead, %d by the handle", b.Stats().Active, h.Stats().Active)
		}
		p.Release()
	}
	if got := told.check(t, 6, 1+2+1+2+2+2).calls[event.KindLimitChanged]; got != 12 {
		t.Errorf("%d limit changes were told, want 12", got)
	}
	bulkhead.Weighing(b, 2).Close()
	if !b.Stats().Closed {
		t.Error("closed through a handle, the bulkhead is open")
	}
}

func TestLastWeighingAndWaitingCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 5, MaxWait: time.Hour})
		tests := []struct {
			name   string
			h      bulkhead.Any
			weight int64
			wait   time.Duration
		}{
			{"bulkhead", b, 1, time.Hour},
			{"weighing twice", b.Weighing(2).Weighing(3), 3, time.Hour},
			{"waiting twice", b.Waiting(1).Waiting(time.Second), 1, time.Second},
			{"both", b.Weighing(2).Waiting(time.Second), 2, time.Second},
			{"both, turned round", b.Waiting(time.Second).Weighing(2), 2, time.Second},
			{"no wait", b.Waiting(time.Second).Waiting(0), 1, 0},
			{"a bad one replaced", b.Weighing(0).Waiting(-1).Weighing(2).Waiting(time.Second), 2, time.Second},
			{"functions", bulkhead.Waiting(bulkhead.Weighing(b, 4), time.Second), 4, time.Second},
			{"function over a handle", bulkhead.Weighing(b.Waiting(time.Second), 4), 4, time.Second},
		}
		for _, tt := range tests {
			p, ok := tt.h.TryAcquire()
			if got := b.Stats().Active; !ok || got != tt.weight {
				t.Errorf("%s: holds %d, want %d", tt.name, got, tt.weight)
			}
			p.Release()
			full := hold(t, b, 5)
			start := time.Now()
			err := tt.h.Run(t.Context(), nop)
			if got := time.Since(start); got != tt.wait || !errors.Is(err, bulkhead.ErrFull) {
				t.Errorf("%s: %v after %v, want ErrFull after %v", tt.name, err, got, tt.wait)
			}
			full.Release()
		}
		checkAtRest(t, b)
	})
}

func TestNestedCallFailsInsteadOfHanging(t *testing.T) {
	// https://github.com/panjf2000/ants/issues/90
	// https://github.com/mperham/connection_pool/issues/14
	for _, entry := range entries {
		t.Run(entry.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told recorder
				b := bulkhead.MustNew[int](bulkhead.Config{
					Name: "db", MaxConcurrent: 1, MaxWait: 50 * time.Millisecond, Listener: told.listener(),
				})
				err := entry.call(t.Context(), b, func(ctx context.Context) error {
					inner := b.Run(ctx, nop)
					if !errors.Is(inner, bulkhead.ErrFull) {
						t.Errorf("nested call: %v, want ErrFull", inner)
					}
					return nil
				})
				if err != nil {
					t.Errorf("outer call: %v, want nil", err)
				}
				got := told.check(t, 2, 2).calls
				if got[event.KindRejected] != 1 || got[event.KindFinished] != 1 {
					t.Errorf("told %v, want one rejected and one finished", got)
				}
				checkAtRest(t, b)
			})
		})
	}
}

func TestBulkheadSharedByTwoBubbles(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name: "db", MaxConcurrent: 1, MaxWait: time.Second, Listener: told.listener(),
	})
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			p := hold(t, b, 1)
			start := time.Now()
			err := b.Run(t.Context(), nop)
			if got := time.Since(start); got != time.Second || !errors.Is(err, bulkhead.ErrFull) {
				t.Errorf("%v after %v, want ErrFull after 1s", err, got)
			}
			time.AfterFunc(500*time.Millisecond, p.Release)
			if err := b.Run(t.Context(), nop); err != nil {
				t.Errorf("with a permit on its way: %v, want nil", err)
			}
			records := told.take()
			for _, r := range records {
				if r.Waited < 0 || r.Elapsed < 0 || r.Waited > time.Second {
					t.Errorf("%v: waited %v, elapsed %v", r.Kind, r.Waited, r.Elapsed)
				}
			}
			checkAtRest(t, b)
			told.take()
		})
	}
}

func TestHugeLimits(t *testing.T) {
	// https://github.com/smallrye/smallrye-fault-tolerance/issues/1099
	// https://github.com/App-vNext/Polly/issues/2637
	const huge = 1<<63 - 1
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []int64{1, huge} {
			b := bulkhead.MustNew[int](bulkhead.Config{
				Name: "db", MaxConcurrent: limit, MaxWait: bulkhead.Forever, MaxQueue: int(^uint(0) >> 1),
			})
			p := hold(t, b, limit)
			errs := make(chan error, 3)
			for range 3 {
				go func() { errs <- b.Weighing(limit).Run(t.Context(), nop) }()
				synctest.Wait()
			}
			if got := b.Stats(); got.Waiting != 3 || got.Active != limit || got.Available != 0 {
				t.Errorf("limit %d: Stats = %+v, want 3 waiting and all permits active", limit, got)
			}
			p.Release()
			for range 3 {
				if err := <-errs; err != nil {
					t.Errorf("limit %d: waiting call: %v, want nil", limit, err)
				}
			}
			checkAtRest(t, b)
		}
	})
}
