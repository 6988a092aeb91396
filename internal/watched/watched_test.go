package watched_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/internal/watched"
)

func nop(context.Context) error { return nil }

func named(name string) *bulkhead.Bulkhead[int] {
	return bulkhead.MustNew[int](bulkhead.Config{Name: name, MaxConcurrent: 2})
}

// permitted returns what makes a listener that counts permitted calls.
func permitted(counters *event.Counters) func(string) event.Listener {
	return func(string) event.Listener { return counters.Listener() }
}

func TestWatchRefuses(t *testing.T) {
	var unset *bulkhead.Bulkhead[int]
	const (
		isNil  = "exporter: a nil bulkhead cannot be watched"
		db     = `exporter: a bulkhead named "db" is watched already`
		tenant = `exporter: a bulkhead named "tenants" is watched already`
		bad    = `exporter: the bulkhead's name "d\xffb" is not valid UTF-8, as a label must be`
	)
	s, counters, first := watched.New("exporter"), event.NewCounters(), named("db")
	if err := s.Watch(first, permitted(counters)); err != nil {
		t.Fatal(err)
	}
	if err := s.Take("tenants"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		reason string
		b      bulkhead.Any
		want   string
	}{
		{"nothing", nil, isNil},
		{"a bulkhead that is yet to be made", unset, isNil},
		{"the same bulkhead", first, db},
		{"a handle to it", first.Weighing(2), db},
		{"another one of its name", named("db"), db},
		{"one of a name that was taken", named("tenants"), tenant},
		{"a name that is no label", named("d\xffb"), bad},
	} {
		err := s.Watch(tt.b, func(name string) event.Listener {
			t.Errorf("%s: a listener was made for %q", tt.reason, name)
			return event.Listener{}
		})
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.reason, err, tt.want)
		}
	}
	for name, want := range map[string]string{"db": db, "tenants": tenant, "d\xffb": bad} {
		if err := s.Take(name); err == nil || err.Error() != want {
			t.Errorf("Take(%q) = %v, want %s", name, err, want)
		}
	}
	if got := s.Bulkheads(); len(got) != 1 || got["db"] != first {
		t.Errorf("watched are %v, want the first one alone", got)
	}
	first.Run(t.Context(), nop)
	if got := counters.Snapshot().Permitted.Calls; got != 1 {
		t.Errorf("one call was told %d times", got)
	}
}

func TestUnwatchFreesTheName(t *testing.T) {
	s, counters, first := watched.New("exporter"), event.NewCounters(), named("db")
	if err := s.Watch(first, permitted(counters)); err != nil {
		t.Fatal(err)
	}
	if err := s.Take("tenants"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"db", "tenants"} {
		if !s.Unwatch(name) {
			t.Errorf("Unwatch(%q) = false, want true", name)
		}
		if s.Unwatch(name) {
			t.Errorf("Unwatch(%q) again = true, want false", name)
		}
		if err := s.Watch(named(name), permitted(event.NewCounters())); err != nil {
			t.Errorf("the name is not free: %v", err)
		}
	}
	first.Run(t.Context(), nop)
	if got := counters.Snapshot().Permitted.Calls; got != 0 {
		t.Errorf("a call of a bulkhead that is not watched any more was told %d times", got)
	}
}

// TestUnwatchMeetsWatch has each come at any moment of the other. Afterwards the
// bulkhead is watched or not, as a whole.
func TestUnwatchMeetsWatch(t *testing.T) {
	s, counters, b := watched.New("exporter"), event.NewCounters(), named("db")
	watch := func() {
		if err := s.Watch(b, permitted(counters)); err != nil {
			t.Error(err)
		}
	}
	var both sync.WaitGroup
	for range 300 {
		// In the middle of Watch, and at any time.
		if err := s.Watch(b, func(name string) event.Listener {
			both.Go(func() { s.Unwatch(name) })
			return counters.Listener()
		}); err != nil {
			t.Error(err)
		}
		both.Wait()
		both.Go(watch)
		both.Go(func() {
			for range 3 {
				runtime.Gosched()
				s.Unwatch("db")
				s.Bulkheads()
			}
		})
		both.Wait()
		s.Unwatch("db")
	}
	b.Run(t.Context(), nop)
	if got := counters.Snapshot().Permitted.Calls; got != 0 {
		t.Errorf("a call was told %d times with nobody watching", got)
	}
	watch()
	b.Run(t.Context(), nop)
	if got := counters.Snapshot().Permitted.Calls; got != 1 {
		t.Errorf("a call was told %d times, want once", got)
	}
}

// calledMeanwhile is a bulkhead that is called while somebody subscribes to it.
type calledMeanwhile struct {
	*bulkhead.Bulkhead[int]
	calls int64
}

func (b *calledMeanwhile) Subscribe(l event.Listener) func() {
	unsubscribe := b.Bulkhead.Subscribe(l)
	b.Run(context.Background(), nop)
	atomic.AddInt64(&b.calls, 1)
	return unsubscribe
}

// However Watch and Unwatch meet, nobody who watches hears of a call together
// with somebody who does no longer.
func TestNoCallIsToldTwice(t *testing.T) {
	s, counters, b := watched.New("exporter"), event.NewCounters(), &calledMeanwhile{Bulkhead: named("db")}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2000 {
				s.Watch(b, permitted(counters))
				s.Unwatch("db")
			}
		})
	}
	all.Wait()
	if got := counters.Snapshot().Permitted.Calls; got > b.calls {
		t.Errorf("%d calls were told %d times", b.calls, got)
	}
}
