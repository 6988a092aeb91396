package eventprom

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnstile-go/turnstile/event"
)

// listener returns the listener that counts what it hears as of the bulkhead
// named. It looks everything up, which makes it appear in a scrape, at 0, so
// that an event costs no look-up.
func (m *Metrics) listener(name string) event.Listener {
	permitted := m.permitted.WithLabelValues(name)
	canceled := m.canceled.WithLabelValues(name)
	released := m.released.WithLabelValues(name)
	wait := m.wait.WithLabelValues(name)
	run := m.run.WithLabelValues(name)

	// At 0 is what a bulkhead never tells.
	var rejected [event.Closed + 1]prometheus.Counter
	for r := event.Full; r <= event.Closed; r++ {
		rejected[r] = m.rejected.WithLabelValues(name, r.String())
	}
	var finished [event.Panicked + 1]prometheus.Counter
	for o := event.OK; o <= event.Panicked; o++ {
		finished[o] = m.finished.WithLabelValues(name, o.String())
	}

	return event.Listener{
		Permitted: func(_ context.Context, e event.Permitted) {
			permitted.Inc()
			wait.Observe(e.Waited.Seconds())
		},
		Rejected: func(_ context.Context, e event.Rejected) { rejected[e.Reason].Inc() },
		Canceled: func(context.Context, event.Canceled) { canceled.Inc() },
		Finished: func(_ context.Context, e event.Finished) {
			finished[e.Outcome].Inc()
			run.Observe(e.Elapsed.Seconds())
		},
		Released: func(_ context.Context, e event.Released) {
			released.Inc()
			run.Observe(e.Elapsed.Seconds())
		},
	}
}
