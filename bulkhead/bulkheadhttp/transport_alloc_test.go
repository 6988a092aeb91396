package bulkheadhttp_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// What a Transport allocates for a request, besides what the base does: the
// permit, the body that holds it, and three pieces for the watch on a context that
// can end. A refused request costs nothing.
func TestTransportAllocations(t *testing.T) {
	canEnd, cancel := context.WithCancel(t.Context())
	defer cancel()
	full := bulkhead.MustNew[int](bulkhead.Config{Name: "full", MaxConcurrent: 1})
	held, _ := full.TryAcquire()
	defer held.Release()
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{Name: "hosts", MaxConcurrent: 2}, nil)
	kept, err := k.Acquire(t.Context(), "127.0.0.1:80") // so that the key is there
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Release()

	resp := &http.Response{StatusCode: http.StatusOK}
	received := io.NopCloser(ended{})
	base := tripper(func(*http.Request) (*http.Response, error) {
		resp.Body = received
		return resp, nil
	})
	untilHeaders := bulkheadhttp.TransportOptions{UntilHeaders: true}
	for _, tc := range []struct {
		name string
		ctx  context.Context
		via  http.RoundTripper
		want float64
	}{
		{"bare", canEnd, base, 0},
		{"a context that cannot end", context.Background(), bulkheadhttp.NewTransport(b, base, bulkheadhttp.TransportOptions{}), 2},
		{"a context that can end", canEnd, bulkheadhttp.NewTransport(b, base, bulkheadhttp.TransportOptions{}), 5},
		{"until the headers", canEnd, bulkheadhttp.NewTransport(b, base, untilHeaders), 1},
		{"by host", canEnd, bulkheadhttp.NewKeyedTransport(k, base, untilHeaders), 2},
		{"refused", canEnd, bulkheadhttp.NewTransport(full, base, bulkheadhttp.TransportOptions{}), 0},
	} {
		req := newClientRequest(t, tc.ctx)
		got := testing.AllocsPerRun(100, func() {
			if resp, err := tc.via.RoundTrip(req); err == nil {
				resp.Body.Read(nil)
				resp.Body.Close()
			}
		})
		if got > tc.want {
			t.Errorf("%s: %v allocations, want at most %v", tc.name, got, tc.want)
		}
	}
}

// ended is a Reader at its end.
type ended struct{}

func (ended) Read([]byte) (int, error) { return 0, io.EOF }
