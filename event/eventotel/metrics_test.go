package eventotel_test

import (
	"context"
	"errors"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/event/eventotel"
)

// untouched is what is collected of a bulkhead without calls.
func untouched() map[string]int64 {
	return map[string]int64{
		"limit{db}":               2,
		"usage{db}":               0,
		"waiting{db}":             0,
		"permitted{db}":           0,
		"rejected{db,full}":       0,
		"rejected{db,timed_out}":  0,
		"rejected{db,queue_full}": 0,
		"rejected{db,too_heavy}":  0,
		"rejected{db,closed}":     0,
		"canceled{db}":            0,
		"finished{db,ok}":         0,
		"finished{db,failed}":     0,
		"finished{db,panicked}":   0,
		"released{db}":            0,
	}
}

// TestCollect has calls end in every way there is, and compares what is
// collected on the way.
func TestCollect(t *testing.T) {
	m, reader := newMetrics(t)
	check(t, reader, "with nothing to watch", map[string]int64{})

	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, MaxQueue: 1})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	want := untouched()
	check(t, reader, "before any call", want)
	set := func(values map[string]int64) {
		for key, v := range values {
			want[key] = v
		}
	}
	ctx := t.Context()

	// Calls that find a permit.
	for range 3 {
		b.Run(ctx, nop)
	}
	for range 2 {
		b.Run(ctx, func(context.Context) error { return errors.New("boom") })
	}
	func() {
		defer func() { _ = recover() }()
		b.Run(ctx, func(context.Context) error { panic("boom") })
	}()
	ended, cancel := context.WithCancel(ctx)
	b.Run(ended, func(ctx context.Context) error {
		cancel()
		return ctx.Err()
	})
	b.Run(ended, nop) // canceled before
	set(map[string]int64{
		"permitted{db}": 7, "finished{db,ok}": 3, "finished{db,failed}": 2, "finished{db,panicked}": 1,
		"released{db}": 1, "canceled{db}": 1, "wait.duration{db}": 7, "run.duration{db}": 7,
	})
	check(t, reader, "after calls that found a permit", want)

	// Calls that do not.
	both, ok := b.Weighing(2).TryAcquire()
	if !ok {
		t.Fatal("the permits are not back")
	}
	for range 4 {
		b.Run(ctx, nop)
	}
	b.Waiting(time.Nanosecond).Run(ctx, nop)
	patient := b.Waiting(bulkhead.Forever)
	queued := patient.AcquireAsync(ctx)
	for range 3 {
		patient.Run(ctx, nop)
	}
	for range 2 {
		b.Weighing(3).Run(ctx, nop)
	}
	set(map[string]int64{
		"usage{db}": 2, "waiting{db}": 1, "permitted{db}": 8, "wait.duration{db}": 8,
		"rejected{db,full}": 4, "rejected{db,timed_out}": 1, "rejected{db,queue_full}": 3, "rejected{db,too_heavy}": 2,
	})
	check(t, reader, "while the bulkhead is full", want)

	// The one that waits gets in; then the limit changes, and in the end there
	// is none.
	both.Release()
	permit, err := queued.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetMaxConcurrent(5); err != nil {
		t.Fatal(err)
	}
	set(map[string]int64{
		"limit{db}": 5, "usage{db}": 1, "waiting{db}": 0, "permitted{db}": 9, "wait.duration{db}": 9,
		"released{db}": 2, "run.duration{db}": 8,
	})
	check(t, reader, "with one call left", want)
	b.Close()
	b.Run(ctx, nop)
	permit.Complete(nil)
	set(map[string]int64{"usage{db}": 0, "rejected{db,closed}": 1, "finished{db,ok}": 4, "run.duration{db}": 9})
	check(t, reader, "when closed", want)
}

var documentedMetric = regexp.MustCompile(`(?m)^//\t(turnstile[.\w]+) +(\{?\w+\}?) +(?:observable )?([-\w ]+?)(?:, by ([.\w]+))?: (.*)$`)

// What no version knows yet must not end the call of whoever is told.
func TestUnknownReasonsAndOutcomesCount(t *testing.T) {
	m, reader := newMetrics(t)
	l, err := m.Listener("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []uint8{0, 77} {
		l.Rejected(t.Context(), event.Rejected{Name: "db", Reason: event.Reason(unknown)})
		l.Finished(t.Context(), event.Finished{Name: "db", Outcome: event.Outcome(unknown)})
	}
	got := values(t, reader)
	for _, key := range []string{
		"rejected{db,Reason(0)}", "rejected{db,Reason(77)}", "finished{db,Outcome(0)}", "finished{db,Outcome(77)}",
	} {
		if got[key] != 1 {
			t.Errorf("%s is %v, want 1", key, got[key])
		}
	}
}

// The table in the package documentation is what is collected: names, units,
// whether a sum may fall, and attributes.
func TestDocumentationListsEveryMetric(t *testing.T) {
	// row is a metric without its name; by is the attribute that it has besides
	// the bulkhead's name, with its values.
	type row struct {
		unit, kind, by string
		values         []string
	}
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]row{}
	for _, m := range documentedMetric.FindAllStringSubmatch(string(text), -1) {
		r := row{unit: m[2], kind: m[3], by: m[4]}
		if r.by != "" {
			r.values = slices.Sorted(slices.Values(strings.Split(m[5], ", ")))
		}
		documented[m[1]] = r
	}

	m, reader := newMetrics(t)
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	b.Run(t.Context(), nop)
	collected := map[string]row{}
	for _, m := range collect(t, reader) {
		r := row{unit: m.Unit, kind: "histogram"}
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
			r.kind = "up-down counter"
			if sum.IsMonotonic {
				r.kind = "counter"
			}
			for _, p := range sum.DataPoints {
				for _, kv := range p.Attributes.ToSlice() {
					if kv.Key != "turnstile.bulkhead.name" {
						r.by, r.values = string(kv.Key), append(r.values, kv.Value.AsString())
					}
				}
			}
			slices.Sort(r.values)
		}
		collected[m.Name] = r
		if !strings.HasSuffix(m.Description, ".") {
			t.Errorf("%s: %q", m.Name, m.Description)
		}
	}
	if diff := cmp.Diff(collected, documented, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("the documentation (-collected +documented):\n%s", diff)
	}
}

func TestHistograms(t *testing.T) {
	m, reader := newMetrics(t)
	l, err := m.Listener("db")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, d := range []time.Duration{0, time.Millisecond, 3 * time.Millisecond, time.Minute} {
		l.Permitted(ctx, event.Permitted{Name: "db", Waited: d})
	}
	l.Finished(ctx, event.Finished{Name: "db", Outcome: event.OK, Elapsed: 250 * time.Millisecond})
	l.Released(ctx, event.Released{Name: "db", Elapsed: 3 * time.Second})

	for name, want := range map[string]struct {
		sum    float64
		counts []uint64
	}{
		"wait.duration": {60.004, []uint64{2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}},
		"run.duration":  {3.25, []uint64{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0}},
	} {
		p := collect(t, reader)[name].Data.(metricdata.Histogram[float64]).DataPoints[0]
		if math.Abs(p.Sum-want.sum) > 1e-9 || !slices.Equal(p.BucketCounts, want.counts) {
			t.Errorf("%s: sum %v in buckets %v, want %v and %v", name, p.Sum, p.BucketCounts, want.sum, want.counts)
		}
	}
}

// The view of the package documentation.
func TestExponentialHistograms(t *testing.T) {
	m, reader := newMetrics(t, sdkmetric.WithView(sdkmetric.NewView(
		sdkmetric.Instrument{Name: "turnstile.bulkhead.*.duration"},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 20}},
	)))
	l, err := m.Listener("db")
	if err != nil {
		t.Fatal(err)
	}
	l.Permitted(t.Context(), event.Permitted{Name: "db"})
	l.Permitted(t.Context(), event.Permitted{Name: "db", Waited: time.Second})
	l.Finished(t.Context(), event.Finished{Name: "db", Outcome: event.OK, Elapsed: time.Second})
	all := collect(t, reader)
	wait, ok := all["wait.duration"].Data.(metricdata.ExponentialHistogram[float64])
	if !ok || wait.DataPoints[0].Count != 2 || wait.DataPoints[0].ZeroCount != 1 {
		t.Errorf("waits are %+v, want an exponential histogram of a 0 and another one", all["wait.duration"].Data)
	}
	if _, ok := all["run.duration"].Data.(metricdata.ExponentialHistogram[float64]); !ok {
		t.Errorf("run times are a %T, want an exponential histogram", all["run.duration"].Data)
	}
}

// A measurement leads to the trace that it was made in.
func TestExemplarsHaveTheCallersTrace(t *testing.T) {
	m, reader := newMetrics(t)
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider()
	defer provider.Shutdown(t.Context())
	ctx, span := provider.Tracer("test").Start(t.Context(), "caller")
	b.Run(ctx, func(ctx context.Context) error { return b.Run(ctx, nop) })
	span.End()

	all := collect(t, reader)
	id := span.SpanContext().TraceID()
	for _, name := range []string{"wait.duration", "run.duration"} {
		p := all[name].Data.(metricdata.Histogram[float64]).DataPoints[0]
		if len(p.Exemplars) == 0 || string(p.Exemplars[0].TraceID) != string(id[:]) {
			t.Errorf("%s has exemplars %+v, want the trace %v", name, p.Exemplars, id)
		}
	}
	for _, p := range all["rejected"].Data.(metricdata.Sum[int64]).DataPoints {
		if p.Value > 0 && (len(p.Exemplars) == 0 || string(p.Exemplars[0].TraceID) != string(id[:])) {
			t.Errorf("rejected has exemplars %+v, want the trace %v", p.Exemplars, id)
		}
	}
}

func TestNilMeansTheGlobalProvider(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer provider.Shutdown(context.Background())
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(provider)
	defer otel.SetMeterProvider(before)
	m, err := eventotel.New(eventotel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Watch(bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2})); err != nil {
		t.Fatal(err)
	}
	check(t, reader, "through the global provider", untouched())
}

var errBroken = errors.New("broken")

// brokenProvider makes a meter that fails to do one thing.
type brokenProvider struct {
	noop.MeterProvider
	broken string
}

func (p brokenProvider) Meter(string, ...metric.MeterOption) metric.Meter {
	return brokenMeter{broken: p.broken}
}

type brokenMeter struct {
	noop.Meter
	broken string
}

func (m brokenMeter) errorOf(name string) error {
	if m.broken == name {
		return errBroken
	}
	return nil
}

func (m brokenMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return noop.Int64Counter{}, m.errorOf(name)
}

func (m brokenMeter) Int64ObservableUpDownCounter(name string, _ ...metric.Int64ObservableUpDownCounterOption) (metric.Int64ObservableUpDownCounter, error) {
	return noop.Int64ObservableUpDownCounter{}, m.errorOf(name)
}

func (m brokenMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return noop.Float64Histogram{}, m.errorOf(name)
}

func (m brokenMeter) RegisterCallback(metric.Callback, ...metric.Observable) (metric.Registration, error) {
	return noop.Registration{}, m.errorOf("callback")
}

func TestNewFailsIfItsInstrumentsDo(t *testing.T) {
	for _, broken := range []string{
		"turnstile.bulkhead.limit", "turnstile.bulkhead.released", "turnstile.bulkhead.wait.duration", "callback",
	} {
		m, err := eventotel.New(eventotel.Options{MeterProvider: brokenProvider{broken: broken}})
		if m != nil || !errors.Is(err, errBroken) || err.Error() != "eventotel: broken" {
			t.Errorf("with a broken %s, New = %v, %v, want the error", broken, m, err)
		}
	}
	if _, err := eventotel.New(eventotel.Options{MeterProvider: brokenProvider{}}); err != nil {
		t.Errorf("with nothing broken: %v", err)
	}
}
