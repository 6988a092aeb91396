package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"

	xsync "golang.org/x/sync/semaphore"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/semaphore"
)

// A queue is calls that wait for the only permit of a semaphore, which is taken.
type queue interface {
	// add queues one more call.
	add(ctx context.Context)
	// settle returns when all that were added wait.
	settle()
	// drain gives the permit back and returns when all calls had it, one after
	// the other, each for no time. It returns how many those were.
	drain(ctx context.Context) int
}

// contenders are the ways to queue that the study compares.
var contenders = []struct {
	name string
	// queue makes one, empty but with room for so many calls.
	queue func(calls int) queue
}{
	{"AcquireAsync", newPendings},
	{"ExecuteAsync", newFutures},
	{"goroutine", func(int) queue { return newParked(semaphore.NewWeighted(1)) }},
	{"xsync-goroutine", func(int) queue { return newParked(xsync.NewWeighted(1)) }},
}

// newQueue makes the queue of that name.
func newQueue(name string, calls int) (queue, error) {
	for _, c := range contenders {
		if c.name == name {
			return c.queue(calls), nil
		}
	}
	return nil, fmt.Errorf("no way to queue is called %q", name)
}

// pendings are asynchronous requests for permits.
type pendings struct {
	sem  *semaphore.Weighted
	list []*semaphore.Pending
}

func newPendings(calls int) queue {
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	return &pendings{sem, make([]*semaphore.Pending, 0, calls)}
}

func (q *pendings) add(ctx context.Context) {
	q.list = append(q.list, q.sem.AcquireAsync(ctx, 1, semaphore.Forever))
}

func (q *pendings) settle() {}

func (q *pendings) drain(ctx context.Context) int {
	served := 0
	q.sem.Release(1)
	for _, p := range q.list {
		if p.Wait(ctx) == nil {
			served++
			q.sem.Release(1)
		}
	}
	return served
}

// futures are asynchronous calls of a bulkhead. Each gets a goroutine when its
// turn comes.
type futures struct {
	b    *bulkhead.Bulkhead[int]
	held *bulkhead.Permit
	list []*bulkhead.Future[int]
}

func newFutures(calls int) queue {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "queued", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
	held, _ := b.TryAcquire()
	return &futures{b, held, make([]*bulkhead.Future[int], 0, calls)}
}

func (q *futures) add(ctx context.Context) {
	q.list = append(q.list, q.b.ExecuteAsync(ctx, nothing))
}

func nothing(context.Context) (int, error) { return 0, nil }

func (q *futures) settle() {}

func (q *futures) drain(ctx context.Context) int {
	served := 0
	q.held.Release()
	for _, f := range q.list {
		if _, err := f.Get(ctx); err == nil {
			served++
		}
	}
	return served
}

// parked are goroutines that each wait for the permit and hand it on.
type parked struct {
	sem         weighted
	begun, done sync.WaitGroup
	served      atomic.Int64
}

// weighted is our semaphore or that of golang.org/x/sync.
type weighted interface {
	Acquire(ctx context.Context, n int64) error
	TryAcquire(n int64) bool
	Release(n int64)
}

func newParked(sem weighted) queue {
	sem.TryAcquire(1)
	return &parked{sem: sem}
}

func (q *parked) add(ctx context.Context) {
	q.begun.Add(1)
	q.done.Go(func() {
		q.begun.Done()
		if q.sem.Acquire(ctx, 1) == nil {
			q.served.Add(1)
			q.sem.Release(1)
		}
	})
}

// settle waits until all have begun, and then until none could go on: there is no
// other sign that a goroutine has come to wait in golang.org/x/sync.
func (q *parked) settle() {
	q.begun.Wait()
	able := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	for range 100 {
		runtime.Gosched()
		if metrics.Read(able); able[0].Value.Uint64() == 0 {
			return
		}
	}
}

func (q *parked) drain(context.Context) int {
	q.sem.Release(1)
	q.done.Wait()
	return int(q.served.Load())
}
