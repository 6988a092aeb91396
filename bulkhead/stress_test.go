package bulkhead_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// TestStress has many goroutines make calls that end in every way, of several
// weights, by every entry, while listeners come and go and one panics now and
// then. The oracle counts, inside the functions, the permits that they hold;
// and when all is over, the events must add up for every listener.
//
// It plays one round of some thousand calls, or as many as fit into STRESS,
// such as 1m.
func TestStress(t *testing.T) {
	stressRounds(t, stressRound)
}

func stressRound(t *testing.T, round uint64) {
	const limit = 6
	var told recorder
	var quiet atomic.Bool
	panicky := event.All(func(_ context.Context, e event.Record) {
		if !quiet.Load() && rand.IntN(20) == 0 {
			panic("listener")
		}
	})
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name:          "db",
		MaxConcurrent: limit,
		MaxWait:       200 * time.Microsecond,
		MaxQueue:      5,
		Listener:      event.Join(told.listener(), panicky),
	})

	var subscribers []*recorder
	stop := make(chan struct{})
	var comeAndGo sync.WaitGroup
	comeAndGo.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			r := new(recorder)
			subscribers = append(subscribers, r)
			unsubscribe := b.Subscribe(r.listener())
			b.SetMaxWait(100 * time.Microsecond)
			runtime.Gosched()
			b.SetMaxWait(200 * time.Microsecond)
			unsubscribe()
		}
	})

	var inside, calls, weight, ran atomic.Int64
	var workers sync.WaitGroup
	for i := range uint64(8) {
		random := rand.New(rand.NewPCG(i, round))
		workers.Go(func() {
			for range 300 {
				n, how := 1+random.Int64N(limit+1), random.IntN(8)
				h := b.Weighing(n)
				entry := entries[random.IntN(len(entries))]
				ctx, cancel := context.WithCancel(context.Background())
				switch random.IntN(5) {
				case 0:
					cancel()
				case 1:
					h = h.Waiting(0)
				case 2:
					time.AfterFunc(100*time.Microsecond, cancel)
				}
				calls.Add(1)
				weight.Add(n)
				watch(func() {
					err := entry.call(ctx, h, func(ctx context.Context) error {
						ran.Add(1)
						if sum := inside.Add(n); sum > limit {
							t.Errorf("conservation: functions that hold %d permits run at once, limit %d", sum, limit)
						}
						defer inside.Add(-n)
						runtime.Gosched()
						switch how {
						case 0:
							panic("boom")
						case 1:
							runtime.Goexit()
						case 2:
							return errBoom
						case 3:
							return ctx.Err()
						}
						return nil
					})
					if n > limit && !errors.Is(err, bulkhead.ErrTooHeavy) && !errors.Is(err, context.Canceled) {
						t.Errorf("%s of weight %d = %v, want ErrTooHeavy or canceled", entry.name, n, err)
					}
				})
				cancel()
			}
		})
	}
	workers.Wait()
	close(stop)
	comeAndGo.Wait()

	quiet.Store(true)
	if ran.Load() == 0 || len(subscribers) == 0 {
		t.Errorf("%d functions ran and %d listeners came: the test reaches nothing", ran.Load(), len(subscribers))
	}
	told.check(t, calls.Load(), weight.Load())
	for _, r := range subscribers {
		var calls, weight int64
		for _, e := range r.records {
			switch e.Kind {
			case event.KindPermitted, event.KindRejected, event.KindCanceled:
				calls, weight = calls+1, weight+e.Weight
			}
		}
		r.check(t, calls, weight)
	}
	checkAtRest(t, b)
}

// TestUnsubscribedListenerHearsOfNoLaterCall pits one goroutine that subscribes
// and unsubscribes against others that do the same.
func TestUnsubscribedListenerHearsOfNoLaterCall(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 100})
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 200 {
				// Calls of this goroutine alone carry this context.
				key := new(int)
				ctx := context.WithValue(t.Context(), key, true)
				told := 0
				unsubscribe := b.Subscribe(event.All(func(ctx context.Context, _ event.Record) {
					if ctx.Value(key) != nil {
						told++
					}
				}))
				b.Run(ctx, nop)
				if told != 2 {
					t.Errorf("subscribed, told %d events of a call, want 2", told)
				}
				unsubscribe()
				b.Run(ctx, nop)
				if told != 2 {
					t.Errorf("unsubscribed, told %d events more of a call, want none", told-2)
				}
			}
		})
	}
	workers.Wait()
	checkAtRest(t, b)
}
