package bulkheadhttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// nowhere is a ResponseWriter that allocates nothing.
type nowhere struct{ header http.Header }

func (w nowhere) Header() http.Header       { return w.header }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

// A request costs its permit, a context that knows it, and the copy of the
// request that has the context.
func TestHandlerAllocations(t *testing.T) {
	var w http.ResponseWriter = nowhere{http.Header{}}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 10})
	for _, tc := range []struct {
		name string
		b    bulkhead.Any
		opts bulkheadhttp.HandlerOptions
		want float64
	}{
		{"permitted", b, bulkheadhttp.HandlerOptions{}, 3},
		{"weighed", b, bulkheadhttp.HandlerOptions{Weight: func(*http.Request) int64 { return 2 }}, 4},
		{"skipped", b, bulkheadhttp.HandlerOptions{Skip: func(*http.Request) bool { return true }}, 0},
		{"rejected", fullBulkhead(t, 0), bulkheadhttp.HandlerOptions{Reject: func(http.ResponseWriter, *http.Request, error) {}}, 0},
		{"rejected with the answer of net/http", fullBulkhead(t, 0), bulkheadhttp.HandlerOptions{}, 4},
	} {
		h := bulkheadhttp.NewHandler(tc.b, next, tc.opts)
		if got := testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) }); got > tc.want {
			t.Errorf("%s: %v allocations, want at most %v", tc.name, got, tc.want)
		}
	}
}
