package bulkheadhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// patience is how long a test waits for what comes at once on an idle machine.
const patience = 30 * time.Second

// overBoth runs test over HTTP/1.1 and HTTP/2. newRig makes the rig, once for
// each server that the test wants.
func overBoth(t *testing.T, test func(t *testing.T, newRig rigFunc)) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			test(t, func(cfg bulkhead.Config, opts bulkheadhttp.TransportOptions, h http.HandlerFunc) *rig {
				return newRig(t, proto, cfg, opts, h)
			})
		})
	}
}

type rigFunc = func(bulkhead.Config, bulkheadhttp.TransportOptions, http.HandlerFunc) *rig

// rig is a server on loopback, a client of it whose requests take permits, and
// what the bulkhead tells. When the test ends, everything must be as it was.
type rig struct {
	*bulkhead.Bulkhead[int]
	t         *testing.T
	srv       *httptest.Server
	transport *bulkheadhttp.Transport
	client    *http.Client
	tape      *tape
}

func newRig(t *testing.T, proto string, cfg bulkhead.Config, opts bulkheadhttp.TransportOptions, h http.HandlerFunc) *rig {
	checkGoroutines(t)
	r := &rig{t: t, tape: newTape()}
	r.srv = httptest.NewUnstartedServer(h)
	if r.srv.EnableHTTP2 = proto == "HTTP/2.0"; r.srv.EnableHTTP2 {
		r.srv.StartTLS()
	} else {
		r.srv.Start()
	}
	cfg.Name, cfg.Listener = "server", event.Join(cfg.Listener, r.tape.listener())
	r.Bulkhead = bulkhead.MustNew[int](cfg)
	r.transport = bulkheadhttp.NewTransport(r, r.srv.Client().Transport, opts)
	r.client = &http.Client{Transport: r.transport}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		r.srv.Close()
		r.tape.checkAtRest(t, r)
	})
	return r
}

// request returns a request to the server with the context ctx.
func (r *rig) request(ctx context.Context, method, path string, body io.Reader) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.srv.URL+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return req
}

// do sends a request and fails the test if there is no response.
func (r *rig) do(req *http.Request) *http.Response {
	r.t.Helper()
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { resp.Body.Close() }) // that it may come twice is part of the contract
	return resp
}

// get sends a GET as do does.
func (r *rig) get(ctx context.Context) *http.Response {
	r.t.Helper()
	return r.do(r.request(ctx, http.MethodGet, "/", nil))
}

// wantActive fails the test unless so many permits are in flight.
func (r *rig) wantActive(n int64, when string) {
	r.t.Helper()
	if s := r.Stats(); s.Active != n {
		r.t.Errorf("%s: %d permits in flight, want %d", when, s.Active, n)
	}
}

// wantEnds waits until as many calls have ended as there are outcomes, and fails
// the test unless these are theirs, in this order.
func (r *rig) wantEnds(want ...string) {
	r.t.Helper()
	r.tape.wait(r.t, len(want), event.KindFinished, event.KindReleased)
	var got []string
	for _, e := range r.tape.of(event.KindFinished, event.KindReleased) {
		got = append(got, endOf(e))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("calls ended as %q, want %q", got, want)
	}
}

// endOf says in a word or two how a call ended.
func endOf(e event.Record) string {
	if e.Kind == event.KindReleased {
		return "released"
	}
	return e.Outcome.String()
}

// tape keeps what a bulkhead tells, in its order.
type tape struct {
	mu      sync.Mutex
	records []event.Record
	told    chan struct{} // has a value if something was told since it was last empty
}

func newTape() *tape { return &tape{told: make(chan struct{}, 1)} }

func (p *tape) listener() event.Listener {
	return event.All(func(_ context.Context, e event.Record) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.records = append(p.records, e)
		select {
		case p.told <- struct{}{}:
		default:
		}
	})
}

// of returns the events of these kinds.
func (p *tape) of(kinds ...event.Kind) []event.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []event.Record
	for _, e := range p.records {
		if slices.Contains(kinds, e.Kind) {
			found = append(found, e)
		}
	}
	return found
}

// wait waits until there are n events of these kinds or more.
func (p *tape) wait(t *testing.T, n int, kinds ...event.Kind) {
	t.Helper()
	late := time.After(patience)
	for len(p.of(kinds...)) < n {
		select {
		case <-p.told:
		case <-late:
			t.Fatalf("%d events of %v after %v, want %d", len(p.of(kinds...)), kinds, patience, n)
		}
	}
}

// checkAtRest fails the test unless every permit is back, once all calls have
// ended, and each is told to have done so once.
func (p *tape) checkAtRest(t *testing.T, b bulkhead.Any) {
	t.Helper()
	permitted := len(p.of(event.KindPermitted))
	p.wait(t, permitted, event.KindFinished, event.KindReleased)
	if ended := len(p.of(event.KindFinished, event.KindReleased)); ended != permitted {
		t.Errorf("%d calls have ended of %d permitted", ended, permitted)
	}
	s := b.Stats()
	if s.Active != 0 || s.Waiting != 0 {
		t.Errorf("at rest, Stats = %+v, want nothing active or waiting", s)
	}
	if s.Closed {
		return
	}
	all, ok := bulkhead.Weighing(b, s.MaxConcurrent).TryAcquire()
	if !ok {
		t.Errorf("at rest, TryAcquire of the whole limit = false: %+v", b.Stats())
	}
	all.Release()
}

// checkGoroutines fails the test if it leaves goroutines behind, after whatever
// it has registered later is cleaned up.
func checkGoroutines(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		// Those of net/http end a moment after their connections, and nothing
		// tells when.
		for start := time.Now(); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Since(start) > patience {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before the test\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}

// wantText reports an error unless got is want.
func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// read reads the rest of the body, and fails the test if that fails.
func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// tripper is a base that is a function.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fakeBody is a body that counts how often it is closed, and ends as read says.
type fakeBody struct {
	read   func([]byte) (int, error)
	close  func() error
	closed int
}

func (b *fakeBody) Read(p []byte) (int, error) {
	if b.read == nil {
		return 0, io.EOF
	}
	return b.read(p)
}

func (b *fakeBody) Close() error {
	b.closed++
	if b.close == nil {
		return nil
	}
	return b.close()
}
