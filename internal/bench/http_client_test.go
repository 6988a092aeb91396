package bench

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	failsafebulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/failsafehttp"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// A transportFunc guards a RoundTripper with a bulkhead of that limit, whose
// requests do not wait. take takes a permit away.
type transportFunc = func(limit int64, base http.RoundTripper) (rt http.RoundTripper, take func() bool)

// transports in the order of benchstat's columns. turnstile holds its permit until
// the body is done; headers is the same until the headers have arrived, which is
// what failsafe does. The bare one is what all of it costs without a limit.
var transports = []contender[transportFunc]{
	{"turnstile", newTurnstileTransport(bulkheadhttp.TransportOptions{})},
	{"headers", newTurnstileTransport(bulkheadhttp.TransportOptions{UntilHeaders: true})},
	{"failsafe", func(limit int64, base http.RoundTripper) (http.RoundTripper, func() bool) {
		b := failsafebulkhead.New[*http.Response](uint(limit))
		return failsafehttp.NewRoundTripper(base, b), b.TryAcquirePermit
	}},
	{"bare", func(_ int64, base http.RoundTripper) (http.RoundTripper, func() bool) {
		return base, func() bool { return false }
	}},
}

func newTurnstileTransport(opts bulkheadhttp.TransportOptions) transportFunc {
	return func(limit int64, base http.RoundTripper) (http.RoundTripper, func() bool) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "bench", MaxConcurrent: limit})
		take := func() bool { _, ok := b.TryAcquire(); return ok }
		return bulkheadhttp.NewTransport(b, base, opts), take
	}
}

// canned answers every request with the same text, without a network, and keeps
// what it needs for that, so that it allocates nothing.
type canned struct {
	resp http.Response
	text strings.Reader
	body io.ReadCloser
}

func (c *canned) RoundTrip(*http.Request) (*http.Response, error) {
	c.text.Reset("hello")
	c.resp.Body = c.body
	return &c.resp, nil
}

func newCanned() *canned {
	c := &canned{resp: http.Response{StatusCode: http.StatusOK}}
	c.body = struct {
		io.Reader
		io.Closer
	}{&c.text, io.NopCloser(nil)}
	return c
}

// BenchmarkHTTPTransport is a transport called directly over a base that does
// nothing, with permits free: what a guard costs before there is a network.
func BenchmarkHTTPTransport(b *testing.B) {
	canEnd, cancel := context.WithCancel(b.Context())
	defer cancel()
	for _, way := range []struct {
		name string
		ctx  context.Context
	}{{"background", context.Background()}, {"own", canEnd}} {
		b.Run("ctx="+way.name, func(b *testing.B) {
			run(b, transports, func(b *testing.B, guard transportFunc) {
				rt, _ := guard(16, newCanned())
				r := newGet(b, way.ctx, "http://127.0.0.1")
				var buf [16]byte
				for b.Loop() {
					resp, err := rt.RoundTrip(r)
					if err != nil {
						b.Fatal(err)
					}
					for err == nil {
						_, err = resp.Body.Read(buf[:])
					}
					resp.Body.Close()
				}
			})
		})
	}
}

// BenchmarkHTTPTransportReject is the answer of a guard whose permits are taken.
func BenchmarkHTTPTransportReject(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	run(b, transports[:3], func(b *testing.B, guard transportFunc) {
		rt, take := guard(1, newCanned())
		if !take() {
			b.Fatal("no permit in a fresh bulkhead")
		}
		r := newGet(b, ctx, "http://127.0.0.1")
		for b.Loop() {
			if _, err := rt.RoundTrip(r); err == nil {
				b.Fatal(errGranted)
			}
		}
	})
}

// BenchmarkHTTPClient is a request and its answer over loopback, one after the
// other on one connection, with permits free and a ctx that could end.
func BenchmarkHTTPClient(b *testing.B) {
	for _, proto := range []string{"http1", "http2"} {
		b.Run("proto="+proto, func(b *testing.B) {
			srv := httptest.NewUnstartedServer(hello)
			defer srv.Close()
			if srv.EnableHTTP2 = proto == "http2"; srv.EnableHTTP2 {
				// An answer must not depend on who is first with a session.
				srv.TLS = &tls.Config{SessionTicketsDisabled: true}
				srv.StartTLS()
			} else {
				srv.Start()
			}
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			run(b, transports, func(b *testing.B, guard transportFunc) {
				rt, _ := guard(16, srv.Client().Transport)
				client := &http.Client{Transport: rt}
				r := newGet(b, ctx, srv.URL)
				for b.Loop() {
					if text, err := fetch(client, r); text != "hello" || err != nil {
						b.Fatalf("got %q, %v", text, err)
					}
				}
			})
		})
	}
}

func newGet(tb testing.TB, ctx context.Context, url string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// fetch sends r and reads the answer.
func fetch(client *http.Client, r *http.Request) (string, error) {
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// TestTransports is what the rows take for granted: requests are sent up to the
// limit and refused above it.
func TestTransports(t *testing.T) {
	for _, c := range transports[:3] {
		t.Run(c.name, func(t *testing.T) {
			rt, take := c.new(1, newCanned())
			client := &http.Client{Transport: rt}
			r := newGet(t, t.Context(), "http://127.0.0.1")
			for range 2 {
				if text, err := fetch(client, r); text != "hello" || err != nil {
					t.Errorf("with a permit free: got %q, %v, want hello", text, err)
				}
			}
			if !take() {
				t.Fatal("no permit at rest")
			}
			if _, err := fetch(client, r); err == nil {
				t.Error("with the permit taken: got nil, want an error")
			}
		})
	}
}
