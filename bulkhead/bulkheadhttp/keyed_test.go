package bulkheadhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

func TestKeyIsHostAndPortOfTheURL(t *testing.T) {
	var key string
	k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{Name: "hosts"}, func(host string) int64 {
		key = host
		return 1
	})
	transport := bulkheadhttp.NewKeyedTransport(k, okWith(http.NoBody), bulkheadhttp.TransportOptions{})
	for _, tc := range []struct{ url, want string }{
		{"http://example.com/path", "example.com:80"},
		{"https://example.com", "example.com:443"},
		{"http://EXAMPLE.Com", "example.com:80"},
		{"http://Example.com:8080", "example.com:8080"},
		{"https://example.com:80", "example.com:80"},
		{"http://example.com:", "example.com:80"},
		{"http://user:secret@example.com", "example.com:80"},
		{"http://127.0.0.1", "127.0.0.1:80"},
		{"http://[::1]", "[::1]:80"},
		{"http://[2001:DB8::1]:8080", "[2001:db8::1]:8080"},
		{"ftp://example.com", "example.com:"},
		{"http://example.com.", "example.com.:80"},
	} {
		u, err := url.Parse(tc.url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(&http.Request{URL: u, Host: "other"}); err != nil {
			t.Fatal(err)
		}
		wantText(t, tc.url, key, tc.want)
	}
	if n := k.Len(); n != 0 {
		t.Errorf("%d keys at rest, want 0", n)
	}
}

// That a request lacks a URL is for the base to say.
func TestRequestWithoutAURLReachesTheBase(t *testing.T) {
	k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{Name: "hosts", MaxConcurrent: 1}, nil)
	base := new(http.Transport)
	_, want := base.RoundTrip(new(http.Request))
	_, got := bulkheadhttp.NewKeyedTransport(k, base, bulkheadhttp.TransportOptions{}).RoundTrip(new(http.Request))
	if got == nil || got.Error() != want.Error() {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNewKeyedTransportPanicsWithoutAKeyed(t *testing.T) {
	got, _ := leave(func() { bulkheadhttp.NewKeyedTransport[int](nil, nil, bulkheadhttp.TransportOptions{}) })
	wantText(t, "panic", fmt.Sprint(got), "bulkheadhttp: NewKeyedTransport with a nil bulkhead.Keyed")
}

// A host without a limit is a mistake of the limit function's, and no request of
// that host goes anywhere.
func TestRequestOfAHostWithoutALimitIsRefused(t *testing.T) {
	k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{Name: "hosts"}, func(string) int64 { return 0 })
	transport := bulkheadhttp.NewKeyedTransport(k, tripper(func(*http.Request) (*http.Response, error) {
		t.Error("the request was sent")
		return nil, errBoom
	}), bulkheadhttp.TransportOptions{})
	sent := new(fakeBody)
	_, err := transport.RoundTrip(newRequest(t.Context(), sent))
	wantText(t, "error", fmt.Sprint(err), `bulkhead "hosts": the limit of a key is 0, want at least 1`)
	if sent.closed != 1 {
		t.Errorf("the request's body was closed %d times, want once", sent.closed)
	}
}

// hosts are servers with a limit of one request each.
type hosts struct {
	*bulkhead.Keyed[string, int]
	client *http.Client
	tape   *tape
}

func newHosts(t *testing.T, servers ...*httptest.Server) hosts {
	h := hosts{tape: newTape()}
	h.Keyed = bulkhead.MustNewKeyed[string, int](bulkhead.Config{Name: "hosts", MaxConcurrent: 1, Listener: h.tape.listener()}, nil)
	base := new(http.Transport)
	h.client = &http.Client{Transport: bulkheadhttp.NewKeyedTransport(h.Keyed, base, bulkheadhttp.TransportOptions{})}
	t.Cleanup(func() {
		h.client.CloseIdleConnections()
		for _, s := range servers {
			s.Close()
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := h.Drain(ctx); err != nil {
			t.Error(err)
		}
		permitted := len(h.tape.of(event.KindPermitted))
		h.tape.wait(t, permitted, event.KindFinished, event.KindReleased)
		if ended := len(h.tape.of(event.KindFinished, event.KindReleased)); ended != permitted || h.Len() != 0 {
			t.Errorf("%d calls have ended of %d permitted, and %d hosts are in use, want none", ended, permitted, h.Len())
		}
	})
	return h
}

func TestSlowHostDoesNotHarmAnother(t *testing.T) {
	checkGoroutines(t)
	slow := httptest.NewServer(stall)
	quick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	h := newHosts(t, slow, quick)

	stuck, err := h.client.Get(slow.URL)
	if err != nil {
		t.Fatal(err)
	}
	// The same host in other words, with the permit taken.
	again := strings.Replace(slow.URL, "http://", "http://user@", 1)
	if _, err := h.client.Get(again); !errors.Is(err, bulkhead.ErrFull) {
		t.Errorf("a second request of the slow host: got %v, want ErrFull", err)
	}
	for range 3 {
		resp, err := h.client.Get(quick.URL)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, "body", read(t, resp), "hello")
	}
	if n := h.Len(); n != 1 {
		t.Errorf("%d hosts are in use, want 1", n)
	}
	stuck.Body.Close()
	resp, err := h.client.Get(slow.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// A permit of a key must come back by every way, as one of a bulkhead does.
func TestPermitOfAHostComesBackHoweverTheRequestEnds(t *testing.T) {
	for what, tc := range map[string]struct {
		base tripper
		end  func(resp *http.Response, cancel func())
	}{
		"error":       {base: func(*http.Request) (*http.Response, error) { return nil, errBoom }},
		"panic":       {base: func(*http.Request) (*http.Response, error) { panic(errBoom) }},
		"no response": {base: func(*http.Request) (*http.Response, error) { return nil, nil }},
		"no body":     {base: okWith(http.NoBody)},
		"read":        {base: okWith(new(fakeBody)), end: func(r *http.Response, _ func()) { io.ReadAll(r.Body) }},
		"closed":      {base: okWith(new(fakeBody)), end: func(r *http.Response, _ func()) { r.Body.Close() }},
		"canceled":    {base: okWith(new(fakeBody)), end: func(_ *http.Response, cancel func()) { cancel() }},
		"all at once": {
			base: okWith(io.NopCloser(strings.NewReader(""))),
			end: func(r *http.Response, cancel func()) {
				var all sync.WaitGroup
				all.Go(cancel)
				all.Go(func() { io.ReadAll(r.Body) })
				all.Go(func() { r.Body.Close() })
				all.Go(func() { r.Body.Close() })
				all.Wait()
			},
		},
	} {
		t.Run(what, func(t *testing.T) {
			k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{Name: "hosts", MaxConcurrent: 1}, nil)
			transport := bulkheadhttp.NewKeyedTransport(k, tc.base, bulkheadhttp.TransportOptions{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leave(func() {
				if resp, err := transport.RoundTrip(newRequest(ctx, nil)); err == nil && tc.end != nil {
					tc.end(resp, cancel)
				}
			})
			if err := k.Drain(t.Context()); err != nil || k.Len() != 0 {
				t.Errorf("Drain = %v, %d hosts are in use, want none", err, k.Len())
			}
			if _, err := k.Execute(t.Context(), "127.0.0.1:80", func(context.Context) (int, error) { return 0, nil }); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}
