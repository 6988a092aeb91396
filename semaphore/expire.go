package semaphore

import (
	"time"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// Deadlines are nanoseconds since epoch. The clock may run backwards between
// two uses of a semaphore, and be negative: in a testing/synctest bubble it
// shows the bubble's time. So no deadline outlives its waiter, and none is
// compared with a time remembered from before.
var epoch = time.Now()

func clock() int64 { return int64(time.Since(epoch)) }

// now returns the time for a request with the given maximum wait, or 0 if its
// semaphore has no use for it.
func (s *Weighted) now(maxWait time.Duration) int64 {
	if s.unfair || maxWait > 0 && maxWait < Forever {
		return clock()
	}
	return 0
}

// setDeadlineLocked makes w, just pushed, fall due after maxWait. One timer
// serves all waiters: it is set for the earliest deadline.
func (s *Weighted) setDeadlineLocked(w *waiter, due int64, maxWait time.Duration) {
	s.queue.SetDeadline(w, due)
	if first, _ := s.queue.Earliest(); first != w {
		return
	}
	if s.timer != nil {
		s.timer.Reset(maxWait)
		return
	}
	s.alarm++
	alarm := s.alarm
	s.timer = time.AfterFunc(maxWait, func() { s.expire(alarm) })
}

// dropTimerLocked stops the timer when no waiter has a deadline any more. When
// only the earliest has left it stays as it is: it fires early once, and is
// set anew then.
func (s *Weighted) dropTimerLocked() {
	if w, _ := s.queue.Earliest(); w == nil {
		s.timer.Stop()
		s.timer = nil
	}
}

// expire, on the timer's goroutine, ends the wait of every request that is due.
// A call that comes so late that its timer is gone does nothing: it may stand
// outside the bubble that the present timer belongs to.
func (s *Weighted) expire(alarm uint64) {
	s.lock()
	if s.timer == nil || s.alarm != alarm {
		s.unlock()
		return
	}
	var out batch
	for s.timer != nil && s.alarm == alarm {
		now := clock()
		w, due := s.queue.Earliest()
		for w != nil && due <= now && out.Len() < chunk {
			s.decide(w, waitq.Expired, &out)
			w, due = s.queue.Earliest()
		}
		if w == nil || due > now {
			if w != nil {
				s.timer.Reset(time.Duration(due - now))
			}
			break
		}
		s.tellAndRelock(&out)
	}
	// As after every departure: whoever fits now goes at once.
	s.grantAndUnlock(&out, handOff)
}
