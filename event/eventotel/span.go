package eventotel

import (
	"context"
	"strings"

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
// A name that is not valid UTF-8 is made so, since an exporter that cannot encode
// it may lose the whole batch.
//
// It keeps nothing, so one may listen to any number of bulkheads.
func SpanEvents() event.Listener {
	return event.Listener{
		Permitted: func(ctx context.Context, e event.Permitted) {
			if span := trace.SpanFromContext(ctx); e.Waited > 0 && span.IsRecording() {
				span.AddEvent("turnstile.bulkhead.permitted", trace.WithAttributes(
					nameOf(e.Name), weightKey.Int64(e.Weight), waitKey.Float64(e.Waited.Seconds()),
				))
			}
		},
		Rejected: func(ctx context.Context, e event.Rejected) {
			if span := trace.SpanFromContext(ctx); span.IsRecording() {
				span.AddEvent("turnstile.bulkhead.rejected", trace.WithAttributes(
					nameOf(e.Name), weightKey.Int64(e.Weight), waitKey.Float64(e.Waited.Seconds()),
					reasonKey.String(e.Reason.String()), limitKey.Int64(e.MaxConcurrent),
				))
			}
		},
		Canceled: func(ctx context.Context, e event.Canceled) {
			if span := trace.SpanFromContext(ctx); span.IsRecording() {
				span.AddEvent("turnstile.bulkhead.canceled", trace.WithAttributes(
					nameOf(e.Name), weightKey.Int64(e.Weight), waitKey.Float64(e.Waited.Seconds()),
				))
			}
		},
	}
}

// nameOf returns the attribute for a bulkhead's name.
func nameOf(name string) attribute.KeyValue {
	return nameKey.String(strings.ToValidUTF8(name, "\uFFFD"))
}
