package bulkhead_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// What others reported of waiters that stayed behind, played for one key while
// it is in use all the time.

func TestKeyedTimedOutCallsLeaveTheirKeysQueue(t *testing.T) {
	// https://github.com/thomhurst/AsyncSemaphore/issues/566
	// https://github.com/nozzlegear/ShopifySharp/issues/1055
	synctest.Test(t, func(t *testing.T) {
		const rounds, crowd = 20, 500
		counters := event.NewCounters()
		k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{
			Name: "tenants", MaxConcurrent: 1, MaxWait: time.Millisecond, MaxQueue: crowd, Listener: counters.Listener(),
		}, nil)
		p, _ := k.Acquire(t.Context(), "a")
		for range rounds {
			var calls sync.WaitGroup
			for range crowd {
				calls.Go(func() { k.Run(t.Context(), "a", nop) })
			}
			calls.Wait()
		}
		// Each found room in a queue of as many: nobody of the last round was there.
		got := counters.Snapshot().Rejected
		if got[event.TimedOut].Calls != rounds*crowd || got[event.QueueFull].Calls != 0 {
			t.Errorf("%d timed out and %d found the queue full, want %d and 0",
				got[event.TimedOut].Calls, got[event.QueueFull].Calls, rounds*crowd)
		}
		if k.Len() != 1 {
			t.Errorf("%d keys in use, want 1", k.Len())
		}
		p.Release()
		checkNoKeys(t, k)
	})
}

func TestKeyedForgetsTheContextsOfCalls(t *testing.T) {
	// https://github.com/golang/go/issues/33850
	type key struct{}
	type payload struct{ _ [1 << 10]byte }
	k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{
		Name: "tenants", MaxConcurrent: 1, MaxWait: bulkhead.Forever,
	}, nil)
	var values []weak.Pointer[payload]
	withValue := func() (context.Context, context.CancelFunc) {
		v := new(payload)
		values = append(values, weak.Make(v))
		return context.WithCancel(context.WithValue(t.Context(), key{}, v))
	}
	p, _ := k.Acquire(t.Context(), "a") // the key stays in use
	func() {
		ctx, cancel := withValue()
		timeout, stop := context.WithTimeout(ctx, time.Millisecond)
		if err := k.Run(timeout, "a", nop); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("canceled in the queue: %v", err)
		}
		stop()
		cancel()
	}()
	func() {
		ctx, cancel := withValue()
		defer cancel()
		if err := k.Run(ctx, "b", nop); err != nil {
			t.Errorf("another key: %v", err)
		}
	}()
	func() {
		ctx, cancel := withValue()
		defer cancel()
		time.AfterFunc(time.Millisecond, p.Release)
		q, err := k.Acquire(ctx, "a")
		if err != nil {
			t.Errorf("granted in the queue: %v", err)
		}
		q.Release()
		p, _ = k.Acquire(t.Context(), "a")
	}()
	for range 3 {
		runtime.GC()
	}
	for i, v := range values {
		if v.Value() != nil {
			t.Errorf("the context of call %d is reachable after its end", i)
		}
	}
	p.Release()
	checkNoKeys(t, k)
}

func TestKeyedCanceledCallsLetTheNextOneRun(t *testing.T) {
	// https://github.com/sindresorhus/p-queue/issues/168
	// https://github.com/connor4312/cockatiel/issues/112
	// https://github.com/connor4312/cockatiel/issues/114
	for _, lingers := range []time.Duration{0, time.Second} { // once its context has ended
		synctest.Test(t, func(t *testing.T) {
			k, told := newKeyed(bulkhead.Config{MaxConcurrent: 1, MaxQueue: 2, MaxWait: bulkhead.Forever}, nil)
			ctx, cancel := context.WithCancel(t.Context())
			errs := make(chan error, 2)
			go func() { // A
				errs <- k.Run(ctx, "a", func(ctx context.Context) error {
					<-ctx.Done()
					time.Sleep(lingers)
					return ctx.Err()
				})
			}()
			synctest.Wait()
			go func() { // B
				errs <- k.Run(ctx, "a", func(context.Context) error { t.Error("B ran"); return nil })
			}()
			synctest.Wait()
			c := make(chan error, 1)
			go func() { c <- k.Run(t.Context(), "a", nop) }()
			synctest.Wait()
			cancel()
			for range 2 {
				if err := <-errs; !errors.Is(err, context.Canceled) {
					t.Errorf("a canceled call = %v, want context.Canceled", err)
				}
			}
			if err := <-c; err != nil {
				t.Errorf("C = %v, want nil", err)
			}
			got := told.check(t, 3, 3).calls
			if got[event.KindReleased] != 1 || got[event.KindCanceled] != 1 || got[event.KindFinished] != 1 {
				t.Errorf("told %v, want one each released, canceled and finished", got)
			}
			checkNoKeys(t, k)
		})
	}
}
