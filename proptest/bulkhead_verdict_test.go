package proptest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/turnstile-go/turnstile/bulkhead"
	events "github.com/turnstile-go/turnstile/event"
)

// compare compares everything that can be seen with m, at rest. What a violation
// is called is as in doc.go, but that release once is about the permits of a
// call: they come back however it ends, once, and not before; and delivery also
// about events: each is told to everybody who listens, once, and as it was.
func (p *callPlayer) compare(m *callModel) *violation {
	for _, look := range []func(*callModel) *violation{
		p.compareCalls, p.compareAttempts, p.compareStats, p.compareEvents, p.compareTotals,
	} {
		if v := look(m); v != nil {
			return v
		}
	}
	return nil
}

// compareCalls compares which functions have run.
func (p *callPlayer) compareCalls(m *callModel) *violation {
	for i, r := range p.calls {
		c := &m.calls[i]
		switch {
		case r.ran > 1:
			return violated(singleOutcome, "the function of call %d ran %d times", i+1, r.ran)
		case r.ran == 1 && !c.ran && c.phase == inQueue:
			return m.overtakes(i)
		case r.ran == 1 && !c.ran:
			return violated(singleOutcome, "the function of call %d runs, although the call has ended without permits", i+1)
		case r.ran == 0 && c.ran:
			return violated(delivery, "the function of call %d does not run, although %s", i+1, m.room())
		}
	}
	return nil
}

// overtakes says what is wrong with a call that got its permits and should wait.
func (m *callModel) overtakes(i int) *violation {
	if m.calls[i].weight > m.limit-m.inUse {
		return violated(conservation, "call %d (weight %d) has its permits, although %s", i+1, m.calls[i].weight, m.room())
	}
	return violated(noBarging, "call %d has its permits, past call %d, which waited before it", i+1, m.queue[0]+1)
}

// room describes how full the bulkhead is.
func (m *callModel) room() string {
	return fmt.Sprintf("%d of %d permits are in flight and %d calls wait", m.inUse, m.limit, len(m.queue))
}

// compareAttempts compares what has returned, and how.
func (p *callPlayer) compareAttempts(m *callModel) *violation {
	for i, r := range p.attempts {
		a := &m.attempts[i]
		if !a.begun {
			continue
		}
		switch {
		case r.over && a.over && r.result.is(a.result) || !r.over && !a.over:
		case r.over && !a.over && a.verb == toAcquire && r.result.value == 1:
			return m.overtakes(a.call)
		case r.over && a.verb == toDrain && m.inUse > 0 && r.result == (result{}):
			return violated(conservation, "Drain returned nil, although %s", m.room())
		case !r.over && a.verb == toSetMaxConcurrent:
			return violated(shrinkDebt, "SetMaxConcurrent did not return at once")
		case !r.over:
			return violated(delivery, "%s has not returned, want %v", p.describe(i), a.result)
		case !a.over:
			return violated(singleOutcome, "%s: %v, want it to wait", p.describe(i), r.result)
		default:
			return violated(singleOutcome, "%s: %v, want %v", p.describe(i), r.result, a.result)
		}
	}
	return nil
}

// describe names attempt i.
func (p *callPlayer) describe(i int) string {
	a := p.model.attempts[i]
	switch {
	case a.call == none:
		return a.verb.String()
	case a.verb.calls():
		return fmt.Sprintf("call %d (%v)", a.call+1, a.verb)
	}
	return fmt.Sprintf("%v of call %d", a.verb, a.call+1)
}

// compareStats compares what the bulkhead says of itself. Which permits are in
// flight is what it counts: TryAcquire shows at the end that it is so.
func (p *callPlayer) compareStats(m *callModel) *violation {
	got := p.bulkhead.Stats()
	want := bulkhead.Stats{
		Name:          name,
		MaxConcurrent: m.limit,
		Active:        m.inUse,
		Available:     max(0, m.limit-m.inUse),
		Waiting:       len(m.queue),
		Closed:        m.closed,
	}
	cfg := p.bulkhead.Config()
	switch {
	case got.Active > want.Active:
		return violated(releaseOnce, "%d permits are in flight, want %d: a call has ended and they are not back", got.Active, want.Active)
	case got.Active < want.Active:
		return violated(releaseOnce, "%d permits are in flight, want %d: they are back twice, or too early", got.Active, want.Active)
	case got != want:
		return violated(layout, "Stats() = %+v, want %+v", got, want)
	case cfg.MaxConcurrent != m.limit || cfg.MaxWait != m.maxWait:
		return violated(layout, "Config() = %+v, want MaxConcurrent %d and MaxWait %v", cfg, m.limit, m.maxWait)
	}
	return nil
}

// compareEvents compares what listeners were told since the last rest: for each
// call the same, in the same order. Which call of TryAcquire an event is about
// it does not say. How many permits were in flight is exact if that changed once
// at most, in a single move.
func (p *callPlayer) compareEvents(m *callModel) *violation {
	exact := m.moved <= 1 && len(p.moments[len(p.moments)-1].moves) == 1
	seen := func(t telling) telling {
		if !exact {
			t.Active = 0
		}
		return t
	}
	missing := slices.Clone(m.told)
	for _, got := range p.told {
		got = seen(got)
		k := slices.IndexFunc(missing, func(want telling) bool {
			return got.call == want.call && (got.call != none || got == seen(want))
		})
		switch {
		case k < 0:
			return violated(delivery, "%v: want no such event", got)
		case got != seen(missing[k]):
			return violated(delivery, "%v: want %v", got, seen(missing[k]))
		}
		missing = slices.Delete(missing, k, k+1)
	}
	if len(missing) > 0 {
		return violated(delivery, "%v: this was not told", seen(missing[0]))
	}
	return nil
}

// String shows the fields that are set.
func (t telling) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v", t.Kind)
	if t.call != none {
		fmt.Fprintf(&b, " of call %d", t.call+1)
	}
	fmt.Fprintf(&b, " to listener %d at %v {", t.listener, t.at)
	fields := reflect.ValueOf(t.Record)
	for i := range fields.NumField() {
		if f := fields.Field(i); !f.IsZero() && fields.Type().Field(i).Name != "Kind" {
			fmt.Fprintf(&b, " %s: %v", fields.Type().Field(i).Name, f)
		}
	}
	return b.String() + " }"
}

// compareTotals compares what a listener of the Config counts with the permits
// in flight: by weight, those permitted are those finished, released and running.
func (p *callPlayer) compareTotals(m *callModel) *violation {
	if p.script.listener == nil || p.script.listener.only {
		return nil
	}
	w := p.totals[0].weight
	counted := w[events.KindPermitted] - w[events.KindFinished] - w[events.KindReleased]
	inUse := p.bulkhead.Stats().Active
	for _, c := range m.calls {
		if c.phase == untold {
			inUse -= c.weight
		}
	}
	if counted != inUse {
		return violated(conservation, "the listener counts %d permits with calls that run, want %d", counted, inUse)
	}
	return nil
}

// addUp checks, once every call is over, that each is counted once by everybody
// who listened: as permitted, rejected or canceled, and the permitted ones as
// finished or released; and so are their weights.
func (p *callPlayer) addUp() *violation {
	for l, t := range p.totals {
		if p.model.listeners[l].only {
			continue
		}
		var calls, weight int64
		for _, c := range p.model.calls {
			if !c.misused && slices.Contains(c.listeners, l) {
				calls++
				weight += c.weight
			}
		}
		for _, sum := range []struct {
			what string
			of   [events.KindLimitChanged + 1]int64
			want int64
		}{{"calls", t.calls, calls}, {"weight", t.weight, weight}} {
			permitted := sum.of[events.KindPermitted]
			if got := permitted + sum.of[events.KindRejected] + sum.of[events.KindCanceled]; got != sum.want {
				return violated(delivery, "listener %d: permitted + rejected + canceled = %d by %s, want %d", l, got, sum.what, sum.want)
			}
			if got := sum.of[events.KindFinished] + sum.of[events.KindReleased]; got != permitted {
				return violated(delivery, "listener %d: finished + released = %d by %s, want those permitted, %d", l, got, sum.what, permitted)
			}
		}
	}
	return nil
}
