package bench

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	failsafebulkhead "github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/failsafehttp"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// A guardFunc guards a handler with a bulkhead of that limit, whose requests do
// not wait. take takes a permit away.
type guardFunc = func(limit int64, next http.Handler) (h http.Handler, take func() bool)

// servers in the order of benchstat's columns. The bare handler is what all of
// it costs without a limit.
var servers = []contender[guardFunc]{
	{"turnstile", func(limit int64, next http.Handler) (http.Handler, func() bool) {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "bench", MaxConcurrent: limit})
		take := func() bool { _, ok := b.TryAcquire(); return ok }
		return bulkheadhttp.NewHandler(b, next, bulkheadhttp.HandlerOptions{}), take
	}},
	{"failsafe", func(limit int64, next http.Handler) (http.Handler, func() bool) {
		b := failsafebulkhead.New[*http.Response](uint(limit))
		return failsafehttp.NewHandler(next, b), b.TryAcquirePermit
	}},
	{"bare", func(_ int64, next http.Handler) (http.Handler, func() bool) {
		return next, func() bool { return false }
	}},
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })

// blank is a ResponseWriter that costs nothing.
type blank struct {
	header http.Header
	status int
}

func (w *blank) Header() http.Header         { return w.header }
func (w *blank) Write(p []byte) (int, error) { return len(p), nil }
func (w *blank) WriteHeader(status int)      { w.status = status }

// BenchmarkHTTPHandler is a handler called directly, with permits free: what a
// guard costs before there is a network.
func BenchmarkHTTPHandler(b *testing.B) {
	run(b, servers, func(b *testing.B, guard guardFunc) {
		h, _ := guard(16, hello)
		serve(b, h, 0)
	})
}

// BenchmarkHTTPHandlerReject is the answer of a guard whose permits are taken.
func BenchmarkHTTPHandlerReject(b *testing.B) {
	run(b, servers[:2], func(b *testing.B, guard guardFunc) {
		h, take := guard(1, hello)
		if !take() {
			b.Fatal("no permit in a fresh bulkhead")
		}
		serve(b, h, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	})
}

// serve lets h have a request per iteration, whose client could leave.
func serve(b *testing.B, h http.Handler, want ...int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	w := &blank{header: http.Header{}}
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
	for _, status := range want {
		if w.status == status {
			return
		}
	}
	b.Fatalf("status %d, want one of %d", w.status, want)
}

// BenchmarkHTTPServer is a request and its answer over loopback, one after the
// other on one connection, with permits free.
func BenchmarkHTTPServer(b *testing.B) {
	for _, proto := range []string{"http1", "http2"} {
		b.Run("proto="+proto, func(b *testing.B) {
			run(b, servers, func(b *testing.B, guard guardFunc) {
				h, _ := guard(16, hello)
				srv := httptest.NewUnstartedServer(h)
				defer srv.Close()
				if srv.EnableHTTP2 = proto == "http2"; srv.EnableHTTP2 {
					// An answer must not depend on who is first with a session.
					srv.TLS = &tls.Config{SessionTicketsDisabled: true}
					srv.StartTLS()
				} else {
					srv.Start()
				}
				client := srv.Client()
				for b.Loop() {
					resp, err := client.Get(srv.URL)
					if err != nil {
						b.Fatal(err)
					}
					text, err := io.ReadAll(resp.Body)
					if resp.Body.Close(); string(text) != "hello" || err != nil {
						b.Fatalf("got %q, %v", text, err)
					}
				}
			})
		})
	}
}
