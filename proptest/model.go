package proptest

import (
	"math"
	"slices"
	"time"
)

// model is what a semaphore is allowed to do, as plain sequential code. It is
// the specification: read it as that. It knows no locks, no goroutines and no
// clock.
//
// Methods named after the semaphore's are calls. What happens by itself, such
// as a context ending or a waiter giving up, is an [event]: whenever there are
// several, any of them may come first. The set of all models that are possible
// at one moment is in worlds.go.
type model struct {
	opts *Options
	now  time.Duration // since the start of the script

	limit  int64 // permits in circulation
	inUse  int64 // permits in flight
	closed bool

	requests []request // every request of the script, in the order of the calls
	queue    []int     // those that wait, in the order of their arrival
	drains   []drain
	awaits   []await
	contexts []scope
}

// request is one call that may wait, or one asynchronous request.
type request struct {
	n       int64         // its weight
	context int           // which of model.contexts it was made with
	wait    time.Duration // its maximum wait
	async   bool          // its caller sees a grant in the moment it is made
	since   time.Duration // when it arrived
	phase   phase
	outcome outcome // once decided
	silent  bool    // withdrawn by Cancel or Wait: the function of AcquireFunc is not called
}

// phase is where a request stands.
//
//	arriving ──▶ waiting ──▶ granted ──▶ decided
//	   │            │            ╰──▶ returning ──▶ decided
//	   ├────────────┴───────────────────────────────▶ decided
//	   ╰──▶ parked ─────────────────────────────────▶ decided
type phase uint8

const (
	arriving  phase = iota // called; the semaphore has not looked at it yet
	waiting                // in the queue
	parked                 // beside the queue until its context ends: see Options.ParksOversized
	granted                // has its permits, and its caller has not seen them
	returning              // the same, but its context has ended, and it will give them back
	decided                // its caller has the outcome
)

// outcome is what a request, or a drain, comes to.
type outcome uint8

const (
	pending   outcome = iota
	ok                // granted, or drained
	canceled          // context.Canceled
	deadlined         // context.DeadlineExceeded
	timedOut          // the maximum wait passed: ErrTimeout
	queueFull         // ErrQueueFull
	closed            // ErrClosed
	oversized         // ErrExceedsLimit
)

// scope is a context that requests are made with.
type scope struct {
	deadline time.Duration // never if it has none
	end      outcome       // pending until it is done; then canceled or deadlined
}

// drain is one call of Drain.
type drain struct {
	context int
	phase   phase // arriving, waiting or decided
	outcome outcome
}

// await is one call of Wait of the Pending of a request.
type await struct {
	request int
	context int
	outcome outcome // once it has returned
}

// kind is a kind of call that may wait.
type kind uint8

const (
	requests kind = iota
	drains
	awaits
	kinds
)

func (k kind) String() string { return [...]string{"request", "drain", "wait"}[k] }

// outcome is that of call i of a kind.
func (m *model) outcome(k kind, i int) outcome {
	switch k {
	case requests:
		return m.requests[i].outcome
	case drains:
		return m.drains[i].outcome
	}
	return m.awaits[i].outcome
}

// never is a time that no script reaches.
const never time.Duration = math.MaxInt64

// patience is how long the head of an unfair queue can be overtaken.
const patience = time.Millisecond

// fits reports whether n more permits can be in flight. In debt nothing fits,
// not even 0; at a limit of 0 with nothing in flight, 0 does.
func (m *model) fits(n int64) bool { return n <= m.limit-m.inUse }

// impossible reports whether no number of releases can make n fit. At a limit
// of 0 the semaphore is paused: what does not fit waits for a higher limit.
func (m *model) impossible(n int64) bool { return n > m.limit && m.limit > 0 }

// TryAcquire reports whether n permits are obtained at once: if they fit and
// nobody waits. If the queue is unfair it may obtain them past the waiters,
// and then the second result is true: that the first is true is allowed, not
// required.
func (m *model) TryAcquire(n int64) (obtained, optional bool) {
	switch {
	case m.closed || !m.fits(n):
		return false, false
	case len(m.queue) > 0:
		return m.canBarge(), true
	}
	return true, false
}

// Release returns n permits. They go to the waiters in front. If the queue is
// unfair, only to those that have waited long or are asynchronous; the next is
// woken, and takes its chance: see wakes.
func (m *model) Release(n int64) {
	m.inUse -= n
	if !m.opts.Unfair {
		m.grant()
		return
	}
	for len(m.queue) > 0 && (m.headIsOld() || m.requests[m.queue[0]].async) && m.grantHead() {
	}
	if len(m.queue) == 0 {
		m.settleDrains()
	}
}

// SetLimit changes the number of permits in circulation. Nothing in flight is
// revoked. Waiters whose weight has become impossible fail, and those that fit
// are granted, all in one step.
func (m *model) SetLimit(limit int64) {
	if limit == m.limit {
		return
	}
	m.limit = limit
	for _, i := range slices.Clone(m.queue) {
		if m.impossible(m.requests[i].n) {
			m.leave(i, oversized)
		}
	}
	m.grant()
}

// Close makes all requests, waiting and future, fail.
func (m *model) Close() {
	m.closed = true
	for i := range m.requests {
		if p := m.requests[i].phase; p == waiting || p == parked {
			m.leave(i, closed)
		}
	}
}

// arrive is the moment the semaphore looks at a new request.
func (m *model) arrive(i int) {
	r := &m.requests[i]
	r.since = m.now
	end := m.contexts[r.context].end
	switch {
	case end != pending:
		m.decide(i, end)
	case m.closed:
		m.decide(i, closed)
	case m.opts.ParksOversized && r.n > m.limit:
		r.phase = parked
	case m.impossible(r.n):
		m.decide(i, oversized)
	case m.fits(r.n) && len(m.queue) == 0:
		m.grantTo(i)
	case r.wait <= 0:
		m.decide(i, timedOut)
	case m.opts.MaxWaiters > 0 && len(m.queue) >= m.opts.MaxWaiters:
		m.decide(i, queueFull)
	default:
		r.phase = waiting
		m.queue = append(m.queue, i)
	}
}

// grant serves the queue from its head for as long as the head fits. It stops
// at the first that does not, whatever waits behind: no barging.
func (m *model) grant() {
	for len(m.queue) > 0 && m.grantHead() {
	}
	m.settleDrains()
}

// grantHead takes the head out of the queue, if it can go. If its context has
// ended, no permit is for it any more.
func (m *model) grantHead() bool {
	i := m.queue[0]
	end := m.contexts[m.requests[i].context].end
	switch {
	case end != pending && !m.opts.LateWithdrawal:
		m.leave(i, end)
	case !m.fits(m.requests[i].n):
		return false
	default:
		m.queue = slices.Delete(m.queue, 0, 1)
		m.grantTo(i)
	}
	return true
}

// grantTo puts the permits of request i in flight. Until a caller who is blocked
// has seen them, the end of its context can still take them back.
func (m *model) grantTo(i int) {
	r := &m.requests[i]
	m.inUse += r.n
	switch {
	case r.async:
		m.decide(i, ok)
	case m.contexts[r.context].end != pending:
		r.phase = returning
	default:
		r.phase = granted
	}
}

// leave ends a wait without a grant.
func (m *model) leave(i int, o outcome) {
	if k := slices.Index(m.queue, i); k >= 0 {
		m.queue = slices.Delete(m.queue, k, k+1)
	}
	m.decide(i, o)
}

// decide ends request i, and those who await it.
func (m *model) decide(i int, o outcome) {
	m.requests[i].phase, m.requests[i].outcome = decided, o
	for k := range m.awaits {
		if a := &m.awaits[k]; a.request == i && a.outcome == pending {
			a.outcome = o
		}
	}
}

// Cancel withdraws the asynchronous request i if it is not decided, and reports
// whether it did.
func (m *model) Cancel(i int) bool {
	if m.requests[i].phase == decided {
		return false
	}
	m.requests[i].silent = true
	m.leave(i, canceled)
	m.grant()
	return true
}

// Wait begins to wait for the asynchronous request i.
func (m *model) Wait(i, context int) {
	m.awaits = append(m.awaits, await{i, context, m.requests[i].outcome})
}

// settleDrains lets drains return if nothing is in flight.
func (m *model) settleDrains() {
	if m.inUse > 0 {
		return
	}
	for i := range m.drains {
		if m.drains[i].phase == waiting {
			m.drains[i].phase, m.drains[i].outcome = decided, ok
		}
	}
}

// headIsOld reports whether the head of an unfair queue has waited so long
// that nobody overtakes it any more.
func (m *model) headIsOld() bool {
	return len(m.queue) > 0 && m.now-m.requests[m.queue[0]].since > patience
}

// canBarge reports whether a newcomer may be served past those who wait.
func (m *model) canBarge() bool { return m.opts.Unfair && !m.headIsOld() }

// barges reports whether the new request i may be granted past those who wait.
func (m *model) barges(i int) bool {
	r := &m.requests[i]
	return len(m.queue) > 0 && m.canBarge() && m.fits(r.n) && !m.closed && m.contexts[r.context].end == pending
}

// event is something that happens by itself, to a request, a context or a
// drain, of which i is the index.
type event struct {
	kind eventKind
	i    int
}

type eventKind uint8

const (
	arrives      eventKind = iota // the semaphore looks at request i
	overtakes                     // the same, and in an unfair queue i overtakes all who wait
	ends                          // context i reaches its deadline
	withdraws                     // request i sees the end of its context, and leaves
	expires                       // the maximum wait of request i passes
	keeps                         // the caller of i gets its grant; its context ended since
	givesBack                     // i sees that its context ended since its grant, and returns the permits
	wakes                         // the head of an unfair queue takes its permits
	idles                         // drains see that nothing is in flight, in an unfair queue
	drainArrives                  // the semaphore looks at drain i
	drainGivesUp                  // drain i sees the end of its context
	awaitGivesUp                  // await i sees the end of its context, and withdraws the request
)

// events appends to buf what can happen next. If nothing can, the semaphore is
// at rest until the next call or deadline.
func (m *model) events(buf []event) []event {
	for i := range m.contexts {
		if c := &m.contexts[i]; c.end == pending && c.deadline <= m.now {
			buf = append(buf, event{ends, i})
		}
	}
	for i := range m.requests {
		r := &m.requests[i]
		if r.phase == decided {
			continue
		}
		ended := m.contexts[r.context].end != pending
		switch r.phase {
		case arriving:
			buf = append(buf, event{arrives, i})
			if m.barges(i) {
				buf = append(buf, event{overtakes, i})
			}
		case waiting, parked:
			if ended {
				buf = append(buf, event{withdraws, i})
			}
			if m.now >= r.due() {
				buf = append(buf, event{expires, i})
			}
		case granted:
			if ended {
				buf = append(buf, event{keeps, i}, event{givesBack, i})
			}
		case returning:
			buf = append(buf, event{givesBack, i})
		}
	}
	if m.opts.Unfair && len(m.queue) > 0 && m.fits(m.requests[m.queue[0]].n) {
		buf = append(buf, event{kind: wakes})
	}
	for i := range m.drains {
		switch d := &m.drains[i]; d.phase {
		case arriving:
			buf = append(buf, event{drainArrives, i})
		case waiting:
			if m.inUse == 0 {
				buf = append(buf, event{kind: idles})
			}
			if m.contexts[d.context].end != pending {
				buf = append(buf, event{drainGivesUp, i})
			}
		}
	}
	for i := range m.awaits {
		a := &m.awaits[i]
		if a.outcome == pending && m.contexts[a.context].end != pending {
			buf = append(buf, event{awaitGivesUp, i})
		}
	}
	return buf
}

// due is when the request's maximum wait ends.
func (r *request) due() time.Duration {
	if r.wait >= never-r.since {
		return never
	}
	return r.since + r.wait
}

// happen changes the model as e says.
func (m *model) happen(e event) {
	switch e.kind {
	case arrives:
		m.arrive(e.i)
	case overtakes:
		m.grantTo(e.i)
	case ends:
		m.contexts[e.i].end = deadlined
	case withdraws:
		m.leave(e.i, m.contexts[m.requests[e.i].context].end)
		if !m.opts.Unfair { // or it wakes the next
			m.grant()
		}
	case expires:
		m.leave(e.i, timedOut)
		m.grant()
	case keeps:
		m.decide(e.i, ok)
	case givesBack:
		m.decide(e.i, m.contexts[m.requests[e.i].context].end)
		m.Release(m.requests[e.i].n)
	case wakes:
		m.grantHead()
	case idles:
		m.settleDrains()
	case drainArrives:
		d := &m.drains[e.i]
		d.phase = waiting
		m.settleDrains()
	case drainGivesUp:
		d := &m.drains[e.i]
		d.phase, d.outcome = decided, m.contexts[d.context].end
	case awaitGivesUp:
		a := &m.awaits[e.i]
		a.outcome = m.contexts[a.context].end
		m.Cancel(a.request)
	}
}
