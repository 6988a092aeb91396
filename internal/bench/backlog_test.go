package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/semaphore"
)

// A backlog is requests that wait for a limiter that is full.
type backlog interface {
	// add queues one more request.
	add(ctx context.Context)
	// settle returns when all that were added wait.
	settle()
	// clear ends the wait of all of them.
	clear()
}

// A backlogFunc makes a backlog, empty but with room for so many requests.
type backlogFunc = func(requests int) backlog

// BenchmarkQueued is what it takes to queue a request and, as B/request, what
// one occupies while it waits, with everything that it hangs in its ctx and with
// the stacks of goroutines, but for the ctx and the list of requests, which were
// there before.
func BenchmarkQueued(b *testing.B) {
	sizes := []struct {
		requests int
		backlogs []contender[backlogFunc]
	}{
		{100_000, []contender[backlogFunc]{
			{"turnstile", newPendings},
			{"turnstile-call", newFutures},
			{"xsync", newParked(newXSync)},
			{"crlib", newParked(newCRLib)},
		}},
		// Parked goroutines would take gigabytes.
		{1_000_000, []contender[backlogFunc]{
			{"turnstile", newPendings},
			{"turnstile-call", newFutures},
		}},
	}
	for _, size := range sizes {
		for _, ctx := range contexts {
			b.Run(fmt.Sprintf("requests=%d/ctx=%s", size.requests, ctx.name), func(b *testing.B) {
				run(b, size.backlogs, func(b *testing.B, newBacklog backlogFunc) {
					queued(b, size.requests, ctx.each(b), newBacklog)
				})
			})
		}
	}
}

// queued queues b.N requests, at most so many at once.
func queued(b *testing.B, requests int, each func() context.Context, newBacklog backlogFunc) {
	ctxs := make([]context.Context, requests)
	var bytes uint64
	for left := b.N; left > 0; left -= requests {
		b.StopTimer()
		ctxs = ctxs[:min(left, requests)]
		for i := range ctxs {
			ctxs[i] = each() // a fresh one: whoever waits on it first has it grow
		}
		q := newBacklog(requests)
		before := occupied()
		b.StartTimer()
		for _, ctx := range ctxs {
			q.add(ctx)
		}
		b.StopTimer()
		q.settle()
		bytes += occupied() - before
		q.clear()
		b.StartTimer()
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "B/request")
}

// occupied returns how much memory is in use, on the heap and by stacks.
func occupied() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// pendings are our asynchronous requests.
type pendings struct {
	sem  *semaphore.Weighted
	list []*semaphore.Pending
}

func newPendings(requests int) backlog {
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	return &pendings{sem, make([]*semaphore.Pending, 0, requests)}
}

func (q *pendings) add(ctx context.Context) {
	q.list = append(q.list, q.sem.AcquireAsync(ctx, 1, semaphore.Forever))
}

func (q *pendings) settle() {}

func (q *pendings) clear() { q.sem.Close() }

// futures are our asynchronous calls.
type futures struct {
	b    *bulkhead.Bulkhead[int]
	list []*bulkhead.Future[int]
}

func newFutures(requests int) backlog {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "bench", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
	b.TryAcquire()
	return &futures{b, make([]*bulkhead.Future[int], 0, requests)}
}

func (q *futures) add(ctx context.Context) {
	q.list = append(q.list, q.b.ExecuteAsync(ctx, nothing))
}

func (q *futures) settle() {}

func (q *futures) clear() { q.b.Close() }

// parked are goroutines, each of which waits for a permit and hands it on.
type parked struct {
	l           limiter
	begun, done sync.WaitGroup
}

func newParked(newLimiter limiterFunc) backlogFunc {
	return func(int) backlog {
		q := &parked{l: newLimiter(1)}
		q.l.TryAcquire(1)
		return q
	}
}

func (q *parked) add(ctx context.Context) {
	q.begun.Add(1)
	q.done.Go(func() {
		q.begun.Done()
		if q.l.Acquire(ctx, 1) == nil {
			q.l.Release(1)
		}
	})
}

func (q *parked) settle() { q.begun.Wait() }

func (q *parked) clear() {
	q.l.Release(1)
	q.done.Wait()
}
