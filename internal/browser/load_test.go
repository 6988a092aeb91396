package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// path is where the page is in the tests: it must find itself anywhere.
const path = "/debug/bulkheads"

// serve serves the page of bulkheads until the test ends.
func serve(t *testing.T, bulkheads ...bulkhead.Any) (*bulkhead.Registry, *httptest.Server) {
	t.Helper()
	registry := new(bulkhead.Registry)
	for _, b := range bulkheads {
		if err := registry.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle(path, bulkheadhttp.StatusPage(registry))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return registry, srv
}

// newBulkhead returns a bulkhead as cfg describes.
func newBulkhead(t *testing.T, cfg bulkhead.Config) *bulkhead.Bulkhead[int] {
	t.Helper()
	b, err := bulkhead.New[int](cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// keepCalling lets n callers call b, each a little after its last call, until the
// test ends. A call that is permitted takes a few milliseconds.
func keepCalling(t *testing.T, b bulkhead.Any, n int) {
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range n {
		callers.Go(func() {
			for ctx.Err() == nil {
				b.Run(ctx, func(context.Context) error {
					time.Sleep(5 * time.Millisecond)
					return nil
				})
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		callers.Wait()
	})
}
