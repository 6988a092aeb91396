// Package eventprom shows bulkheads to Prometheus. [Metrics] is a collector:
// register it, and have it watch each bulkhead.
//
//	metrics := eventprom.New(eventprom.Options{})
//	prometheus.MustRegister(metrics)
//
//	if err := metrics.Watch(payments); err != nil {
//		return err
//	}
//
// A [bulkhead.Keyed] is one name for many limits and has no numbers of its own;
// for its Config there is [Metrics.Listener].
//
// # Metrics
//
// Each has the label bulkhead, which is the bulkhead's name. Permits are counted
// with their weight, calls as one each.
//
//	turnstile_bulkhead_limit_permits          gauge: the limit in force
//	turnstile_bulkhead_active_permits         gauge: permits in flight
//	turnstile_bulkhead_waiting_calls          gauge: calls that wait for their permits
//	turnstile_bulkhead_permitted_calls_total  counter: calls that got their permits
//	turnstile_bulkhead_rejected_calls_total   counter, by reason: full, timed_out, queue_full, too_heavy, closed
//	turnstile_bulkhead_canceled_calls_total   counter: calls given up before they were permitted
//	turnstile_bulkhead_finished_calls_total   counter, by outcome: ok, failed, panicked
//	turnstile_bulkhead_released_calls_total   counter: permitted calls that did not finish
//	turnstile_bulkhead_wait_seconds           histogram: how long permitted calls waited, 0 if permits were free
//	turnstile_bulkhead_run_seconds            histogram: how long permitted calls held their permits
//
// The gauges are the bulkhead's Stats at the moment of the scrape, the three of
// one bulkhead from one snapshot. The counters and histograms are what its events
// said, so at rest
//
//	calls     = permitted + rejected + canceled
//	permitted = finished + released
//
// and a scrape while calls go on never shows a call that ended without having
// been permitted. All of a bulkhead's counters are there, at 0, as soon as it is
// watched: rate and increase see the first event, and an alert on a reason that
// never came is not an alert on nothing.
//
// run_seconds has calls that finished and calls that were released: those whose
// caller gave up on a hung dependency are the slow ones, and without them it
// would look quick. Its sum, by rate, is the average number of calls that run.
// wait_seconds has permitted calls only; for those that were not, see the
// counters.
//
// The histograms are native ones, of a resolution of 10 % in up to 100 buckets,
// for a Prometheus that scrapes those, and have classic buckets as well, from
// 1 ms to 10 s if [Options] says nothing else. A scrape in text form has the
// classic ones only.
//
// # Dashboard and alerts
//
// Beside this package's source are grafana/dashboard.json, a dashboard of these
// metrics to import into Grafana, and alerts/turnstile.yml, two alerting rules:
// BulkheadRejecting for a lasting share of rejected calls, and BulkheadStuck for
// a bulkhead whose permits are taken or asked for while no call ever ends, be it
// that a dependency hangs or that somebody lost permits.
//
// # Cost
//
// A call that is permitted costs two counters and two histograms, one that is
// not a counter. Neither allocates, but for a histogram's first observation in a
// native bucket, nor takes a lock of this package's: what a listener needs was
// looked up when it was made.
package eventprom
