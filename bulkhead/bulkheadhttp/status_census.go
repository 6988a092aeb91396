package bulkheadhttp

import (
	"reflect"
	"sync"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// censusRest is for how long nobody must have asked for a census to end. It is
// above the longest pause of a page that has trouble reaching the server.
const censusRest = time.Minute

// A census counts the calls of all bulkheads in a registry while somebody wants
// to know: it begins when first asked, and ends when nobody has asked for
// censusRest.
type census struct {
	registry *bulkhead.Registry

	// mu guards the rest. It is held while bulkheads are subscribed to, which
	// takes no lock of theirs that calls take.
	mu     sync.Mutex
	byName map[string]*counted // nil while there is no census
	asked  time.Time
}

// counted is a bulkhead with what it has told since the census found it.
type counted struct {
	bulkhead    bulkhead.Any
	since       time.Time
	counters    *event.Counters
	unsubscribe func()
}

// ask returns the registry's bulkheads sorted by name. Those that are new count
// from now on, those that are gone no longer.
func (c *census) ask() []*counted {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = time.Now()
	if c.byName == nil {
		c.byName = make(map[string]*counted)
		time.AfterFunc(censusRest, c.rest)
	}
	all := c.registry.All()
	found := make([]*counted, len(all))
	present := make(map[string]*counted, len(all))
	for i, b := range all {
		found[i] = c.count(b)
		present[b.Name()] = found[i]
	}
	for name, old := range c.byName {
		if present[name] != old {
			old.unsubscribe()
		}
	}
	c.byName = present
	return found
}

// count returns b with its counters, which are new unless the census has it. mu
// is held.
func (c *census) count(b bulkhead.Any) *counted {
	if old := c.byName[b.Name()]; old != nil && same(old.bulkhead, b) {
		return old
	}
	counters := event.NewCounters()
	return &counted{
		bulkhead:    b,
		since:       c.asked.UTC(),
		counters:    counters,
		unsubscribe: b.Subscribe(counters.Listener()),
	}
}

// rest ends the census, or looks again when it could end next. It makes a timer
// each time, as one that is reset by whoever asks would be shared by the
// synctest bubbles of a program's tests, which ends the process.
func (c *census) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := censusRest - time.Since(c.asked); left > 0 {
		time.AfterFunc(left, c.rest)
		return
	}
	for _, old := range c.byName {
		old.unsubscribe()
	}
	c.byName = nil
}

// same reports whether a and b are the same bulkhead. Those of one name and type
// that cannot be compared, such as structs with a slice that embed a bulkhead,
// are taken to be.
func same(a, b bulkhead.Any) bool {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	if !reflect.ValueOf(a).Comparable() || !reflect.ValueOf(b).Comparable() {
		return true
	}
	return a == b
}
