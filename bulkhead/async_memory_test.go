package bulkhead_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// Once an asynchronous call is over, however it ended, its context and its
// function can be collected, though the bulkhead, the parent of the context and
// the Future live on.
func TestEndedCallKeepsNothingAlive(t *testing.T) {
	type bulk = *bulkhead.Bulkhead[int]
	tests := []struct {
		name string
		held int64 // of two permits
		with func(bulk) bulk
		then func(b bulk, f *bulkhead.Future[int], cancel func(), first *bulkhead.Permit)
		end  func(context.Context) (int, error)
		want error
	}{
		{name: "returns"},
		{name: "fails", end: func(context.Context) (int, error) { return 0, errBoom }, want: errBoom},
		{name: "panics", end: wherePanics(errBoom), want: errBoom},
		{name: "goexit", end: func(context.Context) (int, error) { runtime.Goexit(); return 0, nil }, want: bulkhead.ErrGoexit},
		{
			name: "waits and returns", held: 2,
			then: func(_ bulk, _ *bulkhead.Future[int], _ func(), first *bulkhead.Permit) { first.Release() },
		},
		{
			name: "full", held: 2,
			with: func(b bulk) bulk { return b.Waiting(0) },
			want: bulkhead.ErrFull,
		},
		{
			name: "times out", held: 2,
			with: func(b bulk) bulk { return b.Waiting(time.Second) },
			then: func(bulk, *bulkhead.Future[int], func(), *bulkhead.Permit) { time.Sleep(time.Second) },
			want: bulkhead.ErrFull,
		},
		{
			name: "too heavy",
			with: func(b bulk) bulk { return b.Weighing(3) },
			want: bulkhead.ErrTooHeavy,
		},
		{
			name: "made too heavy", held: 1,
			with: func(b bulk) bulk { return b.Weighing(2) },
			then: func(b bulk, _ *bulkhead.Future[int], _ func(), _ *bulkhead.Permit) { b.SetMaxConcurrent(1) },
			want: bulkhead.ErrTooHeavy,
		},
		{
			name: "closed", held: 2,
			then: func(b bulk, _ *bulkhead.Future[int], _ func(), _ *bulkhead.Permit) { b.Close() },
			want: bulkhead.ErrClosed,
		},
		{
			name: "context canceled", held: 2,
			then: func(_ bulk, _ *bulkhead.Future[int], cancel func(), _ *bulkhead.Permit) { cancel() },
			want: context.Canceled,
		},
		{
			name: "context canceled when granted", held: 2,
			then: func(_ bulk, _ *bulkhead.Future[int], cancel func(), first *bulkhead.Permit) {
				first.Release()
				cancel()
			},
			want: context.Canceled,
		},
		{
			name: "withdrawn", held: 2,
			then: func(_ bulk, f *bulkhead.Future[int], _ func(), _ *bulkhead.Permit) { f.Cancel() },
			want: context.Canceled,
		},
		{
			name: "withdrawn when granted", held: 2,
			then: func(_ bulk, f *bulkhead.Future[int], _ func(), first *bulkhead.Permit) { first.Release(); f.Cancel() },
			want: context.Canceled,
		},
		{
			name: "withdrawn before it starts",
			then: func(_ bulk, f *bulkhead.Future[int], _ func(), _ *bulkhead.Permit) { f.Cancel() },
			want: context.Canceled,
		},
		{
			name: "refused for its wait",
			with: func(b bulk) bulk { return b.Waiting(-1) },
			want: errAny,
		},
	}
	oneProc(t) // so that what happens upon a grant comes before the start
	for _, tt := range tests {
		for _, listener := range []event.Listener{{}, event.All(func(context.Context, event.Record) {})} {
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := bulkhead.MustNew[int](bulkhead.Config{
						Name: "db", MaxConcurrent: 2, MaxWait: bulkhead.Forever, Listener: listener,
					})
					var first *bulkhead.Permit
					if tt.held > 0 {
						first = hold(t, b, tt.held)
					}
					h := b
					if tt.with != nil {
						h = tt.with(b)
					}
					var inCtx, inFunc weak.Pointer[ballast]
					ask := func() (*bulkhead.Future[int], func()) {
						value, captured := new(ballast), new(ballast)
						inCtx, inFunc = weak.Make(value), weak.Make(captured)
						ctx, cancel := context.WithCancel(t.Context())
						return h.ExecuteAsync(context.WithValue(ctx, ballast{}, value), func(ctx context.Context) (int, error) {
							captured[0]++
							if tt.end != nil {
								return tt.end(ctx)
							}
							return 42, nil
						}), cancel
					}
					f, cancel := ask()
					defer cancel()
					if tt.then != nil {
						tt.then(b, f, cancel, first)
					}
					var err error
					if e := watch(func() { _, err = f.Get(t.Context()) }); e.panicked != nil {
						err = e.panicked.(error)
					}
					if !errors.Is(err, tt.want) && (tt.want != errAny || err == nil) {
						t.Errorf("Get = %v, want %v", err, tt.want)
					}
					synctest.Wait()
					runtime.GC()
					if inCtx.Value() != nil {
						t.Error("the context is kept alive")
					}
					if inFunc.Value() != nil {
						t.Error("the function is kept alive")
					}
					runtime.KeepAlive(f)
					runtime.KeepAlive(b)
				})
			})
		}
	}
}

// A request that was not granted lets go of its context as well.
func TestRefusedPendingPermitKeepsNothingAlive(t *testing.T) {
	for name, end := range map[string]func(p *bulkhead.PendingPermit, cancel func()){
		"context": func(_ *bulkhead.PendingPermit, cancel func()) { cancel() },
		"Cancel":  func(p *bulkhead.PendingPermit, _ func()) { p.Cancel() },
		"timeout": func(*bulkhead.PendingPermit, func()) { time.Sleep(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: time.Second})
				first := hold(t, b, 1)
				var inCtx weak.Pointer[ballast]
				p := func() *bulkhead.PendingPermit {
					value := new(ballast)
					inCtx = weak.Make(value)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					p := b.AcquireAsync(context.WithValue(ctx, ballast{}, value))
					end(p, cancel)
					return p
				}()
				if _, err := p.Wait(t.Context()); err == nil {
					t.Error("the request has a permit")
				}
				synctest.Wait()
				runtime.GC()
				if inCtx.Value() != nil {
					t.Error("the context is kept alive")
				}
				runtime.KeepAlive(p)
				first.Release()
				checkAtRest(t, b)
			})
		})
	}
}

// ballast is what shows whether something is collected.
type ballast [1024]byte

// errAny stands for an error that is no sentinel.
var errAny = errors.New("any")
