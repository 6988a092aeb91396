package bulkhead_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// TestStressKeyed has many goroutines make calls of few keys that end in every
// way, by every entry, so that the first and the last use of a key meet all the
// time. The oracle counts, inside the functions, how many run for each key; if
// there were ever two limits for one, they would be too many.
//
// It plays one round of some thousand calls, or as many as fit into STRESS,
// such as 1m.
func TestStressKeyed(t *testing.T) {
	stressRounds(t, stressKeyedRound)
}

func stressKeyedRound(t *testing.T, round uint64) {
	const keys = 3
	var told recorder
	var asked, calls, ran atomic.Int64
	var inside [keys]atomic.Int64
	limitOf := func(key int) int64 { return int64(key + 1) }
	k := bulkhead.MustNewKeyed[int, int](bulkhead.Config{
		Name:     "tenants",
		MaxWait:  50 * time.Microsecond,
		MaxQueue: 3,
		Listener: event.Join(told.listener(), event.All(func(context.Context, event.Record) {
			if rand.IntN(30) == 0 {
				panic("listener")
			}
		})),
	}, func(key int) int64 {
		asked.Add(1)
		switch rand.IntN(40) {
		case 0:
			panic("limit")
		case 1:
			return 0
		}
		return limitOf(key)
	})
	var workers sync.WaitGroup
	for i := range uint64(8) {
		random := rand.New(rand.NewPCG(i, round))
		workers.Go(func() {
			for range 400 {
				key, how := random.IntN(keys), random.IntN(12)
				ctx, cancel := context.WithCancel(context.Background())
				switch random.IntN(5) {
				case 0:
					cancel()
				case 1:
					time.AfterFunc(50*time.Microsecond, cancel)
				}
				fn := func(ctx context.Context) (int, error) {
					ran.Add(1)
					if n := inside[key].Add(1); n > limitOf(key) {
						t.Errorf("conservation: %d functions of key %d run at once, limit %d", n, key, limitOf(key))
					}
					defer inside[key].Add(-1)
					if how > 6 {
						runtime.Gosched()
					}
					switch how {
					case 0:
						panic("boom")
					case 1:
						runtime.Goexit()
					case 2:
						return 0, errBoom
					}
					return 0, ctx.Err()
				}
				watch(func() {
					switch random.IntN(3) {
					case 0:
						k.Execute(ctx, key, fn)
					case 1:
						k.Run(ctx, key, func(ctx context.Context) error { _, err := fn(ctx); return err })
					case 2:
						p, err := k.Acquire(ctx, key)
						defer p.Panicked() // unless it has ended
						if err == nil {
							_, err = fn(ctx)
							p.Complete(err)
						}
					}
				})
				cancel()
			}
		})
	}
	workers.Wait()

	for _, e := range told.records {
		switch e.Kind {
		case event.KindPermitted, event.KindRejected, event.KindCanceled:
			calls.Add(1)
		}
	}
	got := told.check(t, calls.Load(), calls.Load()).calls
	for kind := event.KindPermitted; kind <= event.KindReleased; kind++ {
		if got[kind] == 0 {
			t.Errorf("no call was %v: the test does not reach that", kind)
		}
	}
	if ran.Load() == 0 || asked.Load() < 100 {
		t.Errorf("%d functions ran, and a limit was asked for %d times: keys hardly come and go", ran.Load(), asked.Load())
	}
	checkNoKeys(t, k)
}

// TestStressKeyedClose closes while keys come and go: whoever calls after Close
// has returned is refused, whatever its key.
func TestStressKeyedClose(t *testing.T) {
	for range 100 {
		k := bulkhead.MustNewKeyed[int, int](bulkhead.Config{
			Name: "tenants", MaxConcurrent: 1, MaxWait: bulkhead.Forever,
		}, nil)
		var closed atomic.Bool
		var workers sync.WaitGroup
		for i := range 4 {
			workers.Go(func() {
				for n := i; ; n++ {
					late := closed.Load()
					err := k.Run(t.Context(), n%7, func(context.Context) error { runtime.Gosched(); return nil })
					if late && !errors.Is(err, bulkhead.ErrClosed) {
						t.Errorf("after Close, Run of key %d = %v, want ErrClosed", n%7, err)
					}
					if late {
						return
					}
					if err != nil && !errors.Is(err, bulkhead.ErrClosed) {
						t.Errorf("Run = %v, want nil or ErrClosed", err)
					}
				}
			})
		}
		for range 2 { // at once
			workers.Go(func() {
				k.Close()
				closed.Store(true)
			})
		}
		workers.Wait()
		if err := k.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown = %v, want nil", err)
		}
		checkNoKeys(t, k)
	}
}

// Of two Closes at once, neither returns before all keys are closed.
func TestStressKeyedCloseTwice(t *testing.T) {
	const keys = 500
	for range 20 {
		k := bulkhead.MustNewKeyed[int, int](bulkhead.Config{Name: "tenants", MaxConcurrent: 2}, nil)
		var permits [keys]*bulkhead.Permit
		for i := range permits {
			permits[i], _ = k.Acquire(t.Context(), i)
		}
		var start, closers sync.WaitGroup
		start.Add(2)
		for range 2 {
			closers.Go(func() {
				start.Done()
				start.Wait()
				k.Close()
				open := 0
				for i := range keys {
					if err := k.Run(t.Context(), i, nop); !errors.Is(err, bulkhead.ErrClosed) {
						open++
					}
				}
				if open > 0 {
					t.Errorf("after Close, %d keys are open", open)
				}
			})
		}
		closers.Wait()
		for _, p := range permits {
			p.Release()
		}
		checkNoKeys(t, k)
	}
}

func TestStressKeyOnlyEverGoneWhenUnused(t *testing.T) {
	// Idle partitions were disposed of while a caller was acquiring them.
	// https://github.com/dotnet/aspnetcore/issues/66434
	// https://github.com/dotnet/runtime/issues/99865
	before := runtime.NumGoroutine()
	var asked, inside atomic.Int64
	k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{Name: "tenants", MaxWait: bulkhead.Forever}, func(string) int64 {
		asked.Add(1)
		return 1
	})
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() {
			for range 5000 {
				if err := k.Run(t.Context(), "hot", func(context.Context) error {
					if n := inside.Add(1); n > 1 {
						t.Errorf("%d functions of one key run at once, limit 1", n)
					}
					inside.Add(-1)
					return nil
				}); err != nil {
					t.Errorf("Run = %v, want nil", err)
				}
			}
		})
	}
	workers.Wait()
	if asked.Load() < 2 {
		t.Errorf("the limit was asked for %d times: the key never goes", asked.Load())
	}
	checkNoKeys(t, k)
	wantGoroutines(t, before)
}

func TestKeyIsGoneWhenTheNextCallComes(t *testing.T) {
	// The same on fake time: each call comes at the moment at which the last one
	// ends.
	synctest.Test(t, func(t *testing.T) {
		k, told := newKeyed(bulkhead.Config{MaxConcurrent: 1, MaxWait: 1}, nil)
		var workers sync.WaitGroup
		for i := range time.Duration(2) {
			workers.Go(func() {
				time.Sleep(i * time.Second)
				for range 500 {
					if err := k.Run(t.Context(), "hot", func(context.Context) error {
						time.Sleep(time.Second)
						return nil
					}); err != nil {
						t.Errorf("Run = %v, want nil", err)
					}
					time.Sleep(time.Second)
				}
			})
		}
		workers.Wait()
		told.check(t, 1000, 1000)
		checkNoKeys(t, k)
	})
}
