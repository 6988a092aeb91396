package eventotel_test

import (
	"context"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event/eventotel"
)

// Once for the process, and one line for each bulkhead.
func Example() {
	reader := sdkmetric.NewManualReader() // in a service, one that exports
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	metrics, err := eventotel.New(eventotel.Options{MeterProvider: provider})
	if err != nil {
		fmt.Println(err)
		return
	}

	payments := bulkhead.MustNew[string](bulkhead.Config{Name: "payments", MaxConcurrent: 10})
	if err := metrics.Watch(payments); err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	payments.Execute(ctx, func(context.Context) (string, error) { return "receipt", nil })

	var collected metricdata.ResourceMetrics
	reader.Collect(ctx, &collected)
	for _, m := range collected.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && len(sum.DataPoints) == 1 {
			fmt.Println(m.Name, sum.DataPoints[0].Value, m.Unit)
		}
	}
	// Unordered output:
	// turnstile.bulkhead.limit 10 {permit}
	// turnstile.bulkhead.usage 0 {permit}
	// turnstile.bulkhead.waiting 0 {call}
	// turnstile.bulkhead.permitted 1 {call}
	// turnstile.bulkhead.canceled 0 {call}
	// turnstile.bulkhead.released 0 {call}
}

// A span says why its call came to nothing.
func ExampleSpanEvents() {
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("shop")

	payments := bulkhead.MustNew[string](bulkhead.Config{Name: "payments", MaxConcurrent: 1})
	payments.Subscribe(eventotel.SpanEvents())
	payments.TryAcquire() // a slow call

	ctx, span := tracer.Start(context.Background(), "checkout")
	payments.Execute(ctx, func(context.Context) (string, error) { return "receipt", nil })
	span.End()

	for _, e := range spans.Ended()[0].Events() {
		fmt.Println(e.Name)
		for _, a := range e.Attributes {
			fmt.Printf("  %s: %s\n", a.Key, a.Value.String())
		}
	}
	// Output:
	// turnstile.bulkhead.rejected
	//   turnstile.bulkhead.name: payments
	//   turnstile.bulkhead.weight: 1
	//   turnstile.bulkhead.wait.duration: 0
	//   turnstile.bulkhead.reason: full
	//   turnstile.bulkhead.limit: 1
}
