package eventprom

import (
	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// Watch shows b from now on: its limit and what is in flight, at each scrape,
// and what becomes of the calls that start from now on. So watch a bulkhead
// before it has calls. It stays reachable until [Metrics.Unwatch].
//
// It is an error, and changes nothing, if b is nil, if its name is not valid
// UTF-8, which Prometheus refuses in a label, or if that name is taken by
// another bulkhead or by [Metrics.Listener], which would get the same label; so
// is watching b twice, since each call would count twice.
func (m *Metrics) Watch(b bulkhead.Any) error { return m.watched.Watch(b, m.listener) }

// Listener returns a listener that counts everything it hears as of the name
// given. It is for the Config of a [bulkhead.Keyed], all of whose keys have one
// name, and which cannot be watched. There are no gauges of this name.
//
// The error is that of [Metrics.Watch] for the name.
func (m *Metrics) Listener(name string) (event.Listener, error) {
	if err := m.watched.Take(name); err != nil {
		return event.Listener{}, err
	}
	return m.listener(name), nil
}

// Unwatch ends what [Metrics.Watch] or [Metrics.Listener] began for this name,
// and reports whether there was such a thing. The gauges are gone from the next
// scrape on, and calls that start later do not count. The counters stay as they
// are, since one that went back to 0 would look like a restart, and go on
// from there if a bulkhead of this name is watched again. A listener that
// Listener returned goes on counting for as long as it is in use.
//
// So a name, once seen, takes some kilobytes here and its time series in
// Prometheus for as long as m lives. Do not make names up as you go.
func (m *Metrics) Unwatch(name string) bool { return m.watched.Unwatch(name) }
