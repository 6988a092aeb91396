package eventprom

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/turnstile-go/turnstile/internal/watched"
)

// Options are for what not everybody wants the same. The zero value is good.
type Options struct {
	// WaitBuckets and RunBuckets are the upper bounds, in seconds, of the
	// histograms' classic buckets, in increasing order. nil means from 1 ms to
	// 10 s in 13 steps. They are copied.
	WaitBuckets []float64
	RunBuckets  []float64
}

// defaultBuckets are prometheus.DefBuckets and some below: bulkheads also guard
// what takes a millisecond.
var defaultBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// The native histograms: what the package documentation says of them.
const (
	nativeBucketFactor = 1.1 // from one bound to the next
	nativeMaxBuckets   = 100 // then the resolution is lowered, or they start anew
	nativeMinReset     = time.Hour
)

// Metrics are what Prometheus gets to see of bulkheads. They are a
// [prometheus.Collector], made by [New] and to be registered once, in a registry
// of the user's choice. They are safe for concurrent use.
type Metrics struct {
	limit, active, waiting *prometheus.Desc

	permitted, canceled, released *prometheus.CounterVec
	rejected, finished            *prometheus.CounterVec
	wait, run                     *prometheus.HistogramVec

	watched *watched.Set
}

// New returns Metrics that watch nothing yet. It panics if buckets are given that
// are none, not in increasing order, or NaN.
func New(opts Options) *Metrics {
	gauge := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"bulkhead"}, nil)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"bulkhead"}, labels...))
	}
	return &Metrics{
		limit:   gauge("turnstile_bulkhead_limit_permits", "The limit in force: the permits in circulation."),
		active:  gauge("turnstile_bulkhead_active_permits", "Permits in flight."),
		waiting: gauge("turnstile_bulkhead_waiting_calls", "Calls that wait for their permits."),

		permitted: counter("turnstile_bulkhead_permitted_calls_total", "Calls that got their permits."),
		rejected:  counter("turnstile_bulkhead_rejected_calls_total", "Calls that were refused, by reason.", "reason"),
		canceled:  counter("turnstile_bulkhead_canceled_calls_total", "Calls that were given up before they were permitted."),
		finished:  counter("turnstile_bulkhead_finished_calls_total", "Permitted calls that ended, by outcome.", "outcome"),
		released:  counter("turnstile_bulkhead_released_calls_total", "Permitted calls that did not finish: canceled while they ran, or their permit was not used."),

		wait: histogram("WaitBuckets", "turnstile_bulkhead_wait_seconds", "How long permitted calls waited for their permits.", opts.WaitBuckets),
		run:  histogram("RunBuckets", "turnstile_bulkhead_run_seconds", "How long permitted calls held their permits.", opts.RunBuckets),

		watched: watched.New("eventprom"),
	}
}

// histogram returns one with the given classic buckets, which are those of the
// option named.
func histogram(option, name, help string, buckets []float64) *prometheus.HistogramVec {
	if buckets == nil {
		buckets = defaultBuckets
	}
	if len(buckets) == 0 {
		panic(fmt.Sprintf("eventprom: Options.%s is empty, want nil or some bounds", option))
	}
	for i, b := range buckets {
		if math.IsNaN(b) || i > 0 && b <= buckets[i-1] {
			panic(fmt.Sprintf("eventprom: Options.%s is %v, want increasing bounds", option, buckets))
		}
	}
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    name,
		Help:    help,
		Buckets: slices.Clone(buckets),

		NativeHistogramBucketFactor:     nativeBucketFactor,
		NativeHistogramMaxBucketNumber:  nativeMaxBuckets,
		NativeHistogramMinResetDuration: nativeMinReset,
	}, []string{"bulkhead"})
}

// vecs are what counts events, in the order of collection: ends before starts,
// or a call that comes and goes during a scrape could be seen to have ended but
// not to have been permitted.
func (m *Metrics) vecs() []prometheus.Collector {
	return []prometheus.Collector{m.finished, m.released, m.run, m.permitted, m.wait, m.rejected, m.canceled}
}

// Describe is for Prometheus: it sends what there is to collect.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.limit
	ch <- m.active
	ch <- m.waiting
	for _, v := range m.vecs() {
		v.Describe(ch)
	}
}

// Collect is for Prometheus: it sends all metrics of all bulkheads, with the
// gauges as they are now.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, v := range m.vecs() {
		v.Collect(ch)
	}
	for name, b := range m.watched.Bulkheads() {
		s := b.Stats()
		gauge := func(d *prometheus.Desc, v int64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), name)
		}
		gauge(m.limit, s.MaxConcurrent)
		gauge(m.active, s.Active)
		gauge(m.waiting, int64(s.Waiting))
	}
}
