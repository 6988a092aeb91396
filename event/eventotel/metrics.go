package eventotel

import (
	"cmp"
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/internal/watched"
)

// scope is the instrumentation scope of everything here.
const scope = "github.com/turnstile-go/turnstile/event/eventotel"

// The attributes.
const (
	nameKey    = attribute.Key("turnstile.bulkhead.name")
	reasonKey  = attribute.Key("turnstile.bulkhead.reason")
	outcomeKey = attribute.Key("turnstile.bulkhead.outcome")
)

// Options are for what not everybody wants the same. The zero value is good.
type Options struct {
	// MeterProvider makes the instruments. nil means the global one,
	// otel.GetMeterProvider().
	MeterProvider metric.MeterProvider
}

// Metrics are what OpenTelemetry gets to see of bulkheads. They are made by
// [New] and safe for concurrent use.
type Metrics struct {
	limit, usage, waiting metric.Int64ObservableUpDownCounter

	permitted, canceled, released metric.Int64Counter
	rejected, finished            metric.Int64Counter
	wait, run                     metric.Float64Histogram

	watched *watched.Set
}

// buckets are what the durations advise. The default ones of OpenTelemetry are
// made for milliseconds.
var buckets = metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10)

// New makes the instruments, and returns Metrics that watch nothing yet. They are
// part of the MeterProvider until that is shut down, so make them once. The error
// is the MeterProvider's.
func New(opts Options) (*Metrics, error) {
	if opts.MeterProvider == nil {
		opts.MeterProvider = otel.GetMeterProvider()
	}
	in := instruments{meter: opts.MeterProvider.Meter(scope)}
	m := &Metrics{
		limit:   in.observable("limit", "{permit}", "The limit in force: the permits in circulation."),
		usage:   in.observable("usage", "{permit}", "Permits in flight."),
		waiting: in.observable("waiting", "{call}", "Calls that wait for their permits."),

		permitted: in.counter("permitted", "Calls that got their permits."),
		rejected:  in.counter("rejected", "Calls that were refused, by reason."),
		canceled:  in.counter("canceled", "Calls that were given up before they were permitted."),
		finished:  in.counter("finished", "Permitted calls that ended, by outcome."),
		released:  in.counter("released", "Permitted calls that did not finish: canceled while they ran, or their permit was not used."),

		wait: in.histogram("wait.duration", "How long permitted calls waited for their permits."),
		run:  in.histogram("run.duration", "How long permitted calls held their permits."),

		watched: watched.New("eventotel"),
	}
	if in.err == nil {
		_, err := in.meter.RegisterCallback(m.observe, m.limit, m.usage, m.waiting)
		in.failed(err)
	}
	if in.err != nil {
		return nil, fmt.Errorf("eventotel: %w", in.err)
	}
	return m, nil
}

// instruments makes instruments, up to the first error.
type instruments struct {
	meter metric.Meter
	err   error
}

func (in *instruments) failed(err error) { in.err = cmp.Or(in.err, err) }

const prefix = "turnstile.bulkhead."

func (in *instruments) observable(name, unit, description string) metric.Int64ObservableUpDownCounter {
	i, err := in.meter.Int64ObservableUpDownCounter(prefix+name, metric.WithUnit(unit), metric.WithDescription(description))
	in.failed(err)
	return i
}

func (in *instruments) counter(name, description string) metric.Int64Counter {
	i, err := in.meter.Int64Counter(prefix+name, metric.WithUnit("{call}"), metric.WithDescription(description))
	in.failed(err)
	return i
}

func (in *instruments) histogram(name, description string) metric.Float64Histogram {
	i, err := in.meter.Float64Histogram(prefix+name, metric.WithUnit("s"), metric.WithDescription(description), buckets)
	in.failed(err)
	return i
}

// observe is called for each collection.
func (m *Metrics) observe(_ context.Context, o metric.Observer) error {
	for name, b := range m.watched.Bulkheads() {
		s := b.Stats()
		of := metric.WithAttributeSet(attribute.NewSet(nameKey.String(name)))
		o.ObserveInt64(m.limit, s.MaxConcurrent, of)
		o.ObserveInt64(m.usage, s.Active, of)
		o.ObserveInt64(m.waiting, int64(s.Waiting), of)
	}
	return nil
}

// Watch shows b from now on: its limit and what is in flight, at each
// collection, and what becomes of the calls that start from now on. So watch a
// bulkhead before it has calls. It stays reachable until [Metrics.Unwatch].
//
// It is an error, and changes nothing, if b is nil, if its name is not valid
// UTF-8, which an exporter would refuse, or if that name is taken by another
// bulkhead or by [Metrics.Listener], which would get the same attribute; so is
// watching b twice, since each call would count twice.
func (m *Metrics) Watch(b bulkhead.Any) error { return m.watched.Watch(b, m.listener) }

// Listener returns a listener that counts everything it hears as of the name
// given. It is for the Config of a [bulkhead.Keyed], all of whose keys have one
// name, and which cannot be watched. There is no limit, usage or waiting of this
// name.
//
// The error is that of [Metrics.Watch] for the name.
func (m *Metrics) Listener(name string) (event.Listener, error) {
	if err := m.watched.Take(name); err != nil {
		return event.Listener{}, err
	}
	return m.listener(name), nil
}

// Unwatch ends what [Metrics.Watch] or [Metrics.Listener] began for this name,
// and reports whether there was such a thing. Its Stats are not collected any
// more, and calls that start later do not count. The counters stay as they are,
// and go on from there if a bulkhead of this name is watched again. A listener
// that Listener returned goes on counting for as long as it is in use.
//
// So a name, once seen, takes memory in the SDK for as long as that lives. Do not
// make names up as you go.
func (m *Metrics) Unwatch(name string) bool { return m.watched.Unwatch(name) }
