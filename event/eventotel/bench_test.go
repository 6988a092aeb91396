package eventotel_test

import (
	"context"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/event/eventotel"
)

func nop(context.Context) error { return nil }

// listen returns the listener of new Metrics.
func listen(t testing.TB) event.Listener {
	t.Helper()
	m, _ := newMetrics(t)
	l, err := m.Listener("db")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

type named struct {
	name     string
	listener event.Listener
}

// listeners are what a call is measured with.
func listeners(b *testing.B) []named {
	return []named{
		{"none", event.Listener{}},
		{"counters", event.NewCounters().Listener()},
		{"eventotel", listen(b)},
		{"spans", eventotel.SpanEvents()},
	}
}

// BenchmarkPermittedFinished is a call that finds its permit free.
func BenchmarkPermittedFinished(b *testing.B) {
	for _, l := range listeners(b) {
		b.Run("listener="+l.name, func(b *testing.B) {
			db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 10, Listener: l.listener})
			b.ReportAllocs()
			for b.Loop() {
				db.Run(b.Context(), nop)
			}
		})
	}
}

// BenchmarkRejected is a call that does not wait and finds no permit.
func BenchmarkRejected(b *testing.B) {
	for _, l := range listeners(b) {
		b.Run("listener="+l.name, func(b *testing.B) {
			db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, Listener: l.listener})
			db.TryAcquire()
			b.ReportAllocs()
			for b.Loop() {
				db.Run(b.Context(), nop)
			}
		})
	}
}

// BenchmarkParallel has all processors report to the same metrics at once.
func BenchmarkParallel(b *testing.B) {
	for _, l := range listeners(b) {
		b.Run("listener="+l.name, func(b *testing.B) {
			db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1000, Listener: l.listener})
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					db.Run(b.Context(), nop)
				}
			})
		})
	}
}

// BenchmarkEvent is what one event costs, without the bulkhead that tells it.
func BenchmarkEvent(b *testing.B) {
	metrics, spans := listen(b), eventotel.SpanEvents()
	provider := sdktrace.NewTracerProvider()
	defer provider.Shutdown(context.Background())
	ctx, span := provider.Tracer("").Start(b.Context(), "")
	defer span.End()
	for _, e := range []struct {
		name string
		tell func()
	}{
		{"permitted-at-once", func() { metrics.Permitted(ctx, event.Permitted{}) }},
		{"permitted-waited", func() { metrics.Permitted(ctx, event.Permitted{Waited: 3 * time.Millisecond}) }},
		{"finished", func() { metrics.Finished(ctx, event.Finished{Outcome: event.OK, Elapsed: 3 * time.Millisecond}) }},
		{"rejected", func() { metrics.Rejected(ctx, event.Rejected{Reason: event.Full}) }},
		{"rejected-on-a-span", func() { spans.Rejected(ctx, event.Rejected{Name: "db", Reason: event.Full}) }},
	} {
		b.Run("event="+e.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.tell()
			}
		})
	}
}
