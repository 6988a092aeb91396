package eventotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/turnstile-go/turnstile/event"
)

// attributes are those of one measurement, in the forms that counters and
// histograms take. They are slices because the methods' variadic arguments
// would else be made for each event.
type attributes struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newAttributes(kvs ...attribute.KeyValue) attributes {
	set := metric.WithAttributeSet(attribute.NewSet(kvs...))
	return attributes{[]metric.AddOption{set}, []metric.RecordOption{set}}
}

// listener returns the listener that counts what it hears as of the bulkhead
// named. It makes all attributes, and has all counters appear at 0.
func (m *Metrics) listener(name string) event.Listener {
	of := newAttributes(nameKey.String(name))
	for _, c := range []metric.Int64Counter{m.permitted, m.canceled, m.released} {
		c.Add(context.Background(), 0, of.add...)
	}

	// At 0 is what a bulkhead never tells. For that, and for what only a later
	// version tells, attributes are made when it comes.
	var rejected [event.Closed + 1]attributes
	for r := event.Full; r <= event.Closed; r++ {
		rejected[r] = newAttributes(nameKey.String(name), reasonKey.String(r.String()))
		m.rejected.Add(context.Background(), 0, rejected[r].add...)
	}
	var finished [event.Panicked + 1]attributes
	for o := event.OK; o <= event.Panicked; o++ {
		finished[o] = newAttributes(nameKey.String(name), outcomeKey.String(o.String()))
		m.finished.Add(context.Background(), 0, finished[o].add...)
	}

	return event.Listener{
		Permitted: func(ctx context.Context, e event.Permitted) {
			m.permitted.Add(ctx, 1, of.add...)
			m.wait.Record(ctx, e.Waited.Seconds(), of.record...)
		},
		Rejected: func(ctx context.Context, e event.Rejected) {
			if e.Reason == 0 || e.Reason > event.Closed {
				m.rejected.Add(ctx, 1, newAttributes(nameKey.String(name), reasonKey.String(e.Reason.String())).add...)
				return
			}
			m.rejected.Add(ctx, 1, rejected[e.Reason].add...)
		},
		Canceled: func(ctx context.Context, _ event.Canceled) { m.canceled.Add(ctx, 1, of.add...) },
		Finished: func(ctx context.Context, e event.Finished) {
			m.run.Record(ctx, e.Elapsed.Seconds(), of.record...)
			if e.Outcome == 0 || e.Outcome > event.Panicked {
				m.finished.Add(ctx, 1, newAttributes(nameKey.String(name), outcomeKey.String(e.Outcome.String())).add...)
				return
			}
			m.finished.Add(ctx, 1, finished[e.Outcome].add...)
		},
		Released: func(ctx context.Context, e event.Released) {
			m.released.Add(ctx, 1, of.add...)
			m.run.Record(ctx, e.Elapsed.Seconds(), of.record...)
		},
	}
}
