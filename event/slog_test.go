package event_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnstile-go/turnstile/event"
)

// midnight is when the tests with made-up times begin.
var midnight = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)

// textLogger returns a logger that writes lines without a time.
func textLogger(level slog.Leveler) (*slog.Logger, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), out
}

// told is an event of a test: by default a rejection of the bulkhead db.
type told struct {
	at   time.Duration // after midnight
	kind event.Kind
	name string
	why  event.Reason
}

// tell tells the event to l.
func (e told) tell(ctx context.Context, l event.Listener) {
	at, name, why := midnight.Add(e.at), e.name, e.why
	if name == "" {
		name = "db"
	}
	if why == 0 {
		why = event.Full
	}
	switch e.kind {
	case event.KindPermitted:
		l.Permitted(ctx, event.Permitted{Time: at, Name: name})
	case event.KindCanceled:
		l.Canceled(ctx, event.Canceled{Time: at, Name: name})
	case event.KindFinished:
		l.Finished(ctx, event.Finished{Time: at, Name: name})
	case event.KindReleased:
		l.Released(ctx, event.Released{Time: at, Name: name})
	case event.KindLimitChanged:
		l.LimitChanged(ctx, event.LimitChanged{Time: at, Name: name})
	default:
		l.Rejected(ctx, event.Rejected{Time: at, Name: name, Weight: 1, MaxConcurrent: 9, Reason: why})
	}
}

func TestSlogTellsRejectionsBySpells(t *testing.T) {
	const ms = time.Millisecond
	const first = `level=WARN msg="bulkhead call rejected" bulkhead=db reason=full weight=1 limit=9 waited=0s`
	more := func(rest string) string { return `level=WARN msg="bulkhead calls rejected" bulkhead=db ` + rest }
	tests := []struct {
		reason string
		events []told
		want   []string
	}{
		{
			reason: "the first is told at once",
			events: []told{{at: 0}},
			want:   []string{first},
		},
		{
			reason: "within a second, more are not told",
			events: []told{{at: 0}, {at: 1 * ms}, {at: 999 * ms}},
			want:   []string{first},
		},
		{
			reason: "after a second, the number, with the one that has just come",
			events: []told{{at: 0}, {at: 1 * ms}, {at: 999 * ms}, {at: 1000 * ms}, {at: 1001 * ms}},
			want: []string{
				first,
				more("calls=3 full=3 first=2026-07-01T00:00:00.001Z last=2026-07-01T00:00:01.000Z"),
			},
		},
		{
			reason: "each reason for itself",
			events: []told{
				{at: 0}, {at: 1 * ms, why: event.TimedOut}, {at: 2 * ms, why: event.QueueFull}, {at: 3 * ms, why: event.TooHeavy},
				{at: 4 * ms, why: event.Closed}, {at: 5 * ms, why: event.Closed}, {at: 6 * ms, why: 99}, {at: 1000 * ms},
			},
			want: []string{
				first,
				more("calls=7 Reason(0)=1 full=1 timed_out=1 queue_full=1 too_heavy=1 closed=2 " +
					"first=2026-07-01T00:00:00.001Z last=2026-07-01T00:00:01.000Z"),
			},
		},
		{
			reason: "a line a second while it goes on",
			events: []told{{at: 0}, {at: 600 * ms}, {at: 1200 * ms}, {at: 1800 * ms}, {at: 2400 * ms}},
			want: []string{
				first,
				more("calls=2 full=2 first=2026-07-01T00:00:00.600Z last=2026-07-01T00:00:01.200Z"),
				more("calls=2 full=2 first=2026-07-01T00:00:01.800Z last=2026-07-01T00:00:02.400Z"),
			},
		},
		{
			reason: "a second without a rejection ends the spell",
			events: []told{{at: 0}, {at: 1000 * ms}, {at: 1999 * ms}},
			want:   []string{first, first},
		},
		{
			reason: "the next spell tells what the last one left",
			events: []told{{at: 0}, {at: 1 * ms}, {at: 2 * ms}, {at: 1002 * ms}, {at: 1003 * ms}, {at: 2002 * ms}},
			want: []string{
				first,
				more("calls=2 full=2 first=2026-07-01T00:00:00.001Z last=2026-07-01T00:00:00.002Z"),
				first,
				more("calls=2 full=2 first=2026-07-01T00:00:01.003Z last=2026-07-01T00:00:02.002Z"),
			},
		},
		{
			reason: "another event tells it after a second, once, and not before",
			events: []told{
				{at: 0}, {at: 1 * ms},
				{at: 999 * ms, kind: event.KindPermitted},
				{at: 1000 * ms, kind: event.KindPermitted},
				{at: 2000 * ms, kind: event.KindPermitted},
			},
			want: []string{
				first,
				more("calls=1 full=1 first=2026-07-01T00:00:00.001Z last=2026-07-01T00:00:00.001Z"),
			},
		},
		{
			reason: "also in the middle of a spell, and then the next line is a second away",
			events: []told{
				{at: 0}, {at: 900 * ms}, {at: 1300 * ms, kind: event.KindFinished}, {at: 1500 * ms}, {at: 2299 * ms}, {at: 2300 * ms},
			},
			want: []string{
				first,
				more("calls=1 full=1 first=2026-07-01T00:00:00.900Z last=2026-07-01T00:00:00.900Z"),
				more("calls=3 full=3 first=2026-07-01T00:00:01.500Z last=2026-07-01T00:00:02.300Z"),
			},
		},
		{
			reason: "an event of another bulkhead does not tell it",
			events: []told{{at: 0}, {at: 1 * ms}, {at: time.Hour, kind: event.KindPermitted, name: "mail"}},
			want:   []string{first},
		},
		{
			reason: "each bulkhead has its own spells",
			events: []told{{at: 0}, {at: 1 * ms, name: "mail"}, {at: 2 * ms, name: "mail"}, {at: 3 * ms}},
			want:   []string{first, strings.Replace(first, "db", "mail", 1)},
		},
		{
			reason: "events of the same moment may come in another order",
			events: []told{{at: 10 * ms}, {at: 9 * ms}, {at: 11 * ms}, {at: 8 * ms}},
			want:   []string{first},
		},
		{
			reason: "a clock that is set back ends a spell",
			events: []told{{at: time.Hour}, {at: time.Hour + ms}, {at: 0}, {at: 1 * ms}, {at: 1000 * ms}},
			want: []string{
				first,
				more("calls=1 full=1 first=2026-07-01T01:00:00.001Z last=2026-07-01T01:00:00.001Z"),
				first,
				more("calls=2 full=2 first=2026-07-01T00:00:00.001Z last=2026-07-01T00:00:01.000Z"),
			},
		},
		{
			reason: "the beginning of time is a time like others",
			events: []told{{at: time.Time{}.Sub(midnight)}, {at: time.Time{}.Sub(midnight) + ms}},
			want:   []string{first},
		},
	}
	for _, tt := range tests {
		logger, out := textLogger(slog.LevelInfo)
		l := event.Slog(logger)
		for _, e := range tt.events {
			e.tell(t.Context(), l)
		}
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: lines (-want +got):\n%s", tt.reason, diff)
		}
	}
}

func TestSlogEveryEventTellsWhatIsLeft(t *testing.T) {
	for _, kind := range []event.Kind{
		event.KindPermitted, event.KindRejected, event.KindCanceled,
		event.KindFinished, event.KindReleased, event.KindLimitChanged,
	} {
		logger, out := textLogger(slog.LevelInfo)
		l := event.Slog(logger)
		for _, e := range []told{{at: 0}, {at: 1}, {at: time.Hour, kind: kind}} {
			e.tell(t.Context(), l)
		}
		if got := strings.Count(out.String(), "calls=1 "); got != 1 {
			t.Errorf("%v: what was left is told %d times, want once:\n%s", kind, got, out)
		}
	}
}

func TestSlogTellsEverythingAtDebug(t *testing.T) {
	logger, out := textLogger(slog.LevelDebug)
	l := event.Slog(logger)
	ctx := t.Context()
	l.Permitted(ctx, event.Permitted{Name: "db", Weight: 2, Active: 5, Waited: time.Second})
	l.Rejected(ctx, event.Rejected{Name: "db", Weight: 3, MaxConcurrent: 10, Waited: time.Minute, Reason: event.TimedOut})
	l.Rejected(ctx, event.Rejected{Name: "db", Weight: 4, MaxConcurrent: 10, Reason: event.QueueFull})
	l.Canceled(ctx, event.Canceled{Name: "db", Weight: 1, Waited: time.Second, Err: context.Canceled})
	l.Finished(ctx, event.Finished{Name: "db", Weight: 1, Active: 2, Elapsed: time.Hour, Outcome: event.OK})
	l.Finished(ctx, event.Finished{Name: "db", Weight: 1, Outcome: event.Failed, Err: errors.New("no such table")})
	l.Released(ctx, event.Released{Name: "db", Weight: 1, Active: 3, Elapsed: time.Second})
	l.Released(ctx, event.Released{Name: "db", Weight: 1, Err: context.DeadlineExceeded})
	l.LimitChanged(ctx, event.LimitChanged{Name: "db", From: 10, To: 5})
	want := `level=DEBUG msg="bulkhead call permitted" bulkhead=db weight=2 active=5 waited=1s
level=WARN msg="bulkhead call rejected" bulkhead=db reason=timed_out weight=3 limit=10 waited=1m0s
level=DEBUG msg="bulkhead call rejected" bulkhead=db reason=queue_full weight=4 limit=10 waited=0s
level=DEBUG msg="bulkhead call canceled" bulkhead=db weight=1 waited=1s error="context canceled"
level=DEBUG msg="bulkhead call finished" bulkhead=db weight=1 active=2 elapsed=1h0m0s outcome=ok
level=DEBUG msg="bulkhead call finished" bulkhead=db weight=1 active=0 elapsed=0s outcome=failed error="no such table"
level=DEBUG msg="bulkhead call released" bulkhead=db weight=1 active=3 elapsed=1s
level=DEBUG msg="bulkhead call released" bulkhead=db weight=1 active=0 elapsed=0s error="context deadline exceeded"
level=DEBUG msg="bulkhead limit changed" bulkhead=db from=10 to=5
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// TestSlogCountsEveryRejection has four goroutines reject 100,000 calls a second
// for three seconds of the events' time. They take their steps together, so that
// none falls behind by more than its machine would let it.
func TestSlogCountsEveryRejection(t *testing.T) {
	const step, callsPerStep, steps = 10 * time.Millisecond, 1000, 300
	var h tallyHandler
	l := event.Slog(slog.New(&h))
	for i := range time.Duration(steps) {
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for j := range time.Duration(callsPerStep / 4) {
					told{at: i*step + j*step/(callsPerStep/4)}.tell(t.Context(), l)
				}
			})
		}
		workers.Wait()
	}
	told{at: time.Hour, kind: event.KindPermitted}.tell(t.Context(), l)
	if got := h.single.Load() + h.counted.Load(); got != callsPerStep*steps {
		t.Errorf("%d rejections were told one by one and %d in sums, want %d in all",
			h.single.Load(), h.counted.Load(), callsPerStep*steps)
	}
	// The first, one after each full second, and what was left.
	if got := h.lines.Load(); got != 4 {
		t.Errorf("%d lines for three seconds, want 4", got)
	}
}

// tallyHandler counts lines, the rejections that have one of their own, and
// those in the sums of others.
type tallyHandler struct{ lines, single, counted atomic.Int64 }

func (h *tallyHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h *tallyHandler) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *tallyHandler) WithGroup(string) slog.Handler                { return h }

func (h *tallyHandler) Handle(_ context.Context, r slog.Record) error {
	h.lines.Add(1)
	if r.Message == "bulkhead call rejected" {
		h.single.Add(1)
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "calls" {
			h.counted.Add(a.Value.Int64())
		}
		return true
	})
	return nil
}

func TestSlogLogsAtMostTwoLinesInAnySecond(t *testing.T) {
	// Gaps on both sides of what ends a spell and of what makes a line due, with
	// and without other events in between.
	gaps := []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 450 * time.Millisecond, 999 * time.Millisecond, time.Second, 1001 * time.Millisecond}
	var h clockHandler
	l := event.Slog(slog.New(&h))
	var at time.Duration
	for i := range 20_000 {
		at += gaps[(i*i+i/7)%len(gaps)]
		h.now = at
		kind := event.KindRejected
		if i%5 == 3 {
			kind = event.KindFinished
		}
		told{at: at, kind: kind}.tell(t.Context(), l)
	}
	if len(h.lines) < 1000 {
		t.Fatalf("%d lines: the test reaches nothing", len(h.lines))
	}
	for i := 2; i < len(h.lines); i++ {
		if d := h.lines[i] - h.lines[i-2]; d < time.Second {
			t.Fatalf("three lines within %v, at %v", d, h.lines[i-2:i+1])
		}
	}
}

// clockHandler notes when a line was logged.
type clockHandler struct {
	now   time.Duration
	lines []time.Duration
}

func (h *clockHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }
func (h *clockHandler) WithAttrs([]slog.Attr) slog.Handler           { return h }
func (h *clockHandler) WithGroup(string) slog.Handler                { return h }
func (h *clockHandler) Handle(context.Context, slog.Record) error {
	h.lines = append(h.lines, h.now)
	return nil
}

// hookHandler has a line do what the test wants.
type hookHandler struct {
	tallyHandler
	do func()
}

func (h *hookHandler) Handle(ctx context.Context, r slog.Record) error {
	h.tallyHandler.Handle(ctx, r)
	if h.do != nil {
		h.do()
	}
	return nil
}

func TestSlogHandlerMayPanicBlockAndCallBack(t *testing.T) {
	var h hookHandler
	l := event.Slog(slog.New(&h))

	// A line whose handler panics is lost, and nothing else.
	h.do = func() { panic("handler") }
	if got := watch(func() { told{at: 0}.tell(t.Context(), l) }); got.panicked != "handler" {
		t.Errorf("ended with %+v, want the handler's panic", got)
	}
	h.do = nil
	told{at: 1}.tell(t.Context(), l)

	// While a handler blocks, others log and are counted.
	blocked, goOn := make(chan bool), make(chan bool)
	h.do = func() {
		h.do = nil
		blocked <- true
		<-goOn
	}
	var slow sync.WaitGroup
	slow.Go(func() { told{at: time.Second}.tell(t.Context(), l) })
	<-blocked
	told{at: time.Second + 1}.tell(t.Context(), l)
	told{at: time.Second, name: "mail"}.tell(t.Context(), l)
	close(goOn)
	slow.Wait()

	// A handler that tells an event comes back from it.
	h.do = func() {
		h.do = nil
		told{at: time.Hour}.tell(t.Context(), l)
	}
	told{at: time.Hour, kind: event.KindPermitted}.tell(t.Context(), l)

	if single, counted := h.single.Load(), h.counted.Load(); single != 3 || counted != 3 {
		t.Errorf("%d rejections were told one by one and %d in sums, want 3 and 3", single, counted)
	}
}

func TestSlogCostsNothingAtLevelsThatAreOff(t *testing.T) {
	ctx := t.Context()
	var warns tallyHandler
	errorsOnly, out := textLogger(slog.LevelError)
	for name, logger := range map[string]*slog.Logger{
		"warn":  slog.New(&warns),
		"error": errorsOnly,
	} {
		l := event.Slog(logger)
		told{at: 0}.tell(ctx, l)
		allocs := testing.AllocsPerRun(100, func() {
			for kind := event.KindPermitted; kind <= event.KindLimitChanged; kind++ {
				told{at: time.Millisecond, kind: kind}.tell(ctx, l)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations for six events, want 0", name, allocs)
		}
	}
	if got := warns.lines.Load(); got != 1 {
		t.Errorf("%d lines for one spell within a second, want 1", got)
	}
	if out.Len() != 0 {
		t.Errorf("a logger for errors got %s", out)
	}
}

func TestSlogBeginsWhenItsLevelIsTurnedOn(t *testing.T) {
	level := new(slog.LevelVar)
	level.Set(slog.LevelError)
	logger, out := textLogger(level)
	l := event.Slog(logger)
	told{at: 0}.tell(t.Context(), l)
	told{at: 1}.tell(t.Context(), l)
	level.Set(slog.LevelWarn)
	told{at: 2}.tell(t.Context(), l)
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "bulkhead call rejected") {
		t.Errorf("the first rejection since then is told as %q, want a line of its own", got)
	}
}

// ctxHandler remembers the context of the last line.
type ctxHandler struct {
	tallyHandler
	last context.Context
}

func (h *ctxHandler) Handle(ctx context.Context, _ slog.Record) error {
	h.last = ctx
	return nil
}

func TestSlogLogsWithTheCallersContext(t *testing.T) {
	type key struct{}
	var h ctxHandler
	l := event.Slog(slog.New(&h))
	for i, e := range []told{{at: 0}, {at: 1, kind: event.KindRejected}, {at: time.Hour, kind: event.KindCanceled}} {
		h.last = nil
		e.tell(context.WithValue(t.Context(), key{}, i), l)
		if i == 1 {
			continue // not logged
		}
		if h.last == nil || h.last.Value(key{}) != i {
			t.Errorf("event %d was logged with the context %v, want its own", i, h.last)
		}
	}
}

func TestSlogRefusesANilLogger(t *testing.T) {
	if got := watch(func() { event.Slog(nil) }); got.panicked != "event: Slog of a nil Logger" {
		t.Errorf("Slog(nil) ended with %+v, want a panic that says what is wrong", got)
	}
}
