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

	// mu guards byName. It is a leaf: no bulkhead is called under it.
	mu     sync.Mutex
	byName map[string]*entry
}

// entry is what takes a name.
type entry struct {
	bulkhead bulkhead.Any // nil for a listener alone

	// mu is held while the listener is subscribed and while it is unsubscribed,
	// and an entry has its name all the while: if an Unwatch did not wait for the
	// Watch that it meets, a next Watch could subscribe a second listener.
	mu          sync.Mutex
	unsubscribe func() // nil for a listener alone
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
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := s.take(name, e); err != nil {
		return err
	}
	e.unsubscribe = b.Subscribe(listener(name))
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
	e := s.byName[name]
	s.mu.Unlock()
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.unsubscribe != nil {
		e.unsubscribe()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[name] != e {
		return false // another Unwatch was first
	}
	delete(s.byName, name)
	return true
}

// Bulkheads returns those watched at this moment by the names they entered with,
// which is what tells them apart: what embeds a bulkhead may have a name of its
// own.
func (s *Set) Bulkheads() map[string]bulkhead.Any {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]bulkhead.Any, len(s.byName))
	for name, e := range s.byName {
		if e.bulkhead != nil {
			all[name] = e.bulkhead
		}
	}
	return all
}
