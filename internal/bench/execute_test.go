package bench

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// An executor runs functions within a limit. As with loops, the bodies of the
// cheap rows stand with each executor, over its own concrete type, and take the
// ctx in the way that is cheapest there.
type executor interface {
	holder
	// succeed runs a function that does nothing, per iteration.
	succeed(b *testing.B, ctx context.Context) error
	// reject runs into the full limit, per iteration.
	reject(b *testing.B, ctx context.Context) error
	// yield runs, once, a function that yields the processor.
	yield() error
}

// executors in the order of benchstat's columns.
var executors = []contender[executorFunc]{
	{"turnstile", newTurnstileExecutor},
	{"failsafe", newFailsafeExecutor},
}

// An executorFunc makes an executor whose calls wait at most maxWait.
type executorFunc = func(limit int64, maxWait time.Duration) executor

// BenchmarkExecute is the whole cost of a bulkhead that holds nobody up: permits
// free, nobody listening, a function that does nothing.
func BenchmarkExecute(b *testing.B) {
	run(b, executors, func(b *testing.B, newExecutor executorFunc) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		if err := newExecutor(16, 0).succeed(b, ctx); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkExecuteReject is the answer of a full bulkhead that lets nobody wait.
func BenchmarkExecuteReject(b *testing.B) {
	run(b, executors, func(b *testing.B, newExecutor executorFunc) {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		e := newExecutor(1, 0)
		if !e.TryAcquire(1) {
			b.Fatal("no permit in a fresh bulkhead")
		}
		if err := e.reject(b, ctx); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkExecuteWaiting is BenchmarkTimedWaiting through a bulkhead.
func BenchmarkExecuteWaiting(b *testing.B) {
	for _, workers := range []int{16, 1024} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			run(b, executors, func(b *testing.B, newExecutor executorFunc) {
				e := newExecutor(busyLimit, time.Minute)
				err := queue(b.N, workers, e, busyLimit, b.Context, b.ResetTimer, func(context.Context) error {
					return e.yield()
				})
				if err != nil {
					b.Fatal(err)
				}
			})
		})
	}
}

// TestExecutors is what the rows take for granted: functions run up to the limit
// and are refused above it.
func TestExecutors(t *testing.T) {
	for _, c := range executors {
		t.Run(c.name, func(t *testing.T) {
			e := c.new(1, time.Millisecond)
			if err := e.yield(); err != nil {
				t.Errorf("a call with a permit free: got %v, want nil", err)
			}
			if !e.TryAcquire(1) {
				t.Fatal("TryAcquire at rest: got false, want true")
			}
			if err := e.yield(); err == nil {
				t.Error("a call of a full bulkhead: got nil, want an error")
			}
			e.Release(1)
			if err := e.yield(); err != nil {
				t.Errorf("a call after a Release: got %v, want nil", err)
			}
		})
	}
}
