package bulkhead_test

import (
	"context"
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

// numbered is the key of a call's number in its context.
type numbered struct{}

// hearing is what a listener heard of numbered calls.
type hearing struct {
	mu    sync.Mutex
	heard map[int64][]event.Record
}

func (h *hearing) listener() event.Listener {
	return event.All(func(ctx context.Context, r event.Record) {
		h.mu.Lock()
		defer h.mu.Unlock()
		n := ctx.Value(numbered{}).(int64)
		h.heard[n] = append(h.heard[n], r)
	})
}

// check fails t unless the listener heard one start of each call that it heard
// of, and then, if that was permitted, one end of the same weight.
func (h *hearing) check(t *testing.T) {
	t.Helper()
	for n, records := range h.heard {
		want := 1
		if records[0].Kind == event.KindPermitted {
			want = 2
		}
		ok := len(records) == want
		if ok && want == 2 {
			end := records[1]
			ok = (end.Kind == event.KindFinished || end.Kind == event.KindReleased) && end.Weight == records[0].Weight
		} else if ok {
			ok = records[0].Kind == event.KindRejected || records[0].Kind == event.KindCanceled
		}
		if !ok {
			t.Errorf("call %d was told as %+v, want one start and one end", n, records)
		}
	}
}

// TestStressSubscribe has listeners come and go while numbered calls of every
// entry are made. Each must hear of every call that started after Subscribe
// returned and ended before unsubscribe was called, and of none that started
// after unsubscribe returned; and what it hears must add up for each call.
//
// It plays one round of some thousand calls, or as many as fit into STRESS,
// such as 1m.
func TestStressSubscribe(t *testing.T) {
	stressRounds(t, stressSubscribeRound)
}

func stressSubscribeRound(t *testing.T, round uint64) {
	const calls = 4000
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name: "db", MaxConcurrent: 3, MaxWait: 100 * time.Microsecond, MaxQueue: 3,
	})
	var started atomic.Int64 // the number of the last call
	var over [calls + 1]atomic.Bool
	var callers, listeners sync.WaitGroup
	for i := range uint64(4) {
		random := rand.New(rand.NewPCG(i, round))
		callers.Go(func() {
			for {
				n := started.Add(1)
				if n > calls {
					return
				}
				ctx, cancel := context.WithCancel(context.WithValue(context.Background(), numbered{}, n))
				how := random.IntN(8)
				if how == 0 {
					cancel()
				}
				entry := entries[random.IntN(len(entries))]
				watch(func() {
					entry.call(ctx, b.Weighing(1+random.Int64N(4)), func(context.Context) error {
						runtime.Gosched()
						switch how {
						case 1:
							panic("boom")
						case 2:
							runtime.Goexit()
						case 3:
							cancel()
						}
						return ctx.Err()
					})
				})
				cancel()
				over[n].Store(true)
			}
		})
	}
	var heard, missable atomic.Int64
	for range 2 {
		listeners.Go(func() {
			for started.Load() < calls {
				h := &hearing{heard: map[int64][]event.Record{}}
				unsubscribe := b.Subscribe(h.listener())
				from := started.Load()
				for started.Load() < min(from+10, calls) {
					runtime.Gosched()
				}
				var must []int64
				for n := from + 1; n <= min(started.Load(), calls); n++ {
					if over[n].Load() {
						must = append(must, n)
					}
				}
				unsubscribe()
				until := started.Load()
				for started.Load() < min(until+10, calls) {
					runtime.Gosched()
				}
				missable.Add(int64(len(must)))
				listeners.Go(func() {
					callers.Wait() // so that all is told
					h.check(t)
					heard.Add(int64(len(h.heard)))
					for _, n := range must {
						if len(h.heard[n]) == 0 {
							t.Errorf("call %d, made while the listener was subscribed, was not told", n)
						}
					}
					for n := range h.heard {
						if n > until {
							t.Errorf("call %d, made after unsubscribe returned at %d, was told", n, until)
						}
					}
				})
			}
		})
	}
	callers.Wait()
	listeners.Wait()
	if heard.Load() == 0 || missable.Load() == 0 {
		t.Errorf("listeners heard of %d calls and could miss %d: the test reaches nothing", heard.Load(), missable.Load())
	}
	checkAtRest(t, b)
}

// A listener that blocks delays its own caller, and before the function that
// caller holds its permit. Nothing else stands still.
func TestListenerThatBlocksDelaysItsCallerOnly(t *testing.T) {
	for kind := event.KindPermitted; kind <= event.KindReleased; kind++ {
		synctest.Test(t, func(t *testing.T) {
			goOn := make(chan bool)
			first := true
			var told recorder
			b := bulkhead.MustNew[int](bulkhead.Config{
				Name: "db", MaxConcurrent: 2,
				Listener: event.Join(told.listener(), event.All(func(_ context.Context, e event.Record) {
					if e.Kind == kind && first {
						first = false
						<-goOn
					}
				})),
			})
			ctx := t.Context()
			var p *bulkhead.Permit
			var blocked sync.WaitGroup
			switch kind {
			case event.KindRejected:
				p = hold(t, b, 2)
				blocked.Go(func() { b.Run(ctx, nop) })
			case event.KindCanceled:
				done, cancel := context.WithCancel(ctx)
				cancel()
				blocked.Go(func() { b.Run(done, nop) })
			case event.KindReleased:
				p = hold(t, b, 2)
				blocked.Go(p.Release)
			default:
				blocked.Go(func() { b.Run(ctx, nop) })
			}
			synctest.Wait()
			if first {
				t.Fatalf("%v was not told", kind)
			}
			p.Release()
			want := int64(0)
			if kind == event.KindPermitted {
				want = 1
			}
			if got := b.Stats().Active; got != want {
				t.Errorf("while a listener blocks in %v, %d permits are in flight, want %d", kind, got, want)
			}
			if err := b.Run(ctx, nop); err != nil {
				t.Errorf("while a listener blocks in %v, Run = %v, want nil", kind, err)
			}
			b.Subscribe(told.listener())() // comes and goes
			b.SetMaxConcurrent(3)
			close(goOn)
			blocked.Wait()
			checkAtRest(t, b)
		})
	}
}
