package semaphore

import (
	"math"
	"time"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// With Config.Unfair, a Release does not hand its permits to the waiter in
// front: it wakes it, and the waiter competes with newcomers, who are running
// already and so mostly win, which saves a change of goroutines per acquire. It
// is the algorithm of sync.Mutex, for weights:
//
//   - Only the front is woken, and not again before it has looked: w.Woken.
//   - If its permits are gone again it keeps its place, and waits for the next
//     Release. If they are there it takes them, and wakes the next.
//   - Whoever leaves the queue otherwise hands the free permits on directly, to
//     all that fit, so a wake-up is never lost with the waiter it was meant for.
//     So do SetLimit and expiry, and asynchronous requests, which have nobody to
//     wake, are always served so.
//   - A waiter who has waited longer than patience gets a hand-off, and until
//     then nobody passes it. Every acquire and every release looks at the age of
//     the front. It would not do to leave that to the woken waiter: a heavy one,
//     whose permits light newcomers keep from ever coming together, is never
//     woken.
//
// The UNFAIR of proptest/promela/semaphore.pml is the checked model of this.
const patience = int64(time.Millisecond)

// handOff, as the time now of grantLocked, is a time at which nobody is young.
const handOff = math.MaxInt64

// young reports whether, at the time now, w may still be passed by newcomers.
func (s *Weighted) young(w *waiter, now int64) bool {
	return s.unfair && w.Value.since >= now-patience
}

// lockAndServe takes mu for a newcomer, and first serves those at the front who
// are no longer young.
func (s *Weighted) lockAndServe(now int64) {
	s.lock()
	if !s.unfair || s.queue.Len() == 0 {
		return
	}
	var out batch
	for s.grantLocked(&out, now) || !out.empty() {
		s.tellAndRelock(&out)
	}
}

// wakeLocked tells w, the front, to see whether it can take its permits.
func (s *Weighted) wakeLocked(w *waiter, out *batch) {
	if !w.Woken {
		w.Woken = true
		out.woken = w.Value.ready
	}
}

// takeTurnAndUnlock has w, which was woken, take its permits if they are still
// there, and reports whether they were. It releases mu.
func (s *Weighted) takeTurnAndUnlock(w *waiter) bool {
	w.Woken = false
	if w.Weight > s.avail {
		s.unlock()
		return false
	}
	s.avail -= w.Weight
	s.queue.Decide(w, waitq.Granted)
	s.grantAndUnlock(new(batch), clock())
	return true
}
