package eventprom_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event/eventprom"
)

// Two lines for the process, one for each bulkhead.
func Example() {
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	metrics := eventprom.New(eventprom.Options{})
	registry.MustRegister(metrics)

	payments := bulkhead.MustNew[string](bulkhead.Config{Name: "payments", MaxConcurrent: 10})
	if err := metrics.Watch(payments); err != nil {
		fmt.Println(err)
		return
	}

	payments.Execute(context.Background(), func(context.Context) (string, error) { return "receipt", nil })

	// What Prometheus gets when it asks the server for /metrics.
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		if strings.HasPrefix(line, "turnstile_") && !strings.Contains(line, "_seconds") {
			fmt.Print(line)
		}
	}
	// Output:
	// turnstile_bulkhead_active_permits{bulkhead="payments"} 0
	// turnstile_bulkhead_canceled_calls_total{bulkhead="payments"} 0
	// turnstile_bulkhead_finished_calls_total{bulkhead="payments",outcome="failed"} 0
	// turnstile_bulkhead_finished_calls_total{bulkhead="payments",outcome="ok"} 1
	// turnstile_bulkhead_finished_calls_total{bulkhead="payments",outcome="panicked"} 0
	// turnstile_bulkhead_limit_permits{bulkhead="payments"} 10
	// turnstile_bulkhead_permitted_calls_total{bulkhead="payments"} 1
	// turnstile_bulkhead_rejected_calls_total{bulkhead="payments",reason="closed"} 0
	// turnstile_bulkhead_rejected_calls_total{bulkhead="payments",reason="full"} 0
	// turnstile_bulkhead_rejected_calls_total{bulkhead="payments",reason="queue_full"} 0
	// turnstile_bulkhead_rejected_calls_total{bulkhead="payments",reason="timed_out"} 0
	// turnstile_bulkhead_rejected_calls_total{bulkhead="payments",reason="too_heavy"} 0
	// turnstile_bulkhead_released_calls_total{bulkhead="payments"} 0
	// turnstile_bulkhead_waiting_calls{bulkhead="payments"} 0
}

// All keys of a Keyed have one name, and are counted together.
func ExampleMetrics_Listener() {
	metrics := eventprom.New(eventprom.Options{})
	listener, err := metrics.Listener("tenants")
	if err != nil {
		fmt.Println(err)
		return
	}
	tenants := bulkhead.MustNewKeyed[string, int](
		bulkhead.Config{Name: "tenants", Listener: listener},
		func(tenant string) int64 { return 4 },
	)
	n, err := tenants.Execute(context.Background(), "acme", func(context.Context) (int, error) { return 42, nil })
	fmt.Println(n, err)
	// Output: 42 <nil>
}
