package event_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/event"
)

func TestStreamPassesEventsOnInOrder(t *testing.T) {
	s := event.NewStream(10)
	l := s.Listener()
	var want []event.Kind
	for _, hook := range hooks {
		hook.call(l)
		want = append(want, hook.kind)
	}
	var got []event.Kind
	for len(s.C()) > 0 {
		got = append(got, (<-s.C()).Kind)
	}
	if !slices.Equal(got, want) || s.Dropped() != 0 {
		t.Errorf("received %v and dropped %d, want %v and none", got, s.Dropped(), want)
	}
}

func TestStreamDropsWhatFindsNoRoom(t *testing.T) {
	s := event.NewStream(3)
	l := s.Listener()
	for weight := range int64(5) {
		l.Permitted(t.Context(), event.Permitted{Weight: weight})
	}
	if got := s.Dropped(); got != 2 {
		t.Errorf("dropped %d of 5, want 2", got)
	}
	if got := (<-s.C()).Weight; got != 0 {
		t.Errorf("received %d first, want 0", got)
	}
	l.Permitted(t.Context(), event.Permitted{Weight: 5})
	for _, want := range []int64{1, 2, 5} {
		if got := (<-s.C()).Weight; got != want {
			t.Errorf("received %d, want %d: what came first stays", got, want)
		}
	}
}

// TestStreamNeverDelaysACall has a reader that takes a second for each event.
func TestStreamNeverDelaysACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := event.NewStream(4)
		l := s.Listener()
		stop := make(chan struct{})
		received := 0
		var reader sync.WaitGroup
		reader.Go(func() {
			for {
				select {
				case <-s.C():
					received++
					time.Sleep(time.Second)
				case <-stop:
					return
				}
			}
		})
		start := time.Now()
		for range 100 {
			for range 10 {
				l.Rejected(t.Context(), event.Rejected{})
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(start); took != 100*time.Second {
			t.Errorf("a thousand events, ten a second, took %v, want 100s", took)
		}
		time.Sleep(time.Minute)
		close(stop)
		reader.Wait()
		if got := received + int(s.Dropped()); got != 1000 {
			t.Errorf("%d events received and %d dropped, want 1000 in all", received, s.Dropped())
		}
		if received < 100 || s.Dropped() == 0 {
			t.Errorf("received %d, dropped %d: the reader is not slow", received, s.Dropped())
		}
	})
}
