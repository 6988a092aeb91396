package bulkhead_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

func TestPermitEndsOnce(t *testing.T) {
	complete := func(err error) func(*bulkhead.Permit) {
		return func(p *bulkhead.Permit) { p.Complete(err) }
	}
	panicked := (*bulkhead.Permit).Panicked
	release := (*bulkhead.Permit).Release
	tests := []struct {
		name   string
		cancel bool // Acquire's context, before the permit ends
		end    []func(*bulkhead.Permit)
		want   event.Record
	}{
		{
			name: "complete",
			end:  []func(*bulkhead.Permit){complete(nil)},
			want: event.Record{Kind: event.KindFinished, Outcome: event.OK},
		},
		{
			name: "complete with an error",
			end:  []func(*bulkhead.Permit){complete(errBoom)},
			want: event.Record{Kind: event.KindFinished, Outcome: event.Failed, Err: errBoom},
		},
		{
			name:   "complete with the context's error",
			cancel: true,
			end:    []func(*bulkhead.Permit){complete(context.Canceled)},
			want:   event.Record{Kind: event.KindReleased, Err: context.Canceled},
		},
		{
			name: "complete with a context's error that is not its own",
			end:  []func(*bulkhead.Permit){complete(context.Canceled)},
			want: event.Record{Kind: event.KindFinished, Outcome: event.Failed, Err: context.Canceled},
		},
		{
			name:   "complete with another error, canceled",
			cancel: true,
			end:    []func(*bulkhead.Permit){complete(errBoom)},
			want:   event.Record{Kind: event.KindFinished, Outcome: event.Failed, Err: errBoom},
		},
		{
			name: "release",
			end:  []func(*bulkhead.Permit){release},
			want: event.Record{Kind: event.KindReleased},
		},
		{
			name:   "panicked, canceled",
			cancel: true,
			end:    []func(*bulkhead.Permit){panicked},
			want:   event.Record{Kind: event.KindFinished, Outcome: event.Panicked},
		},
		{
			name: "complete, then anything",
			end:  []func(*bulkhead.Permit){complete(nil), release, complete(errBoom), panicked, release},
			want: event.Record{Kind: event.KindFinished, Outcome: event.OK},
		},
		{
			name: "release, then anything",
			end:  []func(*bulkhead.Permit){release, complete(errBoom), panicked, release},
			want: event.Record{Kind: event.KindReleased},
		},
		{
			name: "panicked, then anything",
			end:  []func(*bulkhead.Permit){panicked, release, complete(errBoom), panicked},
			want: event.Record{Kind: event.KindFinished, Outcome: event.Panicked},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told recorder
				b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 5, Listener: told.listener()})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				p, err := b.Weighing(3).Acquire(ctx)
				if err != nil || b.Stats().Active != 3 {
					t.Fatalf("Acquire = %v with %d active, want nil with 3", err, b.Stats().Active)
				}
				if tt.cancel {
					cancel()
				}
				time.Sleep(time.Second)
				for _, end := range tt.end {
					end(p)
					if got := b.Stats().Active; got != 0 {
						t.Errorf("%d active after the permit's end, want 0", got)
					}
				}
				records := told.take()
				if len(records) != 2 {
					t.Fatalf("told %+v, want two events", records)
				}
				want := tt.want
				want.Name, want.Weight, want.Elapsed, want.Time = "db", 3, time.Second, time.Now()
				if got := records[1]; got != want {
					t.Errorf("told %+v, want %+v", got, want)
				}
				checkAtRest(t, b)
			})
		})
	}
}

func TestNilPermitDoesNothing(t *testing.T) {
	// The error was ignored, and the deferred release ended the process.
	// https://github.com/elastic/beats/issues/16397
	// https://github.com/erigontech/erigon/issues/12417
	// https://github.com/oras-project/oras-go/issues/363
	// https://github.com/openllb/hlb/issues/320
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, Listener: told.listener()})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 1000 {
		p, err := b.Acquire(ctx)
		if p != nil || !errors.Is(err, context.Canceled) {
			t.Fatalf("Acquire = %v, %v, want nil and the context's error", p, err)
		}
		p.Release()
		p.Complete(nil)
		p.Complete(errBoom)
		p.Panicked()
		b.Execute(ctx, answer)
	}
	// The clean-up of a thousand refused requests ran.
	// https://github.com/envoyproxy/envoy/issues/22390
	if got, err := b.Execute(t.Context(), answer); got != 42 || err != nil {
		t.Errorf("then Execute = %v, %v, want 42, nil", got, err)
	}
	told.check(t, 2001, 2001)
	checkAtRest(t, b)
}

func TestPanickedLeavesThePanicAlone(t *testing.T) {
	for name, listen := range map[string]func(){"panic": func() { panic("listener") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var told recorder
			b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, Listener: event.Join(
				event.Listener{Finished: func(context.Context, event.Finished) { listen() }}, told.listener())})
			func() {
				defer func() {
					if got := recover(); got != "work" {
						t.Errorf("recovered %v, want the panic of the work", got)
					}
				}()
				p := hold(t, b, 1)
				defer p.Panicked()
				panic("work")
			}()
			told.check(t, 1, 1)
			checkAtRest(t, b)
		})
	}
}

func TestStalePermitReleasesNobodyElses(t *testing.T) {
	// https://github.com/thomhurst/AsyncSemaphore/pull/563
	// https://github.com/meziantou/Meziantou.Framework/pull/3068
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	for range 100 {
		p := hold(t, b, 1)
		same := p
		var ends sync.WaitGroup
		barrier := make(chan struct{})
		for _, end := range []func(){p.Release, same.Release, func() { p.Complete(nil) }, func() { same.Complete(nil) }} {
			ends.Go(func() { <-barrier; end() })
		}
		close(barrier)
		ends.Wait()

		next := hold(t, b, 1)
		p.Release()
		same.Complete(nil)
		if got := b.Stats(); got.Active != 1 || got.Available != 0 {
			t.Fatalf("after a stale release, Stats = %+v, want the next holder's permit in flight", got)
		}
		next.Release()
	}
	checkAtRest(t, b)
}

func TestPermitEndsFromAnotherGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
		p := hold(t, b, 1)
		time.AfterFunc(time.Second, func() { p.Complete(nil) })
		start := time.Now()
		q, err := b.Acquire(t.Context())
		if got := time.Since(start); err != nil || got != time.Second {
			t.Errorf("Acquire = %v after %v, want nil after 1s", err, got)
		}
		q.Release()
		checkAtRest(t, b)
	})
}

func TestDeferredReleaseCoversPanicAndGoexit(t *testing.T) {
	var told recorder
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, Listener: told.listener()})
	for _, leave := range []func(){func() { panic("boom") }, runtime.Goexit, func() {}} {
		watch(func() {
			p, _ := b.Acquire(t.Context())
			defer p.Release()
			leave()
			p.Complete(nil)
		})
	}
	got := told.check(t, 3, 3).calls
	if got[event.KindReleased] != 2 || got[event.KindFinished] != 1 {
		t.Errorf("told %v, want two released and one finished", got)
	}
	checkAtRest(t, b)
}

func TestTryAcquireNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told recorder
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "db", MaxConcurrent: 3, MaxWait: time.Hour, Listener: told.listener(),
		})
		start := time.Now()
		p := hold(t, b, 2)
		rejected := func(h *bulkhead.Bulkhead[int], want event.Reason) {
			t.Helper()
			if q, ok := h.TryAcquire(); q != nil || ok {
				t.Errorf("TryAcquire = %v, %v, want nil, false", q, ok)
			}
			records := told.take()
			if last := records[len(records)-1]; last.Kind != event.KindRejected || last.Reason != want || last.MaxWait != 0 {
				t.Errorf("told %+v, want rejected, %v, with no wait", last, want)
			}
		}
		rejected(b.Weighing(2), event.Full)
		rejected(b.Weighing(2).Waiting(time.Hour), event.Full)
		rejected(b.Weighing(4), event.TooHeavy)
		go b.Weighing(2).Run(t.Context(), nop)
		synctest.Wait()
		rejected(b, event.Full) // one is free, but somebody waits for it
		p.Release()
		synctest.Wait()
		checkAtRest(t, b)
		b.Close()
		rejected(b, event.Closed)
		if got := time.Since(start); got != 0 {
			t.Errorf("it waited %v", got)
		}
	})
}
