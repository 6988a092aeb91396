package eventprom_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/turnstile-go/turnstile/event/eventprom"
)

// serve registers m in a registry of its own and serves that on loopback as a
// program would, until the test ends. It returns the address of /metrics, and
// checks that no goroutine is left.
func serve(t testing.TB, m *eventprom.Metrics) (url string) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(end) {
				t.Errorf("%d goroutines are left, want %d as before", runtime.NumGoroutine(), before)
				return
			}
		}
	})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/metrics"
}

// get returns the body of a scrape of the given format.
func get(t testing.TB, url string, format expfmt.Format) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", string(format))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("scrape: %s, %v\n%s", resp.Status, err, body)
	}
	return string(body)
}

var (
	text  = expfmt.NewFormat(expfmt.TypeTextPlain)
	proto = expfmt.NewFormat(expfmt.TypeProtoDelim)
)

// families scrapes in the given format.
func families(t testing.TB, url string, format expfmt.Format) []*dto.MetricFamily {
	t.Helper()
	decoder := expfmt.NewDecoder(strings.NewReader(get(t, url, format)), format)
	var all []*dto.MetricFamily
	for {
		var f dto.MetricFamily
		switch err := decoder.Decode(&f); err {
		case nil:
			all = append(all, &f)
		case io.EOF:
			return all
		default:
			t.Fatal(err)
		}
	}
}

// samples scrapes what Turnstile has to show. A key is a name, without its
// common prefix, and the labels, as in `rejected_calls_total{db,full}`.
func samples(t testing.TB, url string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, f := range families(t, url, text) {
		name, ours := strings.CutPrefix(f.GetName(), "turnstile_bulkhead_")
		if !ours {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			key := func(suffix string, more ...string) string {
				return name + suffix + "{" + strings.Join(append(labels, more...), ",") + "}"
			}
			switch f.GetType() {
			case dto.MetricType_GAUGE:
				all[key("")] = m.GetGauge().GetValue()
			case dto.MetricType_COUNTER:
				all[key("")] = m.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM:
				h := m.GetHistogram()
				all[key("_count")] = float64(h.GetSampleCount())
				all[key("_sum")] = h.GetSampleSum()
				for _, b := range h.GetBucket() {
					all[key("_bucket", fmt.Sprint(b.GetUpperBound()))] = float64(b.GetCumulativeCount())
				}
			default:
				t.Errorf("%s is a %v", f.GetName(), f.GetType())
			}
		}
	}
	return all
}
