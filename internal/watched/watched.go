// Package watched is what exporters have in common: the bulkheads that each of
// them shows, by name, with no name twice.
package watched

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"unicode/utf8"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// Set is the bulkheads that one exporter watches. It is made by [New] and safe
// for concurrent use.
type Set struct {
	exporter string

	// mu guards byName and every entry in it. It is a leaf: no bulkhead is
	// called under it.
	mu     sync.Mutex
	byName map[string]*entry
}

// entry is what takes a name.
type entry struct {
	bulkhead    bulkhead.Any // nil for a listener alone
	unsubscribe func()       // nil until there is something to call
}

// New returns an empty set. The exporter is the package that its errors name.
func New(exporter string) *Set {
	return &Set{exporter: exporter, byName: map[string]*entry{}}
}

// Watch enters b and subscribes the listener made for its name. It is an error,
// and nothing is made, if b is nil or [Set.Take] would refuse the name.
func (s *Set) Watch(b bulkhead.Any, listener func(name string) event.Listener) error {
	// In a variable that is yet to be set, a nil *Bulkhead is not a nil Any.
	if v := reflect.ValueOf(b); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New(s.exporter + ": a nil bulkhead cannot be watched")
	}
	name := b.Name()
	e := &entry{bulkhead: b}
	if err := s.take(name, e); err != nil {
		return err
	}
	unsubscribe := b.Subscribe(listener(name))
	s.mu.Lock()
	e.unsubscribe = unsubscribe
	entered := s.byName[name] == e
	s.mu.Unlock()
	if !entered { // an Unwatch came in between, and found nothing to call
		unsubscribe()
	}
	return nil
}

// Take enters a name alone, for a listener that somebody attaches himself. It is
// an error if the name is not valid UTF-8, or taken: two of one name would get
// the same label, and a call of one that is watched twice would count twice.
func (s *Set) Take(name string) error { return s.take(name, &entry{}) }

func (s *Set) take(name string, e *entry) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("%s: the bulkhead's name %q is not valid UTF-8, as a label must be", s.exporter, name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.byName[name]; ok {
		return fmt.Errorf("%s: a bulkhead named %q is watched already", s.exporter, name)
	}
	s.byName[name] = e
	return nil
}

// Unwatch takes out what has this name, and reports whether there was something.
// If that is a bulkhead, the listener is unsubscribed.
func (s *Set) Unwatch(name string) bool {
	s.mu.Lock()
	e, ok := s.byName[name]
	delete(s.byName, name)
	unsubscribe := func() {}
	if ok && e.unsubscribe != nil {
		unsubscribe = e.unsubscribe
	}
	s.mu.Unlock()
	unsubscribe()
	return ok
}

// Bulkheads returns those watched at this moment, in no order.
func (s *Set) Bulkheads() []bulkhead.Any {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]bulkhead.Any, 0, len(s.byName))
	for _, e := range s.byName {
		if e.bulkhead != nil {
			all = append(all, e.bulkhead)
		}
	}
	return all
}
