package eventotel_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/turnstile-go/turnstile/event/eventotel"
)

// newMetrics returns Metrics and what reads them.
func newMetrics(t testing.TB, opts ...sdkmetric.Option) (*eventotel.Metrics, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(append(opts, sdkmetric.WithReader(reader))...)
	t.Cleanup(func() { provider.Shutdown(context.Background()) })
	m, err := eventotel.New(eventotel.Options{MeterProvider: provider})
	if err != nil {
		t.Fatal(err)
	}
	return m, reader
}

// collect returns the metrics by name, without their common prefix.
func collect(t testing.TB, reader *sdkmetric.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	byName := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			byName[strings.TrimPrefix(m.Name, "turnstile.bulkhead.")] = m
		}
	}
	return byName
}

// values collects one number for each set of attributes, and of a histogram how
// many there were. A key is as in `rejected{db,full}`.
func values(t testing.TB, reader *sdkmetric.ManualReader) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for name, m := range collect(t, reader) {
		key := func(set attribute.Set) string {
			var values []string
			for _, kv := range set.ToSlice() {
				values = append(values, kv.Value.AsString())
			}
			return name + "{" + strings.Join(values, ",") + "}"
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				all[key(p.Attributes)] = p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				all[key(p.Attributes)] = int64(p.Count)
			}
		default:
			t.Errorf("%s is a %T", name, data)
		}
	}
	return all
}

// check collects and fails t unless there are the values wanted, and no others.
func check(t *testing.T, reader *sdkmetric.ManualReader, when string, want map[string]int64) {
	t.Helper()
	if diff := cmp.Diff(want, values(t, reader)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}
