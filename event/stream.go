package event

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Stream passes events on to another goroutine: give [Stream.Listener] to a
// bulkhead's Config or to Subscribe, or to several, and receive from
// [Stream.C]. A reader that is too slow loses events and never delays a call.
// It is made by [NewStream] and safe for concurrent use.
type Stream struct {
	c       chan Record
	dropped atomic.Uint64
}

// NewStream returns a stream that keeps up to n events for its reader. It panics
// if n < 1.
func NewStream(n int) *Stream {
	if n < 1 {
		panic(fmt.Sprintf("event: stream of %d records, want at least 1", n))
	}
	return &Stream{c: make(chan Record, n)}
}

// Listener returns the listener that passes every event on, or drops it if
// there is no room.
func (s *Stream) Listener() Listener {
	return All(func(_ context.Context, rec Record) {
		select {
		case s.c <- rec:
		default:
			s.dropped.Add(1)
		}
	})
}

// C returns the channel of events, in the order in which they were told. It is
// never closed, because calls that run may still tell events after the listener
// was unsubscribed.
func (s *Stream) C() <-chan Record { return s.c }

// Dropped returns how many events found no room and were lost.
func (s *Stream) Dropped() uint64 { return s.dropped.Load() }
