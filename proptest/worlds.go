package proptest

import (
	"slices"
	"time"
)

// worlds are all the models that agree with what has been observed so far.
// There is one as long as one thing happens at a time. When several happen at
// one instant there is one for each order in which they may have come, until
// an observation tells them apart.
type worlds struct {
	all    []*model
	events []event // scratch
}

// newWorlds returns the one world in which nothing has happened yet.
func newWorlds(limit int64, opts *Options) *worlds {
	return &worlds{all: []*model{{opts: opts, limit: limit}}}
}

// each calls f for every world.
func (w *worlds) each(f func(m *model)) {
	for _, m := range w.all {
		f(m)
	}
}

// keep drops the worlds for which f is false. If that is all of them it drops
// none, and returns false.
func (w *worlds) keep(f func(m *model) bool) bool {
	if !slices.ContainsFunc(w.all, f) {
		return false
	}
	w.all = slices.DeleteFunc(w.all, func(m *model) bool { return !f(m) })
	return true
}

// add adds m, unless the same world is there already.
func (w *worlds) add(m *model) {
	if !slices.ContainsFunc(w.all, m.equal) {
		w.all = append(w.all, m)
	}
}

// unsettle adds the worlds in which some of what can happen has happened, in
// any order. A call made now may find any of them.
func (w *worlds) unsettle() {
	for i := 0; i < len(w.all); i++ { // all grows on the way
		w.events = w.all[i].events(w.events[:0])
		for _, e := range w.events {
			m := w.all[i].clone()
			m.happen(e)
			w.add(m)
		}
	}
}

// settle replaces the worlds by those in which everything that can happen at
// this instant has.
func (w *worlds) settle() {
	w.each(w.settleInOrder)
	w.unsettle()
	reached := w.all
	w.all = nil
	for _, m := range reached {
		if w.events = m.events(w.events[:0]); len(w.events) == 0 {
			m.rest()
			w.add(m)
		}
	}
}

// settleInOrder lets things happen to m for as long as their order does not
// matter: because there is only one, or because all are requests whose contexts
// have ended. No permits are for those any more, so whoever leaves first, the
// same remain and the same are granted.
func (w *worlds) settleInOrder(m *model) {
	for {
		w.events = m.events(w.events[:0])
		ordered := slices.ContainsFunc(w.events, func(e event) bool { return e.kind != withdraws })
		if len(w.events) == 0 || len(w.events) > 1 && ordered {
			return
		}
		m.happen(w.events[0])
	}
}

// pass lets d go by. Every deadline on the way is an instant of its own; what
// falls due in the last instant is left to happen.
func (w *worlds) pass(d time.Duration) {
	end := w.now() + d
	for {
		next := min(end, w.nextDeadline())
		w.each(func(m *model) { m.now = next })
		if next == end {
			return
		}
		w.settle()
	}
}

// now is the time, which is the same in all worlds.
func (w *worlds) now() time.Duration { return w.all[0].now }

// nextDeadline returns the first deadline that lies ahead in any world, or
// never.
func (w *worlds) nextDeadline() time.Duration {
	first := never
	w.each(func(m *model) { first = min(first, m.nextDeadline()) })
	return first
}

func (m *model) nextDeadline() time.Duration {
	first := never
	for i := range m.contexts {
		if c := &m.contexts[i]; c.end == pending {
			first = min(first, c.deadline)
		}
	}
	for i := range m.requests {
		if r := &m.requests[i]; r.phase == waiting || r.phase == parked {
			first = min(first, r.due())
		}
	}
	return first
}

// rest is called when nothing more happens at this instant: by now every
// caller has seen its grant.
func (m *model) rest() {
	for i := range m.requests {
		if m.requests[i].phase == granted {
			m.decide(i, ok)
		}
	}
}

func (m *model) clone() *model {
	c := *m
	c.requests = slices.Clone(m.requests)
	c.queue = slices.Clone(m.queue)
	c.contexts = slices.Clone(m.contexts)
	c.drains = slices.Clone(m.drains)
	return &c
}

func (m *model) equal(o *model) bool {
	return m.limit == o.limit && m.inUse == o.inUse && m.closed == o.closed &&
		slices.Equal(m.requests, o.requests) && slices.Equal(m.queue, o.queue) &&
		slices.Equal(m.contexts, o.contexts) && slices.Equal(m.drains, o.drains)
}
