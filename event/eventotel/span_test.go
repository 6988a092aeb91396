package eventotel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event/eventotel"
)

// spanEvent is an event of a span, with all attributes in their text form.
type spanEvent struct {
	Name       string
	Attributes map[string]string
}

// trace runs a call on a span of its own and returns the span's events.
func trace(t *testing.T, call func(context.Context)) []spanEvent {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	defer provider.Shutdown(t.Context())
	ctx, span := provider.Tracer("test").Start(t.Context(), "caller")
	call(ctx)
	span.End()
	var all []spanEvent
	for _, e := range recorder.Ended()[0].Events() {
		attributes := map[string]string{}
		for _, kv := range e.Attributes {
			attributes[string(kv.Key)] = kv.Value.String()
		}
		all = append(all, spanEvent{e.Name, attributes})
	}
	return all
}

func TestSpanEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, Listener: eventotel.SpanEvents()})
		// hold takes all permits for a while.
		hold := func(d time.Duration) {
			p, ok := b.Weighing(2).TryAcquire()
			if !ok {
				t.Fatal("the permits are not back")
			}
			time.AfterFunc(d, p.Release)
		}
		patient := b.Waiting(time.Minute)
		for _, tt := range []struct {
			reason string
			call   func(context.Context)
			want   []spanEvent
		}{
			{
				reason: "a call that gets in at once needs no word",
				call:   func(ctx context.Context) { b.Run(ctx, nop) },
			},
			{
				reason: "one that had to wait explains the time",
				call: func(ctx context.Context) {
					hold(1500 * time.Millisecond)
					patient.Weighing(2).Run(ctx, nop)
				},
				want: []spanEvent{{"turnstile.bulkhead.permitted", map[string]string{
					"turnstile.bulkhead.name": "db", "turnstile.bulkhead.weight": "2", "turnstile.bulkhead.wait.duration": "1.5",
				}}},
			},
			{
				reason: "a rejected one says why",
				call: func(ctx context.Context) {
					hold(time.Second)
					b.Run(ctx, nop)
					time.Sleep(time.Second)
				},
				want: []spanEvent{{"turnstile.bulkhead.rejected", map[string]string{
					"turnstile.bulkhead.name": "db", "turnstile.bulkhead.weight": "1", "turnstile.bulkhead.wait.duration": "0",
					"turnstile.bulkhead.reason": "full", "turnstile.bulkhead.limit": "2",
				}}},
			},
			{
				reason: "so does one that waited in vain",
				call: func(ctx context.Context) {
					hold(time.Hour)
					patient.Run(ctx, nop)
					time.Sleep(time.Hour)
				},
				want: []spanEvent{{"turnstile.bulkhead.rejected", map[string]string{
					"turnstile.bulkhead.name": "db", "turnstile.bulkhead.weight": "1", "turnstile.bulkhead.wait.duration": "60",
					"turnstile.bulkhead.reason": "timed_out", "turnstile.bulkhead.limit": "2",
				}}},
			},
			{
				reason: "one whose caller gave up says after how long",
				call: func(ctx context.Context) {
					hold(time.Hour)
					ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
					defer cancel()
					patient.Run(ctx, nop)
					time.Sleep(time.Hour)
				},
				want: []spanEvent{{"turnstile.bulkhead.canceled", map[string]string{
					"turnstile.bulkhead.name": "db", "turnstile.bulkhead.weight": "1", "turnstile.bulkhead.wait.duration": "0.25",
				}}},
			},
			{
				reason: "an asynchronous one tells the span it was made with",
				call: func(ctx context.Context) {
					hold(2 * time.Second)
					patient.ExecuteAsync(ctx, func(context.Context) (int, error) { return 0, nil }).Get(ctx)
				},
				want: []spanEvent{{"turnstile.bulkhead.permitted", map[string]string{
					"turnstile.bulkhead.name": "db", "turnstile.bulkhead.weight": "1", "turnstile.bulkhead.wait.duration": "2",
				}}},
			},
		} {
			if diff := cmp.Diff(tt.want, trace(t, tt.call)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
			synctest.Wait() // what was held is back
		}
	})
}

func TestSpanEventsOfANameThatIsNotUTF8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.MustNew[int](bulkhead.Config{
			Name: "caf\xe9", MaxConcurrent: 1, MaxWait: time.Minute, Listener: eventotel.SpanEvents(),
		})
		got := trace(t, func(ctx context.Context) {
			p, _ := b.TryAcquire()
			b.Waiting(0).Run(ctx, nop) // rejected
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			b.Run(short, nop) // canceled
			time.AfterFunc(time.Second, p.Release)
			b.Run(ctx, nop) // permitted
		})
		if len(got) != 3 {
			t.Fatalf("%d events, want 3: %v", len(got), got)
		}
		for _, e := range got {
			if name := e.Attributes["turnstile.bulkhead.name"]; name != "caf\uFFFD" {
				t.Errorf("%s of the bulkhead %q, want %q", e.Name, name, "caf\uFFFD")
			}
		}
	})
}

// A call without a span, or with one that is not recorded, costs next to
// nothing.
func TestSpanEventsWithoutASpan(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, Listener: eventotel.SpanEvents()})
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	defer provider.Shutdown(t.Context())
	unsampled, span := provider.Tracer("test").Start(t.Context(), "caller")
	defer span.End()
	for what, ctx := range map[string]context.Context{"no span": t.Context(), "an unsampled span": unsampled} {
		if got := testing.AllocsPerRun(100, func() { b.Run(ctx, nop) }); got != 0 {
			t.Errorf("%s: %v allocations for a call, want 0", what, got)
		}
		p, _ := b.TryAcquire()
		if got := testing.AllocsPerRun(100, func() { b.Run(ctx, nop) }); got != 0 {
			t.Errorf("%s: %v allocations for a rejected call, want 0", what, got)
		}
		p.Release()
	}
}
