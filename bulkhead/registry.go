package bulkhead

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// Registry holds the bulkheads of a process by name, for those who want to see
// them all: exporters, a status page, a shutdown. Bulkheads do not enter one by
// themselves.
//
// The zero value is empty and ready to use. A Registry is safe for concurrent
// use and must not be copied after first use.
type Registry struct {
	mu     sync.RWMutex
	byName map[string]Any
}

// Add enters b. It is an error if b is nil, or if a bulkhead of this name is
// there: both would get the same labels.
func (r *Registry) Add(b Any) error {
	// In a variable that is yet to be set, a nil *Bulkhead is not a nil Any.
	if v := reflect.ValueOf(b); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("bulkhead: a nil bulkhead cannot be registered")
	}
	name := b.Name()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.byName[name]; ok {
		return fmt.Errorf("bulkhead %q: another one of this name is registered", name)
	}
	if r.byName == nil {
		r.byName = make(map[string]Any)
	}
	r.byName[name] = b
	return nil
}

// Remove takes the bulkhead of this name out, and reports whether there was one.
// It closes nothing.
func (r *Registry) Remove(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.byName[name]
	delete(r.byName, name)
	return ok
}

// Get returns the bulkhead of this name, and whether there is one.
func (r *Registry) Get(name string) (Any, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	b, ok := r.byName[name]
	return b, ok
}

// All returns the bulkheads sorted by name. The slice is the caller's.
func (r *Registry) All() []Any {
	r.mu.RLock()
	all := slices.Collect(maps.Values(r.byName))
	r.mu.RUnlock()
	slices.SortFunc(all, func(a, b Any) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}
