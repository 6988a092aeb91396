package event_test

import (
	"runtime"
	"testing"

	"github.com/turnstile-go/turnstile/event"
)

// Whoever takes a snapshot may be held up in the middle of it, while calls come
// and go by the thousand.
func TestSnapshotOfABusyBulkheadShowsNoMoreEndsThanStarts(t *testing.T) {
	c := event.NewCounters()
	l := c.Listener()
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			l.Permitted(t.Context(), event.Permitted{Weight: 2})
			l.Finished(t.Context(), event.Finished{Weight: 2, Outcome: event.OK})
			l.Permitted(t.Context(), event.Permitted{Weight: 3})
			l.Released(t.Context(), event.Released{Weight: 3})
		}
	}()
	var last event.Counts
	for changes := 0; changes < 1000; {
		s := c.Snapshot()
		if r := s.Running(); r.Calls < 0 || r.Weight < 0 {
			t.Errorf("%d calls of weight %d run, want at least none: %+v", r.Calls, r.Weight, s)
			break
		}
		if s != last {
			last = s
			changes++
		}
		runtime.Gosched()
	}
	close(stop)
	<-stopped
}
