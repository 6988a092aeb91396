// Holds prints how long a semaphore's lock is held while very many asynchronous
// requests are decided at one moment. It is built by ../../holds, with the lock
// replaced by one that measures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// A moment decides all requests at once.
type moment struct {
	name    string
	weight  int64
	maxWait time.Duration // of which the deadlines are made; each request is due at the same instant
	decide  func(sem *semaphore.Weighted, cancel context.CancelFunc, requests int64)
	want    error
}

// dueAfter is long enough to queue the requests in.
const dueAfter = 2 * time.Second

var moments = []moment{
	{"SetLimit grants", 1, semaphore.Forever, func(sem *semaphore.Weighted, _ context.CancelFunc, n int64) { sem.SetLimit(n) }, nil},
	{"SetLimit evicts", 2, semaphore.Forever, func(sem *semaphore.Weighted, _ context.CancelFunc, n int64) { sem.SetLimit(1) }, semaphore.ErrExceedsLimit},
	{"Close", 1, semaphore.Forever, func(sem *semaphore.Weighted, _ context.CancelFunc, _ int64) { sem.Close() }, semaphore.ErrClosed},
	{"shared ctx ends", 1, semaphore.Forever, func(_ *semaphore.Weighted, cancel context.CancelFunc, _ int64) { cancel() }, context.Canceled},
	{"deadlines pass", 1, dueAfter, func(*semaphore.Weighted, context.CancelFunc, int64) {}, semaphore.ErrTimeout},
}

func main() {
	log.SetFlags(0)
	requests := flag.Int("requests", 1_000_000, "how many `requests` are decided at once")
	flag.Parse()

	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "decided by\treturned in\tall in\tholds\tp50\tp99.9\tlongest\tlongest Stats\t")
	for _, m := range moments {
		if err := m.measure(out, *requests); err != nil {
			log.Fatalf("holds: %s: %v", m.name, err)
		}
	}
	out.Flush()
}

// measure queues the requests, has the moment come, and prints a line.
func (m moment) measure(out *tabwriter.Writer, requests int) error {
	sem := semaphore.NewWeighted(0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	queue := make([]*semaphore.Pending, requests)
	due := time.Now().Add(dueAfter)
	for i := range queue {
		maxWait := m.maxWait
		if maxWait == dueAfter {
			maxWait = time.Until(due)
		}
		queue[i] = sem.AcquireAsync(ctx, m.weight, maxWait)
	}
	semaphore.StartHolds(20 * requests)
	runtime.GC() // or the collection that all this began would go on while we measure
	began := time.Now()
	if m.maxWait == dueAfter {
		began = due
		time.Sleep(time.Until(due))
	}

	var longest time.Duration
	var bystander sync.WaitGroup
	bystander.Go(func() {
		for waiting := requests; waiting > 0; {
			asked := time.Now()
			waiting = sem.Stats().Waiting
			longest = max(longest, time.Since(asked))
		}
	})
	m.decide(sem, cancel, int64(requests))
	returned := time.Since(began)
	for _, p := range queue {
		<-p.Done()
	}
	all := time.Since(began)
	bystander.Wait()
	holds := semaphore.StopHolds()

	for _, p := range queue {
		if err := p.Err(); !errors.Is(err, m.want) {
			return fmt.Errorf("a request ended with %v, want %v", err, m.want)
		}
	}
	at := func(share float64) time.Duration { return holds[int(share*float64(len(holds)-1))] }
	_, err := fmt.Fprintf(out, "%s\t%v\t%v\t%d\t%v\t%v\t%v\t%v\t\n", m.name,
		returned.Round(time.Microsecond), all.Round(time.Microsecond), len(holds), at(0.5), at(0.999), at(1), longest)
	return err
}
