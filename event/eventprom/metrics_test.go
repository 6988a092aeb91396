package eventprom_test

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/event/eventprom"
)

// check scrapes and fails t unless the samples wanted, and no others but those
// of durations, are there.
func check(t *testing.T, url, when string, want map[string]float64) {
	t.Helper()
	got := samples(t, url)
	for key := range got {
		if strings.Contains(key, "_seconds_sum{") || strings.Contains(key, "_seconds_bucket{") {
			delete(got, key)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// untouched is what a scrape has of a bulkhead without calls.
func untouched() map[string]float64 {
	return map[string]float64{
		"limit_permits{db}":                   2,
		"active_permits{db}":                  0,
		"waiting_calls{db}":                   0,
		"permitted_calls_total{db}":           0,
		"rejected_calls_total{db,full}":       0,
		"rejected_calls_total{db,timed_out}":  0,
		"rejected_calls_total{db,queue_full}": 0,
		"rejected_calls_total{db,too_heavy}":  0,
		"rejected_calls_total{db,closed}":     0,
		"canceled_calls_total{db}":            0,
		"finished_calls_total{db,ok}":         0,
		"finished_calls_total{db,failed}":     0,
		"finished_calls_total{db,panicked}":   0,
		"released_calls_total{db}":            0,
		"wait_seconds_count{db}":              0,
		"run_seconds_count{db}":               0,
	}
}

// TestScrape has calls end in every way there is, and compares what a scrape
// says on the way.
func TestScrape(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	check(t, url, "with nothing to watch", map[string]float64{})

	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, MaxQueue: 1})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	want := untouched()
	check(t, url, "before any call", want)
	set := func(values map[string]float64) {
		for key, v := range values {
			if _, ok := want[key]; !ok {
				t.Fatalf("no such sample: %s", key)
			}
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
	set(map[string]float64{
		"permitted_calls_total{db}": 7, "finished_calls_total{db,ok}": 3, "finished_calls_total{db,failed}": 2,
		"finished_calls_total{db,panicked}": 1, "released_calls_total{db}": 1, "canceled_calls_total{db}": 1,
		"wait_seconds_count{db}": 7, "run_seconds_count{db}": 7,
	})
	check(t, url, "after calls that found a permit", want)

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
	set(map[string]float64{
		"active_permits{db}": 2, "waiting_calls{db}": 1, "permitted_calls_total{db}": 8, "wait_seconds_count{db}": 8,
		"rejected_calls_total{db,full}": 4, "rejected_calls_total{db,timed_out}": 1,
		"rejected_calls_total{db,queue_full}": 3, "rejected_calls_total{db,too_heavy}": 2,
	})
	check(t, url, "while the bulkhead is full", want)

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
	set(map[string]float64{
		"limit_permits{db}": 5, "active_permits{db}": 1, "waiting_calls{db}": 0, "permitted_calls_total{db}": 9,
		"wait_seconds_count{db}": 9, "released_calls_total{db}": 2, "run_seconds_count{db}": 8,
	})
	check(t, url, "with one call left", want)
	b.Close()
	b.Run(ctx, nop)
	permit.Complete(nil)
	set(map[string]float64{
		"active_permits{db}": 0, "rejected_calls_total{db,closed}": 1,
		"finished_calls_total{db,ok}": 4, "run_seconds_count{db}": 9,
	})
	check(t, url, "when closed", want)
}

// Classic buckets are in the text, native ones in the protobuf form.
func TestHistograms(t *testing.T) {
	m := eventprom.New(eventprom.Options{RunBuckets: []float64{0.5, 2}})
	url := serve(t, m)
	l, err := m.Listener("db")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, d := range []time.Duration{0, 0, time.Millisecond, 3 * time.Millisecond, time.Minute} {
		l.Permitted(ctx, event.Permitted{Name: "db", Waited: d})
	}
	l.Finished(ctx, event.Finished{Name: "db", Outcome: event.OK, Elapsed: 250 * time.Millisecond})
	l.Finished(ctx, event.Finished{Name: "db", Outcome: event.Panicked, Elapsed: 750 * time.Millisecond})
	l.Released(ctx, event.Released{Name: "db", Elapsed: 3 * time.Second})

	got := samples(t, url)
	for key, want := range map[string]float64{
		"wait_seconds_count{db}":         5,
		"wait_seconds_sum{db}":           60.004,
		"wait_seconds_bucket{db,0.001}":  3,
		"wait_seconds_bucket{db,0.0025}": 3,
		"wait_seconds_bucket{db,0.005}":  4,
		"wait_seconds_bucket{db,10}":     4,
		"run_seconds_count{db}":          3,
		"run_seconds_sum{db}":            4,
		"run_seconds_bucket{db,0.5}":     1,
		"run_seconds_bucket{db,2}":       2,
	} {
		if v, ok := got[key]; !ok || math.Abs(v-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", key, v, want)
		}
	}

	native := map[string]*dto.Histogram{}
	for _, f := range families(t, url, proto) {
		if f.GetType() == dto.MetricType_HISTOGRAM && strings.HasPrefix(f.GetName(), "turnstile_") {
			native[f.GetName()] = f.GetMetric()[0].GetHistogram()
		}
	}
	wait, run := native["turnstile_bulkhead_wait_seconds"], native["turnstile_bulkhead_run_seconds"]
	// 3 is the coarsest schema whose buckets grow by less than a tenth.
	if wait.GetSchema() != 3 || run.GetSchema() != 3 {
		t.Errorf("schemas of the native histograms are %d and %d, want 3", wait.GetSchema(), run.GetSchema())
	}
	if got := wait.GetZeroCount(); got != 2 {
		t.Errorf("%d waits of 0, want 2", got)
	}
	for name, h := range native {
		n := int64(h.GetZeroCount())
		var bucket int64
		for _, delta := range h.GetPositiveDelta() {
			bucket += delta
			n += bucket
		}
		if n != int64(h.GetSampleCount()) {
			t.Errorf("%s: %d observations in native buckets, want all %d", name, n, h.GetSampleCount())
		}
	}
}

// A scrape takes a while. Here a call comes and goes between any two of its
// metrics.
func TestScrapeShowsNoEndBeforeItsStart(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	ch := make(chan prometheus.Metric)
	go func() {
		defer close(ch)
		m.Collect(ch)
	}()
	var permitted, finished, ran float64
	for metric := range ch {
		var sample dto.Metric
		if err := metric.Write(&sample); err != nil {
			t.Fatal(err)
		}
		switch desc := metric.Desc().String(); {
		case strings.Contains(desc, "_permitted_"):
			permitted = sample.GetCounter().GetValue()
		case strings.Contains(desc, "_finished_"):
			finished += sample.GetCounter().GetValue()
		case strings.Contains(desc, "_run_"):
			ran = float64(sample.GetHistogram().GetSampleCount())
		}
		b.Run(t.Context(), nop)
	}
	if permitted == 0 || finished > permitted || ran > permitted {
		t.Errorf("%v calls permitted, %v finished, %v have run", permitted, finished, ran)
	}
}

func TestScrapeLintsClean(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	b.Run(t.Context(), nop)
	problems, err := promlint.New(strings.NewReader(get(t, url, text))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "turnstile_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

var documentedMetric = regexp.MustCompile(`(?m)^//\t(turnstile_\w+) +(\w+)(?:, by (\w+))?: (.*)$`)

// What no version knows yet must not end the call of whoever is told.
func TestUnknownReasonsAndOutcomesCount(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	l, err := m.Listener("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []uint8{0, 77} {
		l.Rejected(t.Context(), event.Rejected{Name: "db", Reason: event.Reason(unknown)})
		l.Finished(t.Context(), event.Finished{Name: "db", Outcome: event.Outcome(unknown)})
	}
	got := samples(t, url)
	for _, key := range []string{
		"rejected_calls_total{db,Reason(0)}", "rejected_calls_total{db,Reason(77)}", "finished_calls_total{db,Outcome(0)}", "finished_calls_total{db,Outcome(77)}",
	} {
		if got[key] != 1 {
			t.Errorf("%s is %v, want 1", key, got[key])
		}
	}
}

// The table in the package documentation is what is scraped.
func TestDocumentationListsEveryMetric(t *testing.T) {
	// row is a metric's kind, and the label that it has besides the bulkhead's
	// name, with its values.
	type row struct {
		kind, label string
		values      []string
	}
	documented := map[string]row{}
	for _, m := range documentedMetric.FindAllStringSubmatch(read(t, "doc.go"), -1) {
		r := row{kind: m[2], label: m[3]}
		if r.label != "" {
			r.values = slices.Sorted(slices.Values(strings.Split(m[4], ", ")))
		}
		documented[m[1]] = r
	}

	m := eventprom.New(eventprom.Options{})
	if err := m.Watch(bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2})); err != nil {
		t.Fatal(err)
	}
	scraped := map[string]row{}
	for _, f := range families(t, serve(t, m), text) {
		if !strings.HasPrefix(f.GetName(), "turnstile_") {
			continue
		}
		r := row{kind: strings.ToLower(f.GetType().String())}
		for _, metric := range f.GetMetric() { // sorted by their labels
			for _, l := range metric.GetLabel() {
				if l.GetName() != "bulkhead" {
					r.label, r.values = l.GetName(), append(r.values, l.GetValue())
				}
			}
		}
		scraped[f.GetName()] = r
	}
	if diff := cmp.Diff(scraped, documented, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("the documentation (-scraped +documented):\n%s", diff)
	}
}

func TestBadBucketsPanic(t *testing.T) {
	for what, tt := range map[string]struct {
		opts eventprom.Options
		want string
	}{
		"falling":    {eventprom.Options{WaitBuckets: []float64{1, 0.5}}, "eventprom: Options.WaitBuckets is [1 0.5], want increasing bounds"},
		"equal":      {eventprom.Options{RunBuckets: []float64{1, 1}}, "eventprom: Options.RunBuckets is [1 1], want increasing bounds"},
		"not number": {eventprom.Options{RunBuckets: []float64{math.NaN()}}, "eventprom: Options.RunBuckets is [NaN], want increasing bounds"},
		"empty":      {eventprom.Options{WaitBuckets: []float64{}}, "eventprom: Options.WaitBuckets is empty, want nil or some bounds"},
	} {
		func() {
			defer func() {
				if got := recover(); got != tt.want {
					t.Errorf("%s: panic %v, want %q", what, got, tt.want)
				}
			}()
			eventprom.New(tt.opts)
		}()
	}
}

func TestBucketsAreCopied(t *testing.T) {
	buckets := []float64{1, 2}
	m := eventprom.New(eventprom.Options{WaitBuckets: buckets})
	slices.Reverse(buckets)
	if _, err := m.Listener("db"); err != nil {
		t.Fatal(err)
	}
	if _, ok := samples(t, serve(t, m))["wait_seconds_bucket{db,1}"]; !ok {
		t.Error("the buckets are not those that New was given")
	}
}
