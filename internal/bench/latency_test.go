package bench

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A door is what lets callers through some at a time: a limiter, or a mutex.
type door interface {
	holder
	Acquire(ctx context.Context, n int64) error
}

// mutex is a sync.Mutex as a door.
type mutex struct{ m sync.Mutex }

func (m *mutex) Acquire(context.Context, int64) error { m.m.Lock(); return nil }

func (m *mutex) TryAcquire(int64) bool { return m.m.TryLock() }

func (m *mutex) Release(int64) { m.m.Unlock() }

type doorFunc = func(limit int64) door

// ours are our two kinds of semaphore.
var ours = []contender[doorFunc]{
	{"turnstile", func(limit int64) door { return newTurnstile(limit) }},
	{"unfair", func(limit int64) door { return newUnfair(limit) }},
}

// BenchmarkLongestWait is Saturated with an eye on each wait, which costs time of
// its own: longest-ns is that of the request that waited longest. It begins when
// there is a queue, and the first wait of a worker, which is for that, does not
// count.
func BenchmarkLongestWait(b *testing.B) {
	one := slices.Concat(ours, []contender[doorFunc]{{"mutex", func(int64) door { return new(mutex) }}})
	for _, row := range []struct {
		limit int64
		doors []contender[doorFunc]
	}{{busyLimit, ours}, {1, one}} {
		for _, workers := range []int{8, 16, 64, 1024} {
			b.Run(fmt.Sprintf("limit=%d/workers=%d", row.limit, workers), func(b *testing.B) {
				run(b, row.doors, func(b *testing.B, newDoor doorFunc) {
					longestWait(b, newDoor(row.limit), int(row.limit), workers)
				})
			})
		}
	}
}

func longestWait(b *testing.B, d door, limit, workers int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	each := func() context.Context { return ctx }
	var begun atomic.Bool
	var longest atomic.Int64
	start := func() {
		begun.Store(true)
		b.ResetTimer()
	}
	err := queue(b.N, workers, d, limit, each, start, func(ctx context.Context) error {
		counts, asked := begun.Load(), time.Now()
		if err := d.Acquire(ctx, 1); err != nil {
			return err
		}
		waited := int64(time.Since(asked))
		work()
		d.Release(1)
		for counts {
			most := longest.Load()
			if waited <= most || longest.CompareAndSwap(most, waited) {
				break
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(longest.Load()), "longest-ns")
}

// BenchmarkHeavy is a request for all permits in a flood of requests for one,
// whose holders yield the processor, as in Waiting. Time per operation is how
// long it waits, on average, beyond the moment at which it could have had them at
// the earliest; p99-ns and longest-ns are how long at worst. In order, that is for
// everybody who came before it.
func BenchmarkHeavy(b *testing.B) {
	for _, workers := range []int{16, 64} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			run(b, ours, func(b *testing.B, newDoor doorFunc) {
				heavy(b, &flood{door: newDoor(busyLimit), limit: busyLimit, hold: runtime.Gosched}, workers)
			})
		})
	}
}

func heavy(b *testing.B, f *flood, workers int) {
	stop := f.start(b.Context(), workers)
	defer stop()
	var waits []time.Duration
	var total time.Duration
	for b.Loop() {
		runtime.Gosched() // or it would come again before anybody else
		beyond, err := f.heavy(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		waits = append(waits, beyond)
		total += beyond
	}
	slices.Sort(waits)
	b.ReportMetric(float64(total)/float64(len(waits)), "ns/op")
	b.ReportMetric(float64(waits[len(waits)*99/100]), "p99-ns")
	b.ReportMetric(float64(waits[len(waits)-1]), "longest-ns")
}

// A flood is workers who acquire and release one permit, over and over.
type flood struct {
	door
	limit int64
	hold  func()

	asked atomic.Int64 // how many heavy requests have been made

	// met has, for each worker, the last heavy request that was made while it
	// held a permit, and when it gave that back. Who writes here holds a permit,
	// and who reads holds all.
	met []meeting
}

type meeting struct {
	heavy    int64
	released time.Time
}

// start has so many workers run until stop is called. They yield between their
// requests: who never waits would keep its processor for 10 ms, and a heavy request
// that has been granted wait for that.
func (f *flood) start(ctx context.Context, workers int) (stop func()) {
	f.met = make([]meeting, workers)
	ctx, cancel := context.WithCancel(ctx)
	var begun, done sync.WaitGroup
	begun.Add(workers)
	for i := range workers {
		done.Go(func() {
			begun.Done()
			for f.light(ctx, i) == nil {
				runtime.Gosched()
			}
		})
	}
	begun.Wait()
	return func() {
		cancel()
		done.Wait()
	}
}

// light is a request of worker i.
func (f *flood) light(ctx context.Context, i int) error {
	if err := f.Acquire(ctx, 1); err != nil {
		return err
	}
	before := f.asked.Load()
	f.hold()
	if heavy := f.asked.Load(); heavy != before {
		f.met[i] = meeting{heavy, time.Now()}
	}
	f.Release(1)
	return nil
}

// heavy is a request for all permits. It could have had them when those who held
// one when it was made had released it, had nobody else acquired any since. It
// returns how much later it had them, or a little more: a holder who had not
// noted yet that it was one does not count.
func (f *flood) heavy(ctx context.Context) (beyond time.Duration, err error) {
	heavy := f.asked.Add(1)
	possible := time.Now()
	if err := f.Acquire(ctx, f.limit); err != nil {
		return 0, err
	}
	got := time.Now()
	for _, m := range f.met {
		if m.heavy == heavy && m.released.After(possible) {
			possible = m.released
		}
	}
	f.Release(f.limit)
	return got.Sub(possible), nil
}

// TestHeavyWaits checks what Heavy measures where it can be foreseen: holders are
// not counted against the semaphore, and those who were served earlier are.
func TestHeavyWaits(t *testing.T) {
	const hold = 10 * time.Millisecond
	for _, tt := range []struct {
		lights int // of which two hold a permit when the heavy request is made
		want   time.Duration
	}{
		{2, 0},
		{3, hold},
		{4, hold},
		{5, 2 * hold},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &flood{
				door: newTurnstile(2), limit: 2, hold: func() { time.Sleep(hold) }, met: make([]meeting, tt.lights),
			}
			var wg sync.WaitGroup
			for i := range tt.lights {
				wg.Go(func() {
					if err := f.light(t.Context(), i); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			time.Sleep(hold / 2)
			got, err := f.heavy(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("with %d light requests: got a wait of %v beyond what was needed, want %v", tt.lights, got, tt.want)
			}
			wg.Wait()
		})
	}
}
