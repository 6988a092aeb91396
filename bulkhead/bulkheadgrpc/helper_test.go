package bulkheadgrpc_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// side is the bulkhead on one side of a connection, and what it has told.
type side struct {
	*bulkhead.Bulkhead[any]
	name string

	mu   sync.Mutex
	told map[event.Kind]int
	ends chan event.Record // each call's last event
}

// newSide makes a side whose bulkhead is named after it. cfg may lack a Name and
// a limit, which is then 1.
func newSide(name string, cfg bulkhead.Config) *side {
	s := &side{name: name, told: map[event.Kind]int{}, ends: make(chan event.Record, 10000)}
	cfg.Name = name
	cfg.MaxConcurrent = max(cfg.MaxConcurrent, 1)
	cfg.Listener = event.Join(event.All(s.hear), cfg.Listener)
	s.Bulkhead = bulkhead.MustNew[any](cfg)
	return s
}

func (s *side) hear(_ context.Context, e event.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told[e.Kind]++
	if e.Kind != event.KindPermitted && e.Kind != event.KindLimitChanged {
		s.ends <- e
	}
}

// how says in a word how a call has ended.
func how(e event.Record) string {
	switch e.Kind {
	case event.KindFinished:
		return e.Outcome.String()
	case event.KindRejected:
		return e.Reason.String()
	}
	return e.Kind.String()
}

// wantEnd waits until a call has ended, and fails t unless it has ended so.
func (s *side) wantEnd(t *testing.T, want string) event.Record {
	t.Helper()
	select {
	case e := <-s.ends:
		if got := how(e); got != want {
			t.Errorf("%s: the call ended as %s (%v), want %s", s.name, got, e.Err, want)
		}
		return e
	case <-time.After(patience):
		t.Fatalf("%s: no call has ended: %+v", s.name, s.Stats())
		panic("unreachable")
	}
}

// wantActive fails t unless n permits are in flight.
func (s *side) wantActive(t *testing.T, n int64) {
	t.Helper()
	if got := s.Stats().Active; got != n {
		t.Errorf("%s: %d permits in flight, want %d", s.name, got, n)
	}
}

// waitUntilQueued returns when n calls wait.
func (s *side) waitUntilQueued(t *testing.T, n int) {
	t.Helper()
	await(t, "calls to wait", func() bool { return s.Stats().Waiting == n })
}

// wantRest fails t unless all permits are back, by the numbers and by taking
// them, and what was told adds up to the number of calls.
func (s *side) wantRest(t *testing.T, calls int) {
	t.Helper()
	stats := s.Stats()
	if stats.Active != 0 || stats.Waiting != 0 {
		t.Errorf("%s: at rest, Stats = %+v, want nothing active or waiting", s.name, stats)
	}
	s.mu.Lock()
	permitted, ended := s.told[event.KindPermitted], s.told[event.KindFinished]+s.told[event.KindReleased]
	got := permitted + s.told[event.KindRejected] + s.told[event.KindCanceled]
	s.mu.Unlock()
	if permitted != ended {
		t.Errorf("%s: permitted %d, finished or released %d, want the same", s.name, permitted, ended)
	}
	if got != calls {
		t.Errorf("%s: permitted, rejected or canceled %d, want %d calls", s.name, got, calls)
	}
	if p, ok := s.Weighing(stats.MaxConcurrent).TryAcquire(); !ok && !stats.Closed {
		t.Errorf("%s: at rest, TryAcquire of the whole limit = false", s.name)
	} else {
		p.Release()
	}
}

// hold takes n permits, and fails t if they are not free.
func (s *side) hold(t *testing.T, n int64) *bulkhead.Permit {
	t.Helper()
	p, ok := s.Weighing(n).TryAcquire()
	if !ok {
		t.Fatalf("%s: could not take %d permits: %+v", s.name, n, s.Stats())
	}
	return p
}

// await returns when done reports true, for what gives no signal.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// noGoroutineLeft fails t if at its end, when all that was started since is
// closed, there are more goroutines than now.
func noGoroutineLeft(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Errorf("%d goroutines, want %d as before:\n%s",
					runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
				return
			}
		}
	})
}

// receive returns what comes from c, and fails t if nothing does.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}
