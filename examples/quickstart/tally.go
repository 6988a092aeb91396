package main

import (
	"context"
	"sync"

	"github.com/turnstile-go/turnstile/event"
)

// events is what a bulkhead told of its calls.
type events struct {
	permitted, canceled, finished, released int

	rejected map[event.Reason]int
}

// tally counts events.
type tally struct {
	mu     sync.Mutex
	events events
}

func (t *tally) listener() event.Listener {
	return event.All(func(_ context.Context, e event.Record) {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch e.Kind {
		case event.KindPermitted:
			t.events.permitted++
		case event.KindCanceled:
			t.events.canceled++
		case event.KindFinished:
			t.events.finished++
		case event.KindReleased:
			t.events.released++
		case event.KindRejected:
			if t.events.rejected == nil {
				t.events.rejected = make(map[event.Reason]int)
			}
			t.events.rejected[e.Reason]++
		}
	})
}
