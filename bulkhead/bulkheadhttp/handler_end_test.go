package bulkheadhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// panicHere is looked for in stacks.
func panicHere(http.ResponseWriter, *http.Request) { panic("boom") }

// A limiter once lost a permit with every panic, and answered 429 in the end:
// https://github.com/valyala/fasthttp/issues/2219
func TestPermitComesBackFromAHandlerThatPanics(t *testing.T) {
	timeout := around(func(h http.Handler) http.Handler { return http.TimeoutHandler(h, patience, "") })
	for _, tc := range []struct {
		name  string
		next  http.HandlerFunc
		setup []func(*http.Server)
		log   []string // what is logged of each
	}{
		{"panic", panicHere, nil, []string{"panic serving", "panicHere("}},
		{"panic within http.TimeoutHandler", panicHere, []func(*http.Server){timeout}, []string{"panic serving"}},
		{"http.ErrAbortHandler", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, nil},
		{"runtime.Goexit", func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			overProtocols(t, func(t *testing.T, p protocol) {
				next := func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost { // which clients do not send again by themselves
						tc.next(w, r)
					}
				}
				s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, next, tc.setup...)
				const times = 5
				for range times {
					if a, err := s.do(t.Context(), http.MethodPost, "/", nil); err == nil {
						t.Errorf("got %d %q, want no answer", a.status, a.body)
					}
				}
				s.tape.wait(t, times, event.KindFinished)
				s.wantStatus("/", http.StatusOK)
				log := ""
				for _, want := range tc.log { // HTTP/2 answers first and logs then
					until(t, "each panic is logged with "+want, func() bool {
						log += s.log.take()
						return strings.Count(log, want) == times
					})
				}
			})
		})
	}
}

// serve lets h have a request, and says how h ended.
func serve(ctx context.Context, h http.Handler) (panicked any, goexit bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		goexit = true
		defer func() {
			if panicked = recover(); panicked != nil {
				goexit = false
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		goexit = false
	}()
	<-done
	return panicked, goexit
}

// Whatever a listener does when it is told, the handler's panic or Goexit is
// what the server gets.
func TestPanicGoesOnAsItIs(t *testing.T) {
	value := new(int)
	for _, end := range []struct {
		name   string
		next   http.HandlerFunc
		value  any
		goexit bool
	}{
		{"return", func(http.ResponseWriter, *http.Request) {}, nil, false},
		{"panic", func(http.ResponseWriter, *http.Request) { panic(value) }, value, false},
		{"Goexit", func(http.ResponseWriter, *http.Request) { runtime.Goexit() }, nil, true},
	} {
		for _, listener := range []struct {
			name     string
			finished func()
		}{
			{"listens", func() {}},
			{"panics", func() { panic("the listener's") }},
			{"calls Goexit", runtime.Goexit},
		} {
			tape := newTape()
			b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1, Listener: event.Join(
				tape.listener(),
				event.Listener{Finished: func(context.Context, event.Finished) { listener.finished() }},
			)})
			panicked, goexit := serve(t.Context(), bulkheadhttp.NewHandler(b, end.next, bulkheadhttp.HandlerOptions{}))
			wantValue, wantGoexit := end.value, end.goexit
			if end.name == "return" { // then the listener's counts
				wantGoexit = listener.name == "calls Goexit"
				if listener.name == "panics" {
					wantValue = "the listener's"
				}
			}
			if panicked != wantValue || goexit != wantGoexit {
				t.Errorf("%s, and a listener that %s: panic %v, Goexit %v; want %v, %v",
					end.name, listener.name, panicked, goexit, wantValue, wantGoexit)
			}
			tape.checkAtRest(t, b)
		}
	}
}

// How a request ends is told once, whatever meets.
func TestEndsAreTold(t *testing.T) {
	early := func(r *http.Request) { bulkheadhttp.ReleaseEarly(r.Context()) }
	left, leave := context.WithCancel(t.Context())
	defer leave()
	for _, tc := range []struct {
		reason string
		next   func(*http.Request)
		want   string
	}{
		{"it returns", func(*http.Request) {}, "finished ok"},
		{"its client has left meanwhile", func(*http.Request) { leave() }, "finished ok"},
		{"it panics", func(*http.Request) { panic("boom") }, "finished panicked"},
		{"it aborts", func(*http.Request) { panic(http.ErrAbortHandler) }, "finished panicked"},
		{"it calls Goexit", func(*http.Request) { runtime.Goexit() }, "finished panicked"},
		{"it releases early", early, "finished ok"},
		{"it releases early, twice", func(r *http.Request) { early(r); early(r) }, "finished ok"},
		{"it releases early and panics", func(r *http.Request) { early(r); panic("boom") }, "finished ok"},
		{"it releases early and calls Goexit", func(r *http.Request) { early(r); runtime.Goexit() }, "finished ok"},
	} {
		tape := newTape()
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1, Listener: tape.listener()})
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { tc.next(r) })
		serve(left, bulkheadhttp.NewHandler(b, next, bulkheadhttp.HandlerOptions{}))
		ends := tape.of(event.KindFinished, event.KindReleased)
		if len(ends) != 1 || describe(ends[0]) != tc.want {
			t.Errorf("%s: told %+v, want one that is %s", tc.reason, ends, tc.want)
		}
		tape.checkAtRest(t, b)
		left, leave = context.WithCancel(t.Context())
		defer leave()
	}
}

func TestReleaseEarlyGivesThePermitBackAtOnce(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		released, leave := make(chan struct{}), make(chan struct{})
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/events" {
				// A context made from the request's will do.
				ctx, cancel := context.WithTimeout(r.Context(), time.Hour)
				defer cancel()
				bulkheadhttp.ReleaseEarly(ctx)
				released <- struct{}{}
				<-leave
			}
		})
		stream := s.send("/events")
		receive(t, released)
		if active := s.Stats().Active; active != 0 {
			t.Errorf("%d permits in flight, want 0", active)
		}
		s.wantStatus("/", http.StatusOK)
		close(leave)
		if got := stream.wait(); got.status != http.StatusOK {
			t.Errorf("status %d, want 200", got.status)
		}
		s.wantEvents("permitted", "finished ok", "permitted", "finished ok")
	})
}

// Of nested handlers, those that the request has passed are left.
func TestReleaseEarlyLeavesAllHandlersSoFar(t *testing.T) {
	type active struct{ outer, inner int64 }
	for _, tc := range []struct {
		reason   string
		where    string // who calls ReleaseEarly
		finished func() // what the inner bulkhead's listener does
		want     active // when the innermost handler goes on
	}{
		{"nobody calls it", "", func() {}, active{1, 1}},
		{"the innermost calls it", "inside", func() {}, active{0, 0}},
		{"who is in between calls it", "between", func() {}, active{0, 1}},
		{"a listener panics", "inside", func() { panic("the listener's") }, active{0, 0}},
		{"a listener calls Goexit", "inside", runtime.Goexit, active{0, 0}},
	} {
		outer := bulkhead.MustNew[int](bulkhead.Config{Name: "outer", MaxConcurrent: 1})
		inner := bulkhead.MustNew[int](bulkhead.Config{Name: "inner", MaxConcurrent: 1, Listener: event.Listener{
			Finished: func(context.Context, event.Finished) { tc.finished() },
		}})
		var got active
		note := func() { got = active{outer.Stats().Active, inner.Stats().Active} }
		h := bulkheadhttp.NewHandler(inner, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer note()
			if tc.where == "inside" {
				bulkheadhttp.ReleaseEarly(r.Context())
			}
		}), bulkheadhttp.HandlerOptions{})
		between := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tc.where == "between" {
				bulkheadhttp.ReleaseEarly(r.Context())
			}
			h.ServeHTTP(w, r)
		})
		serve(t.Context(), bulkheadhttp.NewHandler(outer, between, bulkheadhttp.HandlerOptions{}))
		if got != tc.want {
			t.Errorf("%s: in flight %+v, want %+v", tc.reason, got, tc.want)
		}
		for _, b := range []bulkhead.Any{outer, inner} {
			newTape().checkAtRest(t, b)
		}
	}
}

func TestReleaseEarlyWithoutAPermitDoesNothing(t *testing.T) {
	bulkheadhttp.ReleaseEarly(context.Background())
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	var after context.Context
	h := bulkheadhttp.NewHandler(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after = r.Context()
	}), bulkheadhttp.HandlerOptions{})
	serve(t.Context(), h)
	permit, ok := b.TryAcquire() // somebody else's
	if !ok {
		t.Fatal("the permit is not back")
	}
	bulkheadhttp.ReleaseEarly(after)
	if active := b.Stats().Active; active != 1 {
		t.Errorf("%d permits in flight after a late ReleaseEarly, want 1", active)
	}
	permit.Release()
	newTape().checkAtRest(t, b)
}

// ReleaseEarly on several goroutines, and a return, a panic or a Goexit of the
// handler in the same moment: one of them gives the permit back.
func TestPermitIsBackOnceHoweverEndsMeet(t *testing.T) {
	const rounds = 3000
	told := make(chan struct{}, 2*rounds)
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 3, Listener: event.Listener{
		Finished: func(context.Context, event.Finished) { told <- struct{}{} },
	}})
	ends := []func(){func() {}, func() { panic("boom") }, runtime.Goexit}
	var next int
	var early sync.WaitGroup
	h := bulkheadhttp.NewHandler(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := make(chan struct{})
		for range 2 {
			early.Go(func() {
				<-start
				bulkheadhttp.ReleaseEarly(r.Context())
			})
		}
		close(start)
		ends[next%len(ends)]()
	}), bulkheadhttp.HandlerOptions{})
	permit, _ := b.TryAcquire() // so that one too many would show
	for next = range rounds {
		serve(t.Context(), h)
		early.Wait()
		if active := b.Stats().Active; active != 1 || len(told) != next+1 {
			t.Fatalf("round %d: %d permits in flight, want 1; told %d times in all", next, active, len(told))
		}
	}
	permit.Release()
	newTape().checkAtRest(t, b)
}

// The context that the handler gets is that of the request, but for the permit.
func TestContextOfTheRequestGoesOn(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	var wg sync.WaitGroup
	serve(ctx, bulkheadhttp.NewHandler(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Context().Value(key{}); got != "value" {
			t.Errorf("value %v, want the request's", got)
		}
		wg.Add(1)
		context.AfterFunc(r.Context(), wg.Done)
		cancel()
		<-r.Context().Done()
		if got := r.Context().Err(); got != context.Canceled {
			t.Errorf("the context ended with %v, want %v", got, context.Canceled)
		}
	}), bulkheadhttp.HandlerOptions{}))
	wg.Wait()
}
