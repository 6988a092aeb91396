package bulkheadhttp_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// A client that has no more than two requests under way, and whose callers can
// tell a request that was not sent from one that has failed.
func ExampleNewTransport() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello")
	}))
	defer srv.Close()

	api := bulkhead.MustNew[any](bulkhead.Config{Name: "api", MaxConcurrent: 2})
	client := &http.Client{Transport: bulkheadhttp.NewTransport(api, nil, bulkheadhttp.TransportOptions{})}
	defer client.CloseIdleConnections()

	var open []*http.Response
	for range 3 {
		resp, err := client.Get(srv.URL)
		if rejected, ok := errors.AsType[bulkhead.RejectedError](err); ok {
			fmt.Println("not sent:", rejected.Reason, "at a limit of", rejected.MaxConcurrent)
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(resp.Status)
		open = append(open, resp)
	}
	// The permits are held until the bodies are read to their end, or closed.
	fmt.Println("in flight:", api.Stats().Active)
	for _, resp := range open {
		text, err := io.ReadAll(resp.Body)
		fmt.Println(string(text), err)
		resp.Body.Close()
	}
	fmt.Println("in flight:", api.Stats().Active)
	// Output:
	// 200 OK
	// 200 OK
	// not sent: full at a limit of 2
	// in flight: 2
	// hello <nil>
	// hello <nil>
	// in flight: 0
}

// One limit for each host: one that is slow does not use up those of the others.
// The limit may depend on the host.
func ExampleNewKeyedTransport() {
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		<-r.Context().Done() // until the client has enough
	}))
	defer slow.Close()
	quick := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer quick.Close()

	limits := bulkhead.MustNewKeyed[string, any](bulkhead.Config{Name: "hosts"}, func(host string) int64 {
		if "http://"+host == slow.URL {
			return 1
		}
		return 8
	})
	client := &http.Client{Transport: bulkheadhttp.NewKeyedTransport(limits, nil, bulkheadhttp.TransportOptions{})}
	defer client.CloseIdleConnections()

	stuck, err := client.Get(slow.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Get(slow.URL)
	fmt.Println("slow host, again:", errors.Is(err, bulkhead.ErrFull))
	resp, err := client.Get(quick.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	resp.Body.Close()
	fmt.Println("quick host:", resp.Status)
	stuck.Body.Close()
	// Output:
	// slow host, again: true
	// quick host: 200 OK
}

// A stream of events goes on for hours, and the limit is for those who subscribe:
// the permit goes back when the stream has begun.
func ExampleTransportOptions_untilHeaders() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: first\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()

	events := bulkhead.MustNew[any](bulkhead.Config{Name: "events", MaxConcurrent: 1})
	client := &http.Client{Transport: bulkheadhttp.NewTransport(events, nil, bulkheadhttp.TransportOptions{UntilHeaders: true})}
	defer client.CloseIdleConnections()

	for range 3 {
		resp, err := client.Get(srv.URL)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		fmt.Println(resp.Status, "in flight:", events.Stats().Active)
	}
	// Output:
	// 200 OK in flight: 0
	// 200 OK in flight: 0
	// 200 OK in flight: 0
}

// A reverse proxy that has no room for a request answers as a guarded handler
// would. By default it answers with 502, which blames the backend.
func ExampleNewTransport_reverseProxy() {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "from the backend")
	}))
	defer backend.Close()
	target, err := url.Parse(backend.URL)
	if err != nil {
		fmt.Println(err)
		return
	}

	b := bulkhead.MustNew[any](bulkhead.Config{Name: "backend", MaxConcurrent: 1})
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: bulkheadhttp.NewTransport(b, nil, bulkheadhttp.TransportOptions{}),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			status := http.StatusBadGateway
			if errors.Is(err, bulkhead.ErrFull) {
				status = http.StatusServiceUnavailable
				w.Header().Set("Retry-After", "1")
			}
			http.Error(w, http.StatusText(status), status)
		},
	}
	get := func() {
		w := httptest.NewRecorder()
		proxy.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
	}

	get()
	busy, _ := b.TryAcquire() // another request is on its way
	get()
	busy.Release()
	// Output:
	// 200 from the backend
	// 503 Service Unavailable
}
