// Package eventotel shows bulkheads to OpenTelemetry: [Metrics] through its
// metric API, and [SpanEvents] on the spans of those who call.
//
//	metrics, err := eventotel.New(eventotel.Options{})
//	if err != nil {
//		return err
//	}
//	if err := metrics.Watch(payments); err != nil {
//		return err
//	}
//	payments.Subscribe(eventotel.SpanEvents())
//
// A [bulkhead.Keyed] is one name for many limits and has no numbers of its own;
// for its Config there is [Metrics.Listener].
//
// # Metrics
//
// Each has the attribute turnstile.bulkhead.name. Permits are counted with their
// weight, calls as one each.
//
//	turnstile.bulkhead.limit          {permit}  observable up-down counter: the limit in force
//	turnstile.bulkhead.usage          {permit}  observable up-down counter: permits in flight
//	turnstile.bulkhead.waiting        {call}    observable up-down counter: calls that wait for their permits
//	turnstile.bulkhead.permitted      {call}    counter: calls that got their permits
//	turnstile.bulkhead.rejected       {call}    counter, by turnstile.bulkhead.reason: full, timed_out, queue_full, too_heavy, closed
//	turnstile.bulkhead.canceled       {call}    counter: calls given up before they were permitted
//	turnstile.bulkhead.finished       {call}    counter, by turnstile.bulkhead.outcome: ok, failed, panicked
//	turnstile.bulkhead.released       {call}    counter: permitted calls that did not finish
//	turnstile.bulkhead.wait.duration  s         histogram: how long permitted calls waited, 0 if permits were free
//	turnstile.bulkhead.run.duration   s         histogram: how long permitted calls held their permits
//
// The first three are the bulkhead's Stats at the moment of the collection, those
// of one bulkhead from one snapshot; they add up over instances. The counters
// and histograms are what its events said, so at rest
//
//	calls     = permitted + rejected + canceled
//	permitted = finished + released
//
// All of a bulkhead's counters are there, at 0, as soon as it is watched. A global
// MeterProvider that is set later has not heard of that 0, and one that exports
// deltas says it once.
//
// run.duration has calls that finished and calls that were released: those whose
// caller gave up on a hung dependency are the slow ones, and without them it
// would look quick. wait.duration has permitted calls only.
//
// The histograms advise buckets from 1 ms to 10 s. For exponential ones, which
// need no choice of buckets, give the SDK a view:
//
//	sdkmetric.NewView(
//		sdkmetric.Instrument{Name: "turnstile.bulkhead.*.duration"},
//		sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}},
//	)
//
// Measurements are made with the caller's context, so an SDK that samples
// exemplars links them to the caller's trace.
//
// # Span events
//
// SpanEvents adds an event to the caller's span when a call was permitted after
// it had waited, was rejected, or was canceled: each explains time or an error
// in a trace that would else be a riddle. A call that got in at once leaves none,
// and neither does its end, since the span of what ran says more. The span's
// status is left to its owner.
//
// # Cost
//
// A call that is permitted costs two counters and two histograms, one that is
// not a counter; what they cost is up to the SDK. This package adds no
// allocation: its attributes are made once, when a bulkhead is watched. A span
// that is not recorded costs SpanEvents a look at the context.
package eventotel
