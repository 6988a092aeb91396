package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"
)

// figures is what one queue came to.
type figures struct {
	Bytes      float64       // of heap and stacks, per call that waits
	Goroutines int           // while all wait
	Queue      time.Duration // until all wait
	Drain      time.Duration // until all are served
}

// measure queues so many calls and drains them.
func measure(ctx context.Context, name string, calls int) (figures, error) {
	q, err := newQueue(name, calls)
	if err != nil {
		return figures{}, err
	}
	// A ctx that could end, as real ones do, and that all share.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var f figures
	before := occupied()
	start := time.Now()
	for range calls {
		q.add(ctx)
	}
	q.settle()
	f.Queue = time.Since(start)
	f.Bytes = float64(occupied()-before) / float64(calls)
	f.Goroutines = runtime.NumGoroutine()

	start = time.Now()
	served := q.drain(ctx)
	f.Drain = time.Since(start)
	if served != calls {
		return figures{}, fmt.Errorf("%s: %d of %d calls were served", name, served, calls)
	}
	return f, nil
}

// occupied returns how much memory is in use, on the heap and by stacks.
func occupied() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// Each measurement is made in a process of its own, since what a million
// goroutines leave behind, the runtime keeps. The process is this program again,
// whose first argument is then
const measureCommand = "measure"

// measureApart is measure in a process of its own.
func measureApart(ctx context.Context, name string, calls int) (figures, error) {
	self, err := os.Executable()
	if err != nil {
		return figures{}, err
	}
	cmd := exec.CommandContext(ctx, self, measureCommand, name, strconv.Itoa(calls))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return figures{}, context.Cause(ctx)
	}
	var f figures
	if err == nil {
		err = json.Unmarshal(out, &f)
	}
	if err != nil {
		return figures{}, fmt.Errorf("%d calls of %s: %w", calls, name, err)
	}
	return f, nil
}

// median returns figures each of which is the median of those of the runs.
func median(runs []figures) figures {
	return figures{
		Bytes:      middle(runs, func(f figures) float64 { return f.Bytes }),
		Goroutines: middle(runs, func(f figures) int { return f.Goroutines }),
		Queue:      middle(runs, func(f figures) time.Duration { return f.Queue }),
		Drain:      middle(runs, func(f figures) time.Duration { return f.Drain }),
	}
}

// middle returns the middle one of the values, the lower of two.
func middle[T float64 | int | time.Duration](runs []figures, value func(figures) T) T {
	var all []T
	for _, f := range runs {
		all = append(all, value(f))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
