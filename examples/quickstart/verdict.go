package main

import (
	"errors"
	"fmt"

	"github.com/turnstile-go/turnstile/event"
)

// verdict returns an error that has a line for each promise that the report
// shows to be broken, and nil if all were kept.
func (r report) verdict() error {
	var broken []error
	check := func(kept bool, format string, args ...any) {
		if !kept {
			broken = append(broken, fmt.Errorf("broken promise: "+format, args...))
		}
	}
	cfg := r.config

	r.without.checkAnswers(check, "without a bulkhead", cfg.burst)
	check(r.without.highest > cfg.capacity,
		"without a bulkhead: the downstream saw only %d calls at once, which shows nothing", r.without.highest)

	r.with.checkAnswers(check, "with a bulkhead", cfg.burst)
	r.with.checkCalls(check, "with a bulkhead", cfg)
	check(r.with.count(served) > 0, "with a bulkhead: nobody was served")

	check(len(r.timeouts) == cfg.timeouts, "%d bursts timed out, want %d", len(r.timeouts), cfg.timeouts)
	for i, f := range r.timeouts {
		name := fmt.Sprintf("timing out, %d of %d", i+1, cfg.timeouts)
		f.checkAnswers(check, name, cfg.waiters)
		f.checkCalls(check, name, cfg)
		expired := f.rejections(event.TimedOut)
		check(expired == len(f.answers), "%s: %d of %d requests timed out", name, expired, len(f.answers))
	}
	return errors.Join(broken...)
}

// checker notes a broken promise unless it was kept.
type checker = func(kept bool, format string, args ...any)

// checkAnswers looks at the load from the clients' side.
func (f figures) checkAnswers(check checker, name string, l load) {
	check(len(f.answers) == l.clients, "%s: %d answers for %d clients", name, len(f.answers), l.clients)
	for _, a := range f.answers {
		if a.kind == wrong {
			check(false, "%s: wrong answer: %s", name, a.detail)
			break // the first says enough
		}
	}
}

// checkCalls looks at the bulkhead from the inside: what ran, and what it told.
func (f figures) checkCalls(check checker, name string, cfg config) {
	check(f.highest <= cfg.capacity,
		"%s: the downstream saw %d calls at once, more than %d", name, f.highest, cfg.capacity)
	check(f.left == cfg.bulkhead.MaxConcurrent,
		"%s: %d permits left, want %d", name, f.left, cfg.bulkhead.MaxConcurrent)

	e := f.events
	total := e.permitted + e.canceled
	for _, n := range e.rejected {
		total += n
	}
	check(f.lookups == total, "%s: %d calls, but events tell of %d", name, f.lookups, total)
	check(f.calls == e.permitted, "%s: %d calls ran, but %d were permitted", name, f.calls, e.permitted)
	check(e.permitted == e.finished+e.released,
		"%s: %d calls permitted, but %d finished and %d released", name, e.permitted, e.finished, e.released)

	// Of the clients who gave up nobody knows what their answer would have been.
	unknown := f.count(gaveUp)
	agree := func(what string, seen, told int) {
		check(seen <= told && told <= seen+unknown,
			"%s: clients saw %d calls %s, but events tell of %d", name, seen, what, told)
	}
	agree("served", f.count(served), e.finished)
	for reason := event.Full; reason <= event.Closed; reason++ {
		agree("rejected as "+reason.String(), f.rejections(reason), e.rejected[reason])
	}
}
