package bulkhead_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// TestStressAsync mixes asynchronous calls, pending permits and blocking calls
// of all weights, which are canceled, time out, panic and exit, under a limit
// that changes. The oracle is the weight that functions and holders of permits
// count while they run; and when all is over, the events must add up for every
// listener, every permit must be back and every goroutine gone.
//
// It plays one round, fair and unfair, or as many as fit into STRESS, such as 1m.
func TestStressAsync(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	stressRounds(t, func(t *testing.T, round uint64) {
		for _, unfair := range []bool{false, true} {
			newAsyncStress(t, round, unfair).play()
			wantGoroutines(t, goroutines)
			if t.Failed() {
				t.Fatalf("in round %d, unfair: %v", round, unfair)
			}
		}
	})
}

type asyncStress struct {
	t     *testing.T
	round uint64
	b     *bulkhead.Bulkhead[int]
	told  recorder

	quiet                  atomic.Bool // then the bad listener behaves
	running, calls, weight atomic.Int64
	ended                  [5]atomic.Int64 // how often fn came to each end
	open                   sync.WaitGroup  // calls that are not over
}

// The limit varies between half of this and this.
const stressLimit = 8

func newAsyncStress(t *testing.T, round uint64, unfair bool) *asyncStress {
	s := &asyncStress{t: t, round: round}
	misbehaves := event.All(func(context.Context, event.Record) {
		if s.quiet.Load() {
			return
		}
		switch rand.IntN(60) {
		case 0:
			panic("listener")
		case 1:
			runtime.Goexit()
		}
	})
	s.b = bulkhead.MustNew[int](bulkhead.Config{
		Name:          "db",
		MaxConcurrent: stressLimit,
		MaxWait:       300 * time.Microsecond,
		MaxQueue:      30,
		Unfair:        unfair,
		Listener:      event.Join(s.told.listener(), misbehaves),
	})
	return s
}

func (s *asyncStress) play() {
	stop := make(chan struct{})
	var others sync.WaitGroup
	var subscribers []*recorder
	others.Go(func() {
		for i := int64(0); ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			r := new(recorder)
			subscribers = append(subscribers, r)
			unsubscribe := s.b.Subscribe(r.listener())
			watch(func() { s.b.SetMaxConcurrent(stressLimit/2 + i%(stressLimit/2+1)) })
			time.Sleep(50 * time.Microsecond)
			unsubscribe()
		}
	})
	var workers sync.WaitGroup
	for i := range uint64(6) {
		random := rand.New(rand.NewPCG(i, s.round))
		workers.Go(func() {
			for range 500 {
				s.call(random)
			}
		})
	}
	workers.Wait()
	s.open.Wait()
	close(stop)
	others.Wait()
	s.quiet.Store(true)

	sum := s.told.check(s.t, s.calls.Load(), s.weight.Load())
	for k := event.KindPermitted; k <= event.KindReleased; k++ {
		if sum.calls[k] == 0 {
			s.t.Errorf("no call was %v: the test does not reach that", k)
		}
	}
	for how := range s.ended {
		if s.ended[how].Load() == 0 {
			s.t.Errorf("no function ended in way %d: the test does not reach that", how)
		}
	}
	for _, r := range subscribers {
		var calls, weight int64
		for _, e := range r.records {
			switch e.Kind {
			case event.KindPermitted, event.KindRejected, event.KindCanceled:
				calls, weight = calls+1, weight+e.Weight
			}
		}
		r.check(s.t, calls, weight)
	}
	s.b.SetMaxConcurrent(stressLimit)
	checkAtRest(s.t, s.b)
}

// call makes one call of some kind and does something to it.
func (s *asyncStress) call(random *rand.Rand) {
	n, how := 1+random.Int64N(stressLimit/2), random.IntN(len(s.ended))
	h := s.b.Weighing(n)
	ctx, cancel := context.WithCancel(context.Background())
	giveUp := time.Duration(random.IntN(400)) * time.Microsecond
	switch random.IntN(6) {
	case 0:
		cancel()
	case 1:
		h = h.Waiting(0)
	case 2:
		h = h.Waiting(bulkhead.Forever)
	case 3:
		time.AfterFunc(giveUp, cancel)
	}
	s.calls.Add(1)
	s.weight.Add(n)
	s.open.Add(1)
	switch random.IntN(5) {
	case 0: // nobody wants the result
		f := h.ExecuteAsync(ctx, s.work(n, how))
		context.AfterFunc(ctx, func() { s.collect(f) })
		time.AfterFunc(time.Millisecond, cancel)
	case 1:
		f := bulkhead.Go(ctx, h, s.work(n, how))
		if random.IntN(2) == 0 {
			runtime.Gosched()
		}
		f.Cancel()
		s.collect(f)
		cancel()
	case 2:
		f := h.ExecuteAsync(ctx, s.work(n, how))
		go func() {
			short, stop := context.WithTimeout(context.Background(), giveUp)
			defer stop()
			watch(func() { f.Get(short) })
			s.collect(f)
			cancel()
		}()
	case 3:
		p := h.AcquireAsync(ctx)
		if random.IntN(4) == 0 {
			time.AfterFunc(giveUp, func() { p.Cancel() })
		}
		go s.hold(ctx, cancel, p, n, how)
	default:
		watch(func() { h.Execute(ctx, s.work(n, how)) })
		s.open.Done()
		cancel()
	}
}

// collect waits until f is over.
func (s *asyncStress) collect(f *bulkhead.Future[int]) {
	defer s.open.Done()
	watch(func() { f.Get(context.Background()) })
}

// hold collects a permit, in two goroutines, and works with it.
func (s *asyncStress) hold(ctx context.Context, cancel func(), p *bulkhead.PendingPermit, n int64, how int) {
	defer s.open.Done()
	defer cancel()
	other := make(chan struct{})
	go func() {
		defer close(other)
		watch(func() { p.Wait(ctx) })
	}()
	watch(func() {
		permit, err := p.Wait(context.Background())
		if err != nil {
			return
		}
		defer permit.Release()
		_, err = s.work(n, how)(ctx)
		permit.Complete(err)
	})
	<-other
}

// work returns a function that holds n permits and ends in one of five ways.
func (s *asyncStress) work(n int64, how int) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		if sum := s.running.Add(n); sum > stressLimit {
			s.t.Errorf("conservation: %d permits are held at once, limit %d", sum, stressLimit)
		}
		defer s.running.Add(-n)
		s.ended[how].Add(1)
		runtime.Gosched()
		switch how {
		case 0:
			panic("boom")
		case 1:
			runtime.Goexit()
		case 2:
			return 0, errBoom
		case 3:
			return 0, ctx.Err()
		}
		return 42, nil
	}
}
