package bulkheadhttp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
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

// protocol is a way to speak to a server.
type protocol struct {
	name    string
	tls     bool
	version func(*http.Protocols)
}

var protocols = []protocol{
	{"http1", false, func(p *http.Protocols) { p.SetHTTP1(true) }},
	{"http2", true, func(p *http.Protocols) { p.SetHTTP2(true) }},
	{"h2c", false, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }},
}

// overProtocols runs f as a subtest for each protocol.
func overProtocols(t *testing.T, f func(*testing.T, protocol)) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) { f(t, p) })
	}
}

// site is a server on loopback whose handler is guarded, and a client for it.
// When the test ends, nothing of them may be left: no goroutine, no permit, and
// nothing in the server's log that the test has not taken.
type site struct {
	*bulkhead.Bulkhead[int]
	t        *testing.T
	protocol protocol
	srv      *httptest.Server
	client   *http.Client
	tape     *tape
	log      buffer

	mu    sync.Mutex
	conns []*net.TCPConn // the client's
}

// newSite serves next, guarded as cfg and opts say. Each of setup may change the
// server before it starts.
func newSite(t *testing.T, p protocol, cfg bulkhead.Config, opts bulkheadhttp.HandlerOptions, next http.HandlerFunc, setup ...func(*http.Server)) *site {
	t.Helper()
	tape := newTape()
	cfg.Listener = event.Join(cfg.Listener, tape.listener())
	return newSiteTold(t, p, cfg, tape, opts, next, setup...)
}

// newSiteTold is newSite with a tape that somebody else fills, or nobody.
func newSiteTold(t *testing.T, p protocol, cfg bulkhead.Config, tape *tape, opts bulkheadhttp.HandlerOptions, next http.HandlerFunc, setup ...func(*http.Server)) *site {
	t.Helper()
	checkGoroutines(t)
	s := &site{t: t, protocol: p, tape: tape}
	cfg.Name = "server"
	s.Bulkhead = bulkhead.MustNew[int](cfg)
	s.srv = httptest.NewUnstartedServer(bulkheadhttp.NewHandler(s, next, opts))
	s.srv.Config.ErrorLog = log.New(&s.log, "", 0)
	s.srv.Config.Protocols = new(http.Protocols)
	p.version(s.srv.Config.Protocols)
	for _, f := range setup {
		f(s.srv.Config)
	}
	if s.srv.EnableHTTP2 = p.tls; p.tls {
		s.srv.StartTLS()
	} else {
		s.srv.Start()
	}
	s.client = s.newClient()
	t.Cleanup(s.close)
	return s
}

// around lets outer have the requests first. Its argument is what the server had
// before.
func around(outer func(http.Handler) http.Handler) func(*http.Server) {
	return func(srv *http.Server) { srv.Handler = outer(srv.Handler) }
}

// close ends server and client and looks at what is left.
func (s *site) close() {
	s.client.CloseIdleConnections()
	closed := make(chan struct{})
	go func() {
		s.srv.Close() // it waits for requests, for ever if a failed test has left one
		close(closed)
	}()
	receive(s.t, closed)
	// A handler of HTTP/2 may outlive its connection, and so the server.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Drain(ctx); err != nil {
		s.t.Fatalf("permits are missing: %+v\n%s", s.Stats(), stacks())
	}
	s.tape.checkAtRest(s.t, s)
	wantText(s.t, "the server's log", s.log.take(), "")
}

// newClient returns a client that trusts the server, and whose connections the
// site knows.
func (s *site) newClient() *http.Client {
	tr := &http.Transport{
		Protocols: s.srv.Config.Protocols,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err == nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.conns = append(s.conns, c.(*net.TCPConn))
			}
			return c, err
		},
	}
	if s.protocol.tls {
		roots := x509.NewCertPool()
		roots.AddCert(s.srv.Certificate())
		tr.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	return &http.Client{Transport: tr}
}

// killClient cuts the client's connections, as if its machine had crashed, and
// gets another.
func (s *site) killClient() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.SetLinger(0) // a reset instead of an orderly end
		c.Close()
	}
	s.conns = nil
	s.client.CloseIdleConnections()
	s.client = s.newClient()
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// open sends a request and returns when the headers are there.
func (s *site) open(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.srv.URL+path, body)
	if err != nil {
		return nil, err
	}
	return s.client.Do(req)
}

// do sends a request and reads the answer.
func (s *site) do(ctx context.Context, method, path string, body io.Reader) (answer, error) {
	resp, err := s.open(ctx, method, path, body)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

// get asks for path, and fails the test if there is no answer.
func (s *site) get(path string) answer {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	a, err := s.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	return a
}

// wantStatus asks for path, and fails the test unless the status is want.
func (s *site) wantStatus(path string, want int) {
	s.t.Helper()
	if got := s.get(path); got.status != want {
		s.t.Errorf("GET %s: %d %q, want %d", path, got.status, got.body, want)
	}
}

// sent is a request on its way.
type sent struct {
	t      *testing.T
	cancel context.CancelFunc
	result chan result
}

type result struct {
	answer
	err error
}

// send sends a GET request and does not wait for the answer.
func (s *site) send(path string) sent { return s.request(http.MethodGet, path, nil) }

// request sends a request and does not wait for the answer.
func (s *site) request(method, path string, body io.Reader) sent {
	ctx, cancel := context.WithCancel(s.t.Context())
	r := sent{s.t, cancel, make(chan result, 1)}
	go func() {
		a, err := s.do(ctx, method, path, body)
		r.result <- result{a, err}
	}()
	return r
}

// wait returns the answer.
func (r sent) wait() answer {
	r.t.Helper()
	defer r.cancel()
	res := receive(r.t, r.result)
	if res.err != nil {
		r.t.Fatalf("no answer: %v", res.err)
	}
	return res.answer
}

// leave gives the request up.
func (r sent) leave() {
	r.t.Helper()
	r.cancel()
	if res := receive(r.t, r.result); !errors.Is(res.err, context.Canceled) {
		r.t.Fatalf("got %d, %v, want the request to be canceled", res.status, res.err)
	}
}

// fail waits for the request to fail.
func (r sent) fail() {
	r.t.Helper()
	defer r.cancel()
	if res := receive(r.t, r.result); res.err == nil {
		r.t.Fatalf("got %d %q, want no answer", res.status, res.body)
	}
}

// buffer is what a server has logged.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// take returns what was written since the last take.
func (b *buffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.text.String()
	b.text.Reset()
	return text
}

// receive returns what comes from c, and fails the test if nothing does.
func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("nothing came within %v\n%s", patience, stacks())
	}
	return v
}

// until returns when cond holds, of which nothing tells.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for start := time.Now(); !cond(); time.Sleep(time.Millisecond) {
		if time.Since(start) > patience {
			t.Fatalf("not within %v: %s\n%s", patience, what, stacks())
		}
	}
}

// untilWaiting returns when n requests wait for permits.
func (s *site) untilWaiting(n int) {
	s.t.Helper()
	until(s.t, "requests wait", func() bool { return s.Stats().Waiting == n })
}

func stacks() []byte {
	buf := make([]byte, 1<<20)
	return buf[:runtime.Stack(buf, true)]
}

// hold takes n permits, and fails the test if they are not free.
func (s *site) hold(n int64) *bulkhead.Permit {
	s.t.Helper()
	p, ok := s.Weighing(n).TryAcquire()
	if !ok {
		s.t.Fatalf("could not take %d permits: %+v", n, s.Stats())
	}
	return p
}

// wantEvents waits until as many events are told as are wanted, and fails the
// test unless they are these, in this order.
func (s *site) wantEvents(want ...string) {
	s.t.Helper()
	s.tape.wait(s.t, len(want), allKinds...)
	var got []string
	for _, e := range s.tape.of(allKinds...) {
		got = append(got, describe(e))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("events %q, want %q", got, want)
	}
}

var allKinds = []event.Kind{
	event.KindPermitted, event.KindRejected, event.KindCanceled,
	event.KindFinished, event.KindReleased, event.KindLimitChanged,
}

// describe says what an event tells, in a word or two.
func describe(e event.Record) string {
	switch e.Kind {
	case event.KindRejected:
		return "rejected " + e.Reason.String()
	case event.KindFinished:
		return "finished " + e.Outcome.String()
	}
	return e.Kind.String()
}
