package bench

import (
	"container/list"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// A line is requests that wait, numbered from 0, and can leave in any order.
type line interface {
	// fill makes a new line of n requests.
	fill(n int, maxWait time.Duration)
	// leave reports whether request i could leave.
	leave(i int) bool
}

// lines have a floor of their own: the elements of a doubly linked list, to tell
// what of the time is the memory's.
var lines = []contender[func() line]{
	{"turnstile", func() line { return new(pendingLine) }},
	{"list", func() line { return new(listLine) }},
}

// pendingLine is asynchronous requests for the permit of a full semaphore.
type pendingLine struct{ requests []*semaphore.Pending }

func (l *pendingLine) fill(n int, maxWait time.Duration) {
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	l.requests = make([]*semaphore.Pending, n)
	for i := range l.requests {
		l.requests[i] = sem.AcquireAsync(context.Background(), 1, maxWait)
	}
}

func (l *pendingLine) leave(i int) bool { return l.requests[i].Cancel() }

// listLine is what any queue of linked waiters does at least.
type listLine struct {
	list     *list.List
	requests []*list.Element
}

func (l *listLine) fill(n int, _ time.Duration) {
	l.list = list.New()
	l.requests = make([]*list.Element, n)
	for i := range l.requests {
		l.requests[i] = l.list.PushBack(nil)
	}
}

func (l *listLine) leave(i int) bool {
	l.list.Remove(l.requests[i])
	return true
}

// BenchmarkLeave is what it takes a request to leave a queue of that size, of
// which all leave, in the order in which they came or in any. With a maximum
// wait it leaves the deadlines as well. There are no peers: theirs would have to
// be goroutines, whose end would be measured instead.
func BenchmarkLeave(b *testing.B) {
	orders := []struct {
		name string
		perm func(n int) []int
	}{
		{"arrival", func(n int) []int {
			order := make([]int, n)
			for i := range order {
				order[i] = i
			}
			return order
		}},
		{"random", rand.New(rand.NewPCG(1, 2)).Perm},
	}
	maxWaits := []struct {
		name string
		d    time.Duration
	}{{"forever", semaphore.Forever}, {"hour", time.Hour}}
	for _, requests := range []int{1_000, 100_000, 1_000_000} {
		for _, order := range orders {
			for _, maxWait := range maxWaits {
				name := fmt.Sprintf("requests=%d/order=%s/maxwait=%s", requests, order.name, maxWait.name)
				b.Run(name, func(b *testing.B) {
					perm := order.perm(requests)
					for _, c := range inTurn(lines) {
						b.Run("impl="+c.name, func(b *testing.B) {
							leave(b, c.new(), perm, maxWait.d)
						})
					}
				})
			}
		}
	}
}

// leave fills the line and has all its requests leave in that order, round after
// round. Time per operation is that of one request to leave; the benchmark's own
// clock runs on while the line is filled, so that filling, which takes longer,
// counts against the time that a row may take.
func leave(b *testing.B, l line, order []int, maxWait time.Duration) {
	var took time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		l.fill(len(order), maxWait)
		if len(order) >= 100_000 {
			runtime.GC() // or the collection that filling began would go on while they leave
		}
		began := time.Now()
		for _, i := range order {
			if !l.leave(i) {
				b.Fatal("a request was decided that nobody could grant")
			}
		}
		took += time.Since(began)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(rounds*len(order)), "ns/op")
}

// BenchmarkCancelShared is the end of a ctx that a million requests wait with.
// Time per operation is what cancel takes to return, stall-ns the longest that
// Stats took a bystander until all requests had failed, and fail-ns when that
// was.
func BenchmarkCancelShared(b *testing.B) {
	const requests = 1_000_000
	var canceled, stalled, failed time.Duration
	rounds := 0
	queue := make([]*semaphore.Pending, requests)
	for b.Loop() {
		rounds++
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		ctx, cancel := context.WithCancel(context.Background())
		for i := range queue {
			queue[i] = sem.AcquireAsync(ctx, 1, semaphore.Forever)
		}
		var bystander sync.WaitGroup
		began := time.Now()
		bystander.Go(func() {
			for waiting := requests; waiting > 0; {
				asked := time.Now()
				waiting = sem.Stats().Waiting
				stalled = max(stalled, time.Since(asked))
			}
			failed += time.Since(began)
		})
		cancel()
		canceled += time.Since(began)
		bystander.Wait()
	}
	b.ReportMetric(float64(canceled.Nanoseconds())/float64(rounds), "ns/op")
	b.ReportMetric(float64(failed.Nanoseconds())/float64(rounds), "fail-ns/op")
	b.ReportMetric(float64(stalled.Nanoseconds()), "stall-ns")
}
