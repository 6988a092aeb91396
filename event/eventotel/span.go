package eventotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnstile-go/turnstile/event"
)

// The attributes of span events alone.
const (
	weightKey = attribute.Key("turnstile.bulkhead.weight")
	limitKey  = attribute.Key("turnstile.bulkhead.limit")
	waitKey   = attribute.Key("turnstile.bulkhead.wait.duration") // in seconds, as the metric of this name
)

// SpanEvents returns a listener that adds events to the span in the caller's
// context, if that is recording: turnstile.bulkhead.permitted for a call that
// had to wait, turnstile.bulkhead.rejected with the reason and the limit, and
// turnstile.bulkhead.canceled. Each says the bulkhead's name, the call's weight
// and how long it waited. TryAcquire has no context and leaves none.
//
// It keeps nothing, so one may listen to any number of bulkheads.
func SpanEvents() event.Listener {
	return event.Listener{
		Permitted: func(ctx context.Context, e event.Permitted) {
			if span := trace.SpanFromContext(ctx); e.Waited > 0 && span.IsRecording() {
				span.AddEvent("turnstile.bulkhead.permitted", trace.WithAttributes(
					nameKey.String(e.Name), weightKey.Int64(e.Weight), waitKey.Float64(e.Waited.Seconds()),
				))
			}
		},
		Rejected: func(ctx context.Context, e event.Rejected) {
			if span := trace.SpanFromContext(ctx); span.IsRecording() {
				span.AddEvent("turnstile.bulkhead.rejected", trace.WithAttributes(
					nameKey.String(e.Name), weightKey.Int64(e.Weight), waitKey.Float64(e.Waited.Seconds()),
					reasonKey.String(e.Reason.String()), limitKey.Int64(e.MaxConcurrent),
				))
			}
		},
		Canceled: func(ctx context.Context, e event.Canceled) {
			if span := trace.SpanFromContext(ctx); span.IsRecording() {
				span.AddEvent("turnstile.bulkhead.canceled", trace.WithAttributes(
					nameKey.String(e.Name), weightKey.Int64(e.Weight), waitKey.Float64(e.Waited.Seconds()),
				))
			}
		},
	}
}
