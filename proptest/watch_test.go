package proptest

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// plain has the three methods of Semaphore and no others, like most semaphores.
func plain(limit int64) Semaphore {
	return struct{ Semaphore }{broken{}.new(limit)}
}

// TestGivenUpPlayerStops lets a call return only after the watch has given it
// up. The race detector sees if the player then goes on beside the report.
func TestGivenUpPlayerStops(t *testing.T) {
	sem := &stuck{Semaphore: plain(1), returns: make(chan struct{})}
	sem.mu.Lock()
	c := newProperty(t, func(int64) Semaphore { return sem }, Options{})
	c.hang = 50 * time.Millisecond
	p := newPlayer(script{1, slices.Repeat([]action{{op: try}}, 10)}, &c.opts)
	if v := c.watched(p); v == nil || v.invariant != lockOrder {
		t.Fatalf("watched() = %v, want a violation of %q", v, lockOrder)
	}
	if p.mu.TryLock() {
		t.Error("the player given up can go on")
	}
	sem.mu.Unlock()
	<-sem.returns
	if _, steps := p.code(new(violation)); steps != 1 {
		t.Errorf("the report has %d steps, want 1", steps)
	}
}

// stuck is a semaphore whose first TryAcquire waits for a mutex.
type stuck struct {
	Semaphore
	mu      sync.Mutex
	returns chan struct{} // closed when it returns
	once    sync.Once
}

func (s *stuck) TryAcquire(n int64) bool {
	s.once.Do(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.returns)
	})
	return s.Semaphore.TryAcquire(n)
}

// TestStatsHang has the player itself wait for a mutex, when it compares the
// Stats.
func TestStatsHang(t *testing.T) {
	c := newProperty(t, func(int64) Semaphore { return hangingStats{plain(1)} }, Options{})
	c.hang = 50 * time.Millisecond
	v := c.play(script{1, []action{{op: try, n: 1}}})
	if v == nil || v.invariant != lockOrder {
		t.Errorf("play() = %v, want a violation of %q", v, lockOrder)
	}
}

type hangingStats struct{ Semaphore }

func (hangingStats) Stats() semaphore.Stats {
	var mu sync.Mutex
	mu.Lock()
	mu.Lock() // as if an early return had left it locked
	return semaphore.Stats{}
}

// TestHangBeforeTheFirstStep blames the function that makes semaphores.
func TestHangBeforeTheFirstStep(t *testing.T) {
	c := newProperty(t, plain, Options{})
	c.newSemaphore = func(int64) Semaphore { select {} }
	v := c.play(script{3, []action{{op: try}}})
	if v == nil || v.invariant != lockOrder || !strings.HasPrefix(v.detail, "newSemaphore(3)") {
		t.Errorf("play() = %v, want a violation of %q by newSemaphore(3)", v, lockOrder)
	}
}

// TestReportIsShort caps a script that nobody would read to its end.
func TestReportIsShort(t *testing.T) {
	p := newPlayer(script{limit: 1}, &Options{})
	p.steps = slices.Repeat([]step{{op: pass, scope: -1, wait: unit}}, 100000)
	code, steps := p.code(new(violation))
	if lines := strings.Count(code, "\n"); lines > longestReport+20 {
		t.Errorf("the report has %d lines", lines)
	}
	if want := "99800 more steps"; steps != 100000 || !strings.Contains(code, want) {
		t.Errorf("%d steps, want 100000, and a report with %q:\n%s", steps, want, code)
	}
}
