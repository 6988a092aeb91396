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

	// At 0 is what a bulkhead never tells. That, and what only a later version
	// tells, is looked up when it comes.
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
		Rejected: func(_ context.Context, e event.Rejected) {
			if e.Reason == 0 || e.Reason > event.Closed {
				m.rejected.WithLabelValues(name, e.Reason.String()).Inc()
				return
			}
			rejected[e.Reason].Inc()
		},
		Canceled: func(context.Context, event.Canceled) { canceled.Inc() },
		Finished: func(_ context.Context, e event.Finished) {
			run.Observe(e.Elapsed.Seconds())
			if e.Outcome == 0 || e.Outcome > event.Panicked {
				m.finished.WithLabelValues(name, e.Outcome.String()).Inc()
				return
			}
			finished[e.Outcome].Inc()
		},
		Released: func(_ context.Context, e event.Released) {
			released.Inc()
			run.Observe(e.Elapsed.Seconds())
		},
	}
}
