package proptest

import (
	"encoding/binary"
	"slices"
	"time"
)

// worlds are all the models that agree with what has been observed so far.
// There is one as long as one thing happens at a time. When several happen at
// one instant there is one for each order in which they may have come, until
// an observation tells them apart.
type worlds struct {
	all []*model

	events []event         // scratch
	known  map[string]bool // the worlds in all, while it is made
}

// newWorlds returns the one world in which nothing has happened yet.
func newWorlds(limit int64, opts *Options) *worlds {
	return &worlds{
		all:   []*model{{opts: opts, limit: limit}},
		known: map[string]bool{},
	}
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

// refill replaces all worlds by those that f adds, each once.
func (w *worlds) refill(f func(old []*model)) {
	old := w.all
	w.all = nil
	clear(w.known)
	f(old)
}

// add adds m, in refill.
func (w *worlds) add(m *model) {
	if key := m.key(); !w.known[key] {
		w.known[key] = true
		w.all = append(w.all, m)
	}
}

// unsettle adds the worlds in which some of what can happen has happened, in
// any order. A call made now may find any of them.
func (w *worlds) unsettle() {
	if w.quiet() {
		return
	}
	w.refill(func(old []*model) {
		for _, m := range old {
			w.add(m)
		}
		for i := 0; i < len(w.all); i++ { // all grows on the way
			w.events = w.all[i].events(w.events[:0])
			for _, e := range w.events {
				m := w.all[i].clone()
				m.happen(e)
				w.add(m)
			}
		}
	})
}

// settle replaces the worlds by those in which everything that can happen at
// this instant has, and every caller has seen its grant.
func (w *worlds) settle() {
	w.each(w.settleInOrder)
	w.unsettle()
	if len(w.all) == 1 {
		w.all[0].rest()
		return
	}
	w.refill(func(old []*model) {
		for _, m := range old {
			if w.events = m.events(w.events[:0]); len(w.events) == 0 {
				m.rest()
				w.add(m)
			}
		}
	})
}

// quiet reports whether there is one world, in which nothing can happen.
func (w *worlds) quiet() bool {
	if len(w.all) > 1 {
		return false
	}
	w.events = w.all[0].events(w.events[:0])
	return len(w.events) == 0
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

// arrive has a request that was just made looked at in the call itself. In an
// unfair queue it may overtake those who wait, or not.
func (w *worlds) arrive(i int) {
	w.refill(func(old []*model) {
		for _, m := range old {
			if m.barges(i) {
				c := m.clone()
				c.grantTo(i)
				w.add(c)
			}
			m.arrive(i)
			w.add(m)
		}
	})
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
	c.awaits = slices.Clone(m.awaits)
	return &c
}

// key tells m from the other worlds of the script, which have had the same calls
// with the same arguments, not more than a byte can count.
func (m *model) key() string {
	b := make([]byte, 0, 128)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.inUse))
	b = append(b, byte(len(m.queue)))
	for _, i := range m.queue {
		b = append(b, byte(i))
	}
	for i := range m.requests {
		r := &m.requests[i]
		silent := byte(0)
		if r.silent {
			silent = 1
		}
		b = append(b, byte(r.phase), byte(r.outcome), silent)
	}
	for i := range m.contexts {
		b = append(b, byte(m.contexts[i].end))
	}
	for i := range m.drains {
		b = append(b, byte(m.drains[i].phase), byte(m.drains[i].outcome))
	}
	for i := range m.awaits {
		b = append(b, byte(m.awaits[i].outcome))
	}
	return string(b)
}
