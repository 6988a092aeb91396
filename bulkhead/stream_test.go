package bulkhead_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// pair is what an iter.Seq2 of values and errors yields.
type pair struct {
	v   int
	err error
}

func pairs(ps ...pair) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for _, p := range ps {
			if !yield(p.v, p.err) {
				return
			}
		}
	}
}

// last returns the one event of kind k since the last take, and fails the test
// if there is none.
func last(t *testing.T, told *recorder, k event.Kind) event.Record {
	t.Helper()
	var found []event.Record
	records := told.take()
	for _, e := range records {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		t.Errorf("told %+v, want one %v", records, k)
		return event.Record{}
	}
	return found[0]
}

// TestSeqHoldsAPermitUntilItsEnd leaves a loop over a guarded sequence in each
// way there is.
func TestSeqHoldsAPermitUntilItsEnd(t *testing.T) {
	three := []pair{{1, nil}, {2, nil}, {3, nil}}
	tests := []struct {
		name  string
		seq   iter.Seq2[int, error]
		body  func(pair) (goOn bool)
		want  []pair // what the loop sees
		ended ended
		kind  event.Kind
		out   event.Outcome
		err   error
	}{
		{
			name: "end",
			seq:  pairs(three...),
			want: three,
			kind: event.KindFinished, out: event.OK,
		},
		{
			name: "nothing",
			seq:  pairs(),
			kind: event.KindFinished, out: event.OK,
		},
		{
			name: "error at the end",
			seq:  pairs(pair{1, nil}, pair{0, errBoom}),
			want: []pair{{1, nil}, {0, errBoom}},
			kind: event.KindFinished, out: event.Failed, err: errBoom,
		},
		{
			name: "error on the way",
			seq:  pairs(pair{1, errBoom}, pair{2, nil}),
			want: []pair{{1, errBoom}, {2, nil}},
			kind: event.KindFinished, out: event.OK,
		},
		{
			name: "break",
			seq:  pairs(three...),
			body: func(p pair) bool { return p.v < 2 },
			want: three[:2],
			kind: event.KindFinished, out: event.OK,
		},
		{
			name: "break at an error",
			seq:  pairs(pair{1, nil}, pair{2, errBoom}, pair{3, nil}),
			body: func(p pair) bool { return p.err == nil },
			want: []pair{{1, nil}, {2, errBoom}},
			kind: event.KindFinished, out: event.Failed, err: errBoom,
		},
		{
			name:  "panic in the body",
			seq:   pairs(three...),
			body:  func(pair) bool { panic("body") },
			want:  three[:1],
			ended: ended{panicked: "body"},
			kind:  event.KindFinished, out: event.Panicked,
		},
		{
			name:  "goexit in the body",
			seq:   pairs(three...),
			body:  func(pair) bool { runtime.Goexit(); return true },
			want:  three[:1],
			ended: ended{goexit: true},
			kind:  event.KindFinished, out: event.Panicked,
		},
		{
			name:  "panic in the sequence",
			seq:   func(yield func(int, error) bool) { yield(1, nil); panic("seq") },
			want:  three[:1],
			ended: ended{panicked: "seq"},
			kind:  event.KindFinished, out: event.Panicked,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, bulkhead.Config{MaxConcurrent: 2}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
				guarded := bulkhead.Seq(t.Context(), b.Weighing(2), tt.seq)
				if s := b.Stats(); s.Active != 0 {
					t.Errorf("before the loop, %d permits are in flight", s.Active)
				}
				for range 2 { // a new permit each time
					var seen []pair
					got := watch(func() {
						for v, err := range guarded {
							if s := b.Stats(); s.Active != 2 {
								t.Errorf("in the loop, %d permits are in flight, want 2", s.Active)
							}
							time.Sleep(time.Second)
							seen = append(seen, pair{v, err})
							if tt.body != nil && !tt.body(pair{v, err}) {
								break
							}
						}
						if s := b.Stats(); s.Active != 0 {
							t.Errorf("after the loop, %d permits are in flight", s.Active)
						}
					})
					if got != tt.ended || !slices.Equal(seen, tt.want) {
						t.Errorf("the loop saw %v and ended with %+v, want %v and %+v", seen, got, tt.want, tt.ended)
					}
					e := last(t, told, tt.kind)
					if e.Outcome != tt.out || e.Err != tt.err || e.Weight != 2 || e.Elapsed != time.Duration(len(tt.want))*time.Second {
						t.Errorf("told %+v, want %v, %v after %ds", e, tt.out, tt.err, len(tt.want))
					}
				}
			})
		})
	}
}

// A sequence that gets no permit is not started, and says why in its only pair.
func TestSeqRefused(t *testing.T) {
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: time.Second}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		unstarted := func(func(int, error) bool) { t.Error("the sequence was started") }
		done, cancel := context.WithCancel(t.Context())
		cancel()
		first := hold(t, b, 1)
		for _, tt := range []struct {
			name  string
			seq   iter.Seq2[int, error]
			want  error
			text  string
			after time.Duration
		}{
			{"full", bulkhead.Seq(t.Context(), b.Waiting(0), unstarted), bulkhead.ErrFull, "", 0},
			{"timed out", bulkhead.Seq(t.Context(), b, unstarted), bulkhead.ErrFull, "", time.Second},
			{"too heavy", bulkhead.Seq(t.Context(), b.Weighing(2), unstarted), bulkhead.ErrTooHeavy, "", 0},
			{"canceled", bulkhead.Seq(done, b, unstarted), context.Canceled, "", 0},
			{"no sequence", bulkhead.Seq[int](t.Context(), b, nil), nil, `bulkhead "db": function is nil`, 0},
			{"no weight", bulkhead.Seq(t.Context(), b.Weighing(0), unstarted), nil, `bulkhead "db": weight is 0, want at least 1`, 0},
		} {
			for _, leave := range []bool{false, true} {
				start := time.Now()
				var seen []pair
				for v, err := range tt.seq {
					seen = append(seen, pair{v, err})
					if leave {
						break
					}
				}
				if len(seen) != 1 || seen[0].v != 0 || seen[0].err == nil {
					t.Fatalf("%s: the loop saw %v, want one pair with an error", tt.name, seen)
				}
				err := seen[0].err
				if tt.want != nil && !errors.Is(err, tt.want) || tt.text != "" && err.Error() != tt.text {
					t.Errorf("%s: error %v, want %v%s", tt.name, err, tt.want, tt.text)
				}
				if got := time.Since(start); got != tt.after {
					t.Errorf("%s: after %v, want %v", tt.name, got, tt.after)
				}
			}
		}
		first.Release()
	})
}

func TestSeqWhoseContextEnds(t *testing.T) {
	bubble(t, bulkhead.Config{MaxConcurrent: 1}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ticks := func(yield func(int, error) bool) {
			for i := 0; ctx.Err() == nil; i++ {
				if !yield(i, nil) {
					return
				}
			}
			yield(0, ctx.Err())
		}
		for _, err := range bulkhead.Seq(ctx, b, ticks) {
			if err == nil {
				time.Sleep(300 * time.Millisecond)
			}
		}
		if e := last(t, told, event.KindReleased); e.Err != context.DeadlineExceeded || e.Elapsed != 1200*time.Millisecond {
			t.Errorf("told %+v, want released by the deadline after 1.2s", e)
		}
	})
}

func TestSeqTakesAPermitForEachIteration(t *testing.T) {
	bubble(t, bulkhead.Config{MaxConcurrent: 2}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		seq := bulkhead.Seq(t.Context(), b, pairs(pair{1, nil}, pair{2, nil}))
		for range seq {
			for range seq {
				if s := b.Stats(); s.Active != 2 {
					t.Errorf("in two loops, %d permits are in flight, want 2", s.Active)
				}
				for _, err := range seq {
					if !errors.Is(err, bulkhead.ErrFull) {
						t.Errorf("a third loop: %v, want ErrFull", err)
					}
				}
			}
		}
	})
}

func TestSeqPulled(t *testing.T) {
	three := pairs(pair{1, nil}, pair{2, nil}, pair{3, errBoom})
	bubble(t, bulkhead.Config{MaxConcurrent: 1}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		active := func(when string, want int64) {
			t.Helper()
			if got := b.Stats().Active; got != want {
				t.Errorf("%s, %d permits are in flight, want %d", when, got, want)
			}
		}
		next, stop := iter.Pull2(bulkhead.Seq(t.Context(), b, three))
		active("not begun", 0)
		if v, err, ok := next(); v != 1 || err != nil || !ok {
			t.Errorf("next = %v, %v, %v, want 1, nil, true", v, err, ok)
		}
		time.Sleep(time.Hour)
		active("abandoned", 1)
		stop()
		active("stopped", 0)
		if e := last(t, told, event.KindFinished); e.Outcome != event.OK || e.Elapsed != time.Hour {
			t.Errorf("told %+v, want finished after 1h", e)
		}

		next, stop = iter.Pull2(bulkhead.Seq(t.Context(), b, three))
		for range 3 {
			next()
		}
		active("at the last pair", 1)
		if _, _, ok := next(); ok {
			t.Error("a fourth pair")
		}
		active("at the end", 0)
		stop()
		if e := last(t, told, event.KindFinished); e.Outcome != event.Failed || e.Err != errBoom {
			t.Errorf("told %+v, want failed with the last error", e)
		}

		_, stop = iter.Pull2(bulkhead.Seq(t.Context(), b, three))
		stop()
		if got := told.take(); len(got) != 0 {
			t.Errorf("never begun, told %+v", got)
		}
	})
}

// ticker returns an operation that sends 1, 2, 3 and so on, one each second, n
// of them, and then closes the channel. It does not look at its context.
func ticker(n int) func(context.Context) (<-chan int, error) {
	return func(context.Context) (<-chan int, error) {
		c := make(chan int)
		go func() {
			defer close(c)
			for i := range n {
				time.Sleep(time.Second)
				c <- i + 1
			}
		}()
		return c, nil
	}
}

func TestDecorateChanHoldsAPermitUntilTheSourceCloses(t *testing.T) {
	bubble(t, bulkhead.Config{MaxConcurrent: 2}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		source := make(chan int)
		guarded := bulkhead.DecorateChan(b.Weighing(2), func(context.Context) (<-chan int, error) { return source, nil })
		start := time.Now()
		out, err := guarded(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			source <- i
			time.Sleep(time.Second)
			if got := <-out; got != i {
				t.Errorf("received %d, want %d", got, i)
			}
		}
		synctest.Wait()
		if s := b.Stats(); s.Active != 2 || isClosed(out) {
			t.Errorf("the source is open and %d permits are in flight, want 2; or out is closed", s.Active)
		}
		if got := told.take(); len(got) != 1 || got[0].Kind != event.KindPermitted {
			t.Errorf("told %+v, want only permitted", got)
		}
		close(source)
		synctest.Wait()
		if s := b.Stats(); s.Active != 0 || !isClosed(out) {
			t.Errorf("the source is closed and %d permits are in flight; or out is open", s.Active)
		}
		if e := last(t, told, event.KindFinished); e.Outcome != event.OK || e.Weight != 2 || e.Elapsed != time.Since(start) {
			t.Errorf("told %+v, want finished after %v", e, time.Since(start))
		}
	})
}

// isClosed reports whether c is closed, and no value is to be had.
func isClosed[T any](c <-chan T) bool {
	select {
	case _, ok := <-c:
		return !ok
	default:
		return false
	}
}

func TestDecorateChanPassesAllValuesToASlowConsumer(t *testing.T) {
	bubble(t, bulkhead.Config{MaxConcurrent: 1}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		out, err := bulkhead.DecorateChan(b, ticker(5))(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start, next := time.Now(), 1
		for v := range out {
			if v != next {
				t.Errorf("received %d, want %d", v, next)
			}
			next++
			time.Sleep(time.Minute)
		}
		if next != 6 || time.Since(start) != 5*time.Minute+time.Second {
			t.Errorf("received %d values in %v, want 5 in 5m1s", next-1, time.Since(start))
		}
	})
}

// When the context is done the channel is closed at once, whatever is going on,
// and the permit comes back when the source is closed, and not before.
func TestDecorateChanWhoseContextEnds(t *testing.T) {
	errCause := errors.New("client gone")
	for _, tt := range []struct {
		name    string
		receive int // before the context ends, after 2.5 s
	}{
		{"while a value waits for the consumer", 0},
		{"while the source is awaited", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, bulkhead.Config{MaxConcurrent: 1}, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
				ctx, cancel := context.WithCancelCause(t.Context())
				start := time.Now()
				out, err := bulkhead.DecorateChan(b, ticker(5))(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for i := range tt.receive {
					if got := <-out; got != i+1 {
						t.Errorf("received %d, want %d", got, i+1)
					}
				}
				time.Sleep(2500*time.Millisecond - time.Since(start))
				told.take()
				cancel(errCause)
				if v, ok := <-out; ok || time.Since(start) != 2500*time.Millisecond {
					t.Errorf("received %d, %v after %v, want the end at once", v, ok, time.Since(start))
				}
				for b.Stats().Active == 1 {
					time.Sleep(time.Second / 4)
					synctest.Wait()
				}
				// If nobody received before, one tick was late.
				if got := time.Since(start); got < 5*time.Second || got > 6*time.Second+500*time.Millisecond {
					t.Errorf("the permit is back after %v, want when the source has sent five", got)
				}
				e := last(t, told, event.KindReleased)
				if e.Err != context.Canceled || e.Elapsed != time.Since(start).Truncate(time.Second/2) {
					t.Errorf("told %+v, want released by the context after %v", e, time.Since(start))
				}
			})
		})
	}
}

func TestDecorateChanThatStartsNothing(t *testing.T) {
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: time.Second}
	bubble(t, cfg, func(t *testing.T, b *bulkhead.Bulkhead[int], told *recorder) {
		done, cancel := context.WithCancel(t.Context())
		cancel()
		source := make(chan int)
		fails := func(context.Context) (<-chan int, error) { return source, errBoom }
		out, err := bulkhead.DecorateChan(b, fails)(t.Context())
		if out != nil || err != errBoom || b.Stats().Active != 0 {
			t.Errorf("fn fails: %v, %v with %d active, want nil and the very error", out, err, b.Stats().Active)
		}
		if e := last(t, told, event.KindFinished); e.Outcome != event.Failed || e.Err != errBoom {
			t.Errorf("told %+v, want failed", e)
		}

		out, err = bulkhead.DecorateChan(b, func(context.Context) (<-chan int, error) { return nil, nil })(t.Context())
		if err != nil || !isClosed(out) || b.Stats().Active != 0 {
			t.Errorf("no channel: %v, %v with %d active, want a closed one", out, err, b.Stats().Active)
		}
		if e := last(t, told, event.KindFinished); e.Outcome != event.OK {
			t.Errorf("told %+v, want finished", e)
		}

		unstarted := func(context.Context) (<-chan int, error) { t.Error("fn ran"); return nil, nil }
		first := hold(t, b, 1)
		for _, tt := range []struct {
			ctx  context.Context
			h    *bulkhead.Bulkhead[int]
			want error
		}{
			{t.Context(), b, bulkhead.ErrFull},
			{t.Context(), b.Weighing(2), bulkhead.ErrTooHeavy},
			{done, b, context.Canceled},
		} {
			out, err := bulkhead.DecorateChan(tt.h, unstarted)(tt.ctx)
			if out != nil || !errors.Is(err, tt.want) {
				t.Errorf("%v, %v, want nil and %v", out, err, tt.want)
			}
		}
		told.take()
		if out, err := bulkhead.DecorateChan[int](b, nil)(t.Context()); out != nil || err == nil || err.Error() != `bulkhead "db": function is nil` {
			t.Errorf("no function: %v, %v", out, err)
		}
		if got := watch(func() { bulkhead.DecorateChan(b, unstarted)(nil) }); got.panicked == nil {
			t.Errorf("no context: ended with %+v, want a panic", got)
		}
		if got := told.take(); len(got) != 0 {
			t.Errorf("misused, told %+v", got)
		}
		first.Release()
	})
}

// A listener that misbehaves at the end of a channel is not heard of: nobody is
// there to be told. The permit is back, and the channel closed.
func TestListenerMisbehavesToDecorateChan(t *testing.T) {
	unblock := make(chan struct{})
	for _, mis := range append(misbehaviours[:len(misbehaviours):len(misbehaviours)], struct {
		name string
		do   func()
	}{"blocks", func() { <-unblock }}) {
		for _, kind := range []event.Kind{event.KindFinished, event.KindReleased} {
			t.Run(mis.name+"/"+kind.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					unblock = make(chan struct{})
					var after recorder
					b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
					b.Subscribe(event.All(func(_ context.Context, e event.Record) {
						if e.Kind == kind {
							mis.do()
						}
					}))
					unsubscribe := b.Subscribe(after.listener())
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					out, err := bulkhead.DecorateChan(b, ticker(3))(ctx)
					if err != nil {
						t.Fatal(err)
					}
					n := 0
					for range out {
						if n++; n == 2 && kind == event.KindReleased {
							cancel()
						}
					}
					time.Sleep(time.Minute)
					if s := b.Stats(); s.Active != 0 {
						t.Errorf("%d permits are in flight, want 0", s.Active)
					}
					hold(t, b, 1)
					close(unblock)
					synctest.Wait()
					unsubscribe()
					if last := after.records[len(after.records)-2:]; !slices.ContainsFunc(last, func(e event.Record) bool { return e.Kind == kind }) {
						t.Errorf("the other listener was told %+v, want %v", last, kind)
					}
				})
			})
		}
	}
}

// A context that panics costs no permit, whichever of its methods it is and
// whenever.
func TestDecorateChanWhoseContextPanics(t *testing.T) {
	for _, listening := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
			if listening {
				b.Subscribe(event.Listener{Released: func(context.Context, event.Released) {}})
			}
			ctx := &panicsAt{Context: t.Context(), done: make(chan struct{}), method: "Done"}
			got := watch(func() { bulkhead.DecorateChan(b, ticker(1))(ctx) })
			if got.panicked != "Done" {
				t.Errorf("ended with %+v, want the context's panic", got)
			}
			checkAtRest(t, b)

			ctx.method = ""
			out, err := bulkhead.DecorateChan(b, ticker(1))(ctx)
			if err != nil {
				t.Fatal(err)
			}
			ctx.method = "Err"
			close(ctx.done)
			if v, ok := <-out; ok {
				t.Errorf("received %v from a closed channel", v)
			}
			time.Sleep(time.Minute)
			checkAtRest(t, b)
		})
	}
}

// panicsAt is a context of which one method panics.
type panicsAt struct {
	context.Context
	done   chan struct{}
	method string
}

func (c *panicsAt) Done() <-chan struct{} { c.panics("Done"); return c.done }
func (c *panicsAt) Err() error            { c.panics("Err"); return nil }

func (c *panicsAt) panics(method string) {
	if c.method == method {
		panic(method)
	}
}
