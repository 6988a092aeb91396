package proptest

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnstile-go/turnstile/semaphore"
)

// The invariants, in the words in which the library argues them: one search
// finds the claim, the proof and the test.
const (
	// Permits in flight are permits granted minus permits released, and never
	// more than the limit allows at a grant.
	conservation = "conservation"
	// Nobody gets permits past somebody who waited before.
	noBarging = "no barging"
	// A request comes to one outcome, and to the right one.
	singleOutcome = "single outcome"
	// An outcome reaches its caller at once: nobody waits for what is there.
	delivery = "delivery"
	// A limit below what is in flight revokes nothing, waits for nothing and
	// grants nothing.
	shrinkDebt = "shrink debt"
	// Only what is in flight can be released, and once.
	releaseOnce = "release once"
	// Calls that need not wait for permits wait for nothing else.
	lockOrder = "lock order"
	// What the semaphore says of itself is what is.
	layout = "layout"
)

// violation is one invariant found broken, and how.
type violation struct {
	invariant string
	detail    string
	code      string   // the script, as a test
	steps     int      // how many it has
	excuses   []string // options that would allow it

	// What that test has to assert: that the last step does not return what it
	// returned, or what a call comes to, or what Stats are. With none of them it
	// panics by itself, or cannot tell.
	step  bool
	call  *blamed
	stats *semaphore.Stats
}

// blamed is a call that came to another outcome than wanted.
type blamed struct {
	kind kind
	i    int
	want outcome
}

func violated(invariant, format string, args ...any) *violation {
	return &violation{invariant: invariant, detail: fmt.Sprintf(format, args...)}
}

func (v *violation) Error() string {
	return fmt.Sprintf("%s: %s", v.invariant, v.detail)
}

// report is what is shown of v.
func (v *violation) report() string {
	s := fmt.Sprintf("%v\n\n", v)
	for _, option := range v.excuses {
		s += fmt.Sprintf("With Options.%s this would be no violation.\n\n", option)
	}
	return s + v.code
}

// refused is an outcome that stands for any failure but that of the context.
const refused outcome = 100

// foreign is an outcome that no call may come to.
const foreign outcome = 101

var outcomes = map[outcome]string{
	pending:   "waits",
	ok:        "nil",
	canceled:  "context canceled",
	deadlined: "context deadline exceeded",
	timedOut:  semaphore.ErrTimeout.Error(),
	queueFull: semaphore.ErrQueueFull.Error(),
	closed:    semaphore.ErrClosed.Error(),
	oversized: semaphore.ErrExceedsLimit.Error(),
}

// outcomeOf says what a returned call came to. Errors are compared as they
// are: callers may use ==. Only a semaphore of this library is held to its
// errors.
func (p *player) outcomeOf(c *call) outcome {
	switch {
	case c.panicked != nil:
		return foreign
	case c.err == nil:
		return ok
	case c.err == context.Canceled:
		return canceled
	case c.err == context.DeadlineExceeded:
		return deadlined
	case errors.Is(c.err, context.Canceled) || errors.Is(c.err, context.DeadlineExceeded):
		return foreign
	case p.statable == nil:
		return refused
	case c.err == semaphore.ErrTimeout:
		return timedOut
	case c.err == semaphore.ErrQueueFull:
		return queueFull
	case c.err == semaphore.ErrClosed:
		return closed
	case c.err == semaphore.ErrExceedsLimit:
		return oversized
	}
	return foreign
}

// matches reports whether got is what the model wants.
func (got outcome) matches(want outcome) bool {
	if got == refused {
		return want == timedOut || want == queueFull || want == closed || want == oversized
	}
	return got == want
}

// compare compares everything that can be seen with the models, at rest.
func (p *player) compare() *violation {
	stats, statable := p.stats()
	agrees := func(m *model) bool {
		return p.mismatches(m) == 0 && (!statable || stats == m.Stats())
	}
	if p.worlds.keep(agrees) {
		return nil
	}
	nearest := p.worlds.all[0]
	for _, m := range p.worlds.all {
		if p.mismatches(m) < p.mismatches(nearest) {
			nearest = m
		}
	}
	return p.explain(nearest, stats)
}

func (p *player) stats() (s semaphore.Stats, statable bool) {
	if p.statable != nil {
		p.unlocked(func() { s = p.statable.Stats() })
	}
	return s, p.statable != nil
}

// Stats is the snapshot that the model would give.
func (m *model) Stats() semaphore.Stats {
	return semaphore.Stats{
		Limit:     m.limit,
		InUse:     m.inUse,
		Available: max(0, m.limit-m.inUse),
		Waiting:   len(m.queue),
		Closed:    m.closed,
	}
}

// mismatches counts the calls that came to another outcome than in m.
func (p *player) mismatches(m *model) (n int) {
	for k, calls := range p.calls {
		for i, c := range calls {
			if !c.outcome.matches(m.outcome(kind(k), i)) || c.heard != nil && !c.heardAll(&m.requests[i]) {
				n++
			}
		}
	}
	return n
}

// heardAll reports whether the function given to AcquireFunc was called as it
// should: once, with the outcome, unless the request was withdrawn.
func (c *call) heardAll(want *request) bool {
	errs := c.heard.all()
	if want.outcome == pending || want.silent {
		return len(errs) == 0
	}
	return len(errs) == 1 && errs[0] == c.err
}

// explain says which invariant is broken, given the model that comes closest
// to what is seen. An over-grant comes before all else, as it explains much of
// the rest.
func (p *player) explain(m *model, stats semaphore.Stats) *violation {
	for i, c := range p.calls[requests] {
		if c.outcome == ok && m.requests[i].outcome != ok {
			v := p.explainGrant(m, i)
			v.call = &blamed{requests, i, m.requests[i].outcome}
			return v
		}
	}
	for k, calls := range p.calls {
		for i, c := range calls {
			want := m.outcome(kind(k), i)
			if !c.outcome.matches(want) {
				v := p.explainCall(m, kind(k), i)
				v.call = &blamed{kind(k), i, want}
				return v
			}
			if c.heard != nil && !c.heardAll(&m.requests[i]) {
				return violated(delivery, "the function of %s was called with %v, want once with %q, or never if withdrawn",
					c.describe(kind(k), i), c.heard.all(), outcomes[want])
			}
		}
	}
	return violatedStats(stats, m.Stats())
}

// explainCall says what is wrong with the outcome of call i of a kind.
func (p *player) explainCall(m *model, k kind, i int) *violation {
	c, want := p.calls[k][i], m.outcome(k, i)
	what := c.describe(k, i)
	switch {
	case c.panicked != nil:
		return violated(singleOutcome, "%s panicked: %v", what, c.panicked)
	case c.outcome == pending && want == ok:
		return violated(delivery, "%s still waits, although %s", what, m.room())
	case c.outcome == pending:
		return violated(delivery, "%s still waits, want %q", what, outcomes[want])
	case c.outcome == ok && k == drains:
		return violated(conservation, "%s returned nil, although %s", what, m.room())
	case want == pending:
		return violated(singleOutcome, "%s returned %q, want it to wait: %s", what, c.err, m.room())
	}
	return violated(singleOutcome, "%s returned %q, want %q", what, c.err, outcomes[want])
}

// describe names call i of a kind.
func (c *call) describe(k kind, i int) string {
	if k == requests {
		return fmt.Sprintf("%v %d (weight %d)", k, i+1, c.n)
	}
	return fmt.Sprintf("%v %d", k, i+1)
}

// violatedStats says what is wrong with a snapshot.
func violatedStats(got, want semaphore.Stats) *violation {
	invariant := layout
	if got.InUse != want.InUse || got.Available != want.Available {
		invariant = conservation
	}
	v := violated(invariant, "Stats() = %+v, want %+v", got, want)
	v.stats = &want
	return v
}

// explainGrant says what is wrong with the grant of request i.
func (p *player) explainGrant(m *model, i int) *violation {
	r := &m.requests[i]
	what := fmt.Sprintf("request %d (weight %d) was granted", i+1, r.n)
	switch {
	case r.outcome != pending:
		return violated(singleOutcome, "%s, want %q", what, outcomes[r.outcome])
	case m.inUse > m.limit:
		return violated(shrinkDebt, "%s, although %s", what, m.room())
	case !m.fits(r.n):
		return violated(conservation, "%s, although %s", what, m.room())
	case r.phase == parked:
		return violated(singleOutcome, "%s, want it to wait until its context ends, as it was for more than the limit", what)
	}
	return violated(noBarging, "%s past request %d, which waited before it", what, m.queue[0]+1)
}

// explainTry says what is wrong with a TryAcquire.
func (p *player) explainTry(n int64, got bool) *violation {
	m := p.worlds.all[0]
	invariant := conservation
	switch {
	case !got:
	case m.closed:
		invariant = singleOutcome
	case m.inUse > m.limit:
		invariant = shrinkDebt
	case m.fits(n):
		invariant = noBarging
	}
	v := violated(invariant, "TryAcquire(%d) = %t, although %s", n, got, m.room())
	v.step = true
	return v
}

// room describes how full the semaphore is.
func (m *model) room() string {
	s := fmt.Sprintf("%d of %d permits are in flight and %d requests wait", m.inUse, m.limit, len(m.queue))
	if m.closed {
		s += ", and it is closed"
	}
	return s
}

// last is the step under way, as code.
func (p *player) last() string {
	if len(p.steps) == 0 {
		return fmt.Sprintf("newSemaphore(%s)", number(p.script.limit))
	}
	return p.expression(p.steps[len(p.steps)-1])
}

// blocked is what is wrong with a step that did not return at once.
func (p *player) blocked(how string) *violation {
	invariant := lockOrder
	if len(p.steps) > 0 && p.steps[len(p.steps)-1].op == setLimit {
		invariant = shrinkDebt
	}
	return violated(invariant, "%s did not return at once: it waited %s", p.last(), how)
}
