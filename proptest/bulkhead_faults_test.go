package proptest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/turnstile-go/turnstile/bulkhead"
	events "github.com/turnstile-go/turnstile/event"
)

// brokenBulkheads are bulkheads with one fault each, and the invariant that it
// breaks. They are ours, called in a wrong way or heard wrongly.
var brokenBulkheads = []struct {
	fault     string
	invariant string
	breaks    func(*ways)
}{
	{"a panic keeps the permit", releaseOnce, func(w *ways) {
		w.execute = func(ctx context.Context, b *bulkhead.Bulkhead[int], _ verb, fn function) (int, error) {
			p, err := b.Acquire(ctx)
			if err != nil {
				return 0, err
			}
			v, err := fn(ctx)
			p.Complete(err)
			return v, err
		}
	}},
	{"Goexit keeps the permit", releaseOnce, func(w *ways) {
		w.execute = func(ctx context.Context, b *bulkhead.Bulkhead[int], _ verb, fn function) (v int, err error) {
			p, err := b.Acquire(ctx)
			if err != nil {
				return 0, err
			}
			defer func() {
				if r := recover(); r != nil {
					p.Release()
					panic(r)
				}
			}()
			v, err = fn(ctx)
			p.Complete(err)
			return v, err
		}
	}},
	{"Cancel frees the permit while the function runs", releaseOnce, func(w *ways) {
		w.executeAsync = func(ctx context.Context, b *bulkhead.Bulkhead[int], _ verb, fn function) future {
			return newEarly(ctx, b, fn, true)
		}
	}},
	{"a Get that gives up frees the permit while the function runs", releaseOnce, func(w *ways) {
		w.executeAsync = func(ctx context.Context, b *bulkhead.Bulkhead[int], _ verb, fn function) future {
			return newEarly(ctx, b, fn, false)
		}
	}},
	{"a second Release frees the permit of another", releaseOnce, func(w *ways) {
		acquire := w.acquire
		var last atomic.Pointer[twice]
		w.acquire = func(ctx context.Context, b *bulkhead.Bulkhead[int]) (permit, error) {
			p, err := acquire(ctx, b)
			if err != nil {
				return nil, err
			}
			t := &twice{permit: p, other: last.Load()}
			last.Store(t)
			return t, nil
		}
	}},
	{"a rejected call runs", singleOutcome, func(w *ways) {
		execute := w.execute
		w.execute = func(ctx context.Context, b *bulkhead.Bulkhead[int], v verb, fn function) (int, error) {
			r, err := execute(ctx, b, v, fn)
			if errors.Is(err, bulkhead.ErrFull) {
				return fn(ctx)
			}
			return r, err
		}
	}},
	{"a call that should wait runs", conservation, func(w *ways) {
		execute := w.execute
		w.execute = func(ctx context.Context, b *bulkhead.Bulkhead[int], v verb, fn function) (int, error) {
			if s := b.Stats(); s.Available == 0 && b.Config().MaxWait > 0 {
				return fn(ctx)
			}
			return execute(ctx, b, v, fn)
		}
	}},
	{"a light call passes a heavy one", noBarging, func(w *ways) {
		execute := w.execute
		w.execute = func(ctx context.Context, b *bulkhead.Bulkhead[int], v verb, fn function) (int, error) {
			if s := b.Stats(); s.Available > 0 && s.Waiting > 0 {
				return fn(ctx)
			}
			return execute(ctx, b, v, fn)
		}
	}},
	{"a canceled call runs", singleOutcome, func(w *ways) {
		executeAsync := w.executeAsync
		w.executeAsync = func(ctx context.Context, b *bulkhead.Bulkhead[int], v verb, fn function) future {
			return cancelsNothing{executeAsync(ctx, b, v, fn)}
		}
	}},
	{"errors come wrapped", singleOutcome, func(w *ways) {
		execute := w.execute
		w.execute = func(ctx context.Context, b *bulkhead.Bulkhead[int], v verb, fn function) (int, error) {
			r, err := execute(ctx, b, v, fn)
			if err != nil {
				err = fmt.Errorf("call: %w", err)
			}
			return r, err
		}
	}},
	{"a panic is recovered", singleOutcome, func(w *ways) {
		execute := w.execute
		w.execute = func(ctx context.Context, b *bulkhead.Bulkhead[int], v verb, fn function) (_ int, err error) {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("panic: %v", r)
				}
			}()
			return execute(ctx, b, v, fn)
		}
	}},
	{"shrinking waits for the surplus", shrinkDebt, func(w *ways) {
		resize := w.resize
		w.resize = func(b *bulkhead.Bulkhead[int], n int64) error {
			if n < b.Stats().Active {
				_ = b.Drain(context.Background())
			}
			return resize(b, n)
		}
	}},
	{"Drain returns while calls run", conservation, func(w *ways) {
		w.drain = func(context.Context, *bulkhead.Bulkhead[int]) error { return nil }
	}},
	{"a call leaves a goroutine", delivery, func(w *ways) {
		acquire := w.acquire
		w.acquire = func(ctx context.Context, b *bulkhead.Bulkhead[int]) (permit, error) {
			go func() { select {} }()
			return acquire(ctx, b)
		}
	}},
	{"Finished is told twice", delivery, func(w *ways) {
		w.listen = func(l events.Listener) events.Listener {
			l.Finished = events.Join(l, l).Finished
			return l
		}
	}},
	{"Released is told as Finished", delivery, func(w *ways) {
		w.listen = func(l events.Listener) events.Listener {
			finished := l.Finished
			l.Released = func(ctx context.Context, e events.Released) {
				finished(ctx, events.Finished{
					Time: e.Time, Name: e.Name, Weight: e.Weight, Active: e.Active, Elapsed: e.Elapsed,
					Outcome: events.Failed, Err: e.Err,
				})
			}
			return l
		}
	}},
	{"any error like the context's is told as Released", delivery, func(w *ways) {
		w.listen = func(l events.Listener) events.Listener {
			finished, released := l.Finished, l.Released
			l.Finished = func(ctx context.Context, e events.Finished) {
				if !errors.Is(e.Err, context.Canceled) {
					finished(ctx, e)
					return
				}
				released(ctx, events.Released{
					Time: e.Time, Name: e.Name, Weight: e.Weight, Active: e.Active, Elapsed: e.Elapsed, Err: e.Err,
				})
			}
			return l
		}
	}},
	{"a closed bulkhead's rejections are told as Canceled", delivery, func(w *ways) {
		w.listen = func(l events.Listener) events.Listener {
			rejected, canceled := l.Rejected, l.Canceled
			l.Rejected = func(ctx context.Context, e events.Rejected) {
				if e.Reason != events.Closed {
					rejected(ctx, e)
					return
				}
				canceled(ctx, events.Canceled{
					Time: e.Time, Name: e.Name, Weight: e.Weight, Waited: e.Waited, Err: context.Canceled,
				})
			}
			return l
		}
	}},
	{"a failed TryAcquire is not told", delivery, func(w *ways) {
		w.listen = func(l events.Listener) events.Listener {
			rejected := l.Rejected
			l.Rejected = func(ctx context.Context, e events.Rejected) {
				if ctx != context.Background() {
					rejected(ctx, e)
				}
			}
			return l
		}
	}},
	{"the wait of a permitted call is not told", delivery, func(w *ways) {
		w.listen = func(l events.Listener) events.Listener {
			permitted := l.Permitted
			l.Permitted = func(ctx context.Context, e events.Permitted) {
				e.Waited = 0
				permitted(ctx, e)
			}
			return l
		}
	}},
	{"unsubscribe does nothing", delivery, func(w *ways) {
		w.unsubscribe = func(func()) {}
	}},
}

// early is an asynchronous call whose permit is freed when somebody cancels it, or
// else when somebody no longer waits for it.
type early struct {
	*bulkhead.PendingPermit
	onCancel bool
	over     chan struct{}
	value    int
	err      error
}

func newEarly(ctx context.Context, b *bulkhead.Bulkhead[int], fn function, onCancel bool) future {
	f := &early{PendingPermit: b.AcquireAsync(ctx), onCancel: onCancel, over: make(chan struct{})}
	go func() {
		defer close(f.over)
		defer func() { _ = recover() }()
		p, err := f.Wait(context.Background())
		defer p.Release()
		if f.err = err; err == nil {
			f.value, f.err = fn(ctx)
			p.Complete(f.err)
		}
	}()
	return f
}

func (f *early) Cancel() bool {
	canceled := f.PendingPermit.Cancel()
	if !canceled && f.onCancel {
		f.free()
	}
	return canceled
}

func (f *early) Get(ctx context.Context) (int, error) {
	select {
	case <-f.over:
		return f.value, f.err
	case <-ctx.Done():
	}
	if !f.onCancel {
		f.free()
	}
	return 0, ctx.Err()
}

func (f *early) free() {
	if p, err := f.Permit(); err == nil {
		p.Release()
	}
}

// twice is a permit whose second Release counts.
type twice struct {
	permit
	other *twice
	ended atomic.Bool
}

func (p *twice) Release() {
	if p.ended.Swap(true) && p.other != nil {
		p.other.Release()
	}
	p.permit.Release()
}

// cancelsNothing is a future that only says that it was canceled.
type cancelsNothing struct{ future }

func (cancelsNothing) Cancel() bool { return true }

// TestBrokenBulkheads shows that each fault is found, as the invariant that it
// breaks, and shrunk.
func TestBrokenBulkheads(t *testing.T) {
	for _, test := range brokenBulkheads {
		t.Run(test.fault, func(t *testing.T) {
			c := &callProperty{t: t, only: test.invariant, ways: func() ways {
				w := ours
				test.breaks(&w)
				return w
			}}
			c.find()
			switch v := c.found; {
			case v == nil:
				t.Errorf("no violation of %q found", test.invariant)
			case v.steps > 10:
				t.Errorf("%v\n%d steps, want at most 10:\n%s", v, v.steps, v.code)
			default:
				t.Logf("%v\n%s", v, v.code)
			}
		})
	}
}

// find checks with the same scripts each time, and without failing the test.
func (c *callProperty) find() {
	for name, value := range map[string]string{
		"rapid.checks": "20000", "rapid.seed": "1", "rapid.nofailfile": "true", "rapid.shrinktime": "60s",
	} {
		old := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			c.t.Fatal(err)
		}
		defer flag.Set(name, old)
	}
	over := make(chan struct{})
	go func() { // which rapid ends with FailNow
		defer close(over)
		rapid.Check(&silent{name: c.t.Name()}, c.check)
	}()
	<-over
}
