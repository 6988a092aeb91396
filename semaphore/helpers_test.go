package semaphore_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnstile-go/turnstile/semaphore"
)

// errWaiting stands for the outcome of a call that has not returned.
var errWaiting = errors.New("still waiting")

// call is a call in a goroutine of its own.
type call struct {
	done chan error // gets the outcome
	err  error      // the outcome, once it has been looked at
}

// begin calls f without waiting for anything.
func begin(f func() error) *call {
	c := &call{done: make(chan error, 1), err: errWaiting}
	go func() { c.done <- f() }()
	return c
}

// start calls f and returns once it has returned or waits. Only in a bubble.
func start(f func() error) *call {
	c := begin(f)
	synctest.Wait()
	return c
}

// elapse lets time pass, and everything go on that can then go on.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func acquire(ctx context.Context, sem *semaphore.Weighted, n int64) *call {
	return start(func() error { return sem.Acquire(ctx, n) })
}

func acquireWithin(ctx context.Context, sem *semaphore.Weighted, n int64, maxWait time.Duration) *call {
	return start(func() error { return sem.AcquireWithin(ctx, n, maxWait) })
}

// outcome returns what the call has returned, once everything that can go on
// has gone on, or errWaiting.
func (c *call) outcome() error {
	synctest.Wait()
	return c.now()
}

// now returns what the call has returned, or errWaiting.
func (c *call) now() error {
	if len(c.done) > 0 {
		c.err = <-c.done
	}
	return c.err
}

// want fails the test unless the call has this outcome. Errors are compared by
// ==, as callers of x/sync do.
func (c *call) want(t *testing.T, who string, want error) {
	t.Helper()
	if got := c.outcome(); got != want {
		t.Errorf("%s: got %v, want %v", who, got, want)
	}
}

// wantStats compares a snapshot as far as it does not follow from the rest.
func wantStats(t *testing.T, sem *semaphore.Weighted, limit, inUse int64, waiting int) {
	t.Helper()
	want := semaphore.Stats{
		Limit:     limit,
		InUse:     inUse,
		Available: max(0, limit-inUse),
		Waiting:   waiting,
	}
	if diff := cmp.Diff(want, sem.Stats()); diff != "" {
		t.Errorf("Stats (-want +got):\n%s", diff)
	}
}

// wantIdle fails the test unless sem is open and idle and has every permit of
// the given limit, and not one more.
func wantIdle(t *testing.T, sem *semaphore.Weighted, limit int64) {
	t.Helper()
	wantStats(t, sem, limit, 0, 0)
	if !sem.TryAcquire(limit) {
		t.Errorf("conservation: TryAcquire(%d) = false on an idle semaphore of that limit", limit)
		return
	}
	if sem.TryAcquire(1) {
		t.Errorf("conservation: more than %d permits", limit)
		sem.Release(1)
	}
	sem.Release(limit)
	wantStats(t, sem, limit, 0, 0)
}

// wantPanic fails the test unless f panics with the given message.
func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("panic: got %v, want %q", got, want)
		}
	}()
	f()
}

// canceled returns a context that is done.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// The rest is for tests with goroutines outside a bubble, which really race.

// rounds scales how often something is tried.
func rounds(n int) int {
	switch {
	case testing.Short():
		return n / 10
	case raceEnabled:
		return n / 3
	}
	return n
}

// untilWaiting spins until so many requests wait.
func untilWaiting(sem *semaphore.Weighted, n int) {
	for sem.Stats().Waiting != n {
		runtime.Gosched()
	}
}

// wantNobodyInside fails the test if a goroutine stays in package semaphore
// although every call has returned. A timer's that has fired too late may just
// be leaving.
func wantNobodyInside(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for range 1000 {
		buf = buf[:cap(buf)]
		buf = buf[:runtime.Stack(buf, true)]
		if !strings.Contains(string(buf), "/turnstile/semaphore.(*") {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("a goroutine is left:\n%s", buf)
}
