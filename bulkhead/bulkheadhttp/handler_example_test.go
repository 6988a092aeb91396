package bulkheadhttp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// A service takes as many requests at once as it can serve well. The others are
// told to come back, which costs next to nothing.
func ExampleNewHandler() {
	b := bulkhead.MustNew[struct{}](bulkhead.Config{Name: "api", MaxConcurrent: 100})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hello") })
	srv := httptest.NewServer(bulkheadhttp.NewHandler(b, mux, bulkheadhttp.HandlerOptions{}))
	defer srv.Close()

	show(http.Get(srv.URL + "/hello"))

	all, _ := b.Weighing(100).TryAcquire() // as if 100 requests were being served
	show(http.Get(srv.URL + "/hello"))

	all.Release()
	show(http.Get(srv.URL + "/hello"))
	// Output:
	// 200 OK: hello
	// 503 Service Unavailable, come back after 1 s: Service Unavailable
	// 200 OK: hello
}

// show prints a response.
func show(resp *http.Response, err error) {
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	retry := ""
	if s := resp.Header.Get("Retry-After"); s != "" {
		retry = ", come back after " + s + " s"
	}
	fmt.Printf("%s%s: %s\n", resp.Status, retry, strings.TrimSpace(string(text)))
}

// Reports are more work than the rest, health checks are none, and clients of
// this service want their errors as JSON.
func ExampleHandlerOptions() {
	b := bulkhead.MustNew[struct{}](bulkhead.Config{Name: "api", MaxConcurrent: 10})
	opts := bulkheadhttp.HandlerOptions{
		Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		Weight: func(r *http.Request) int64 {
			if strings.HasPrefix(r.URL.Path, "/reports/") {
				return 4
			}
			return 1
		},
		Reject: func(w http.ResponseWriter, r *http.Request, err error) {
			reason := "unavailable"
			if rejected, ok := errors.AsType[bulkhead.RejectedError](err); ok {
				reason = rejected.Reason.String()
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			json.NewEncoder(w).Encode(map[string]string{"error": reason})
		},
	}
	srv := httptest.NewServer(bulkheadhttp.NewHandler(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.URL.Path, "with", b.Stats().Active, "permits in flight")
	}), opts))
	defer srv.Close()

	show(http.Get(srv.URL + "/items/7"))
	show(http.Get(srv.URL + "/reports/7"))

	seven, _ := b.Weighing(7).TryAcquire()
	defer seven.Release()
	show(http.Get(srv.URL + "/items/7"))
	show(http.Get(srv.URL + "/reports/7"))
	show(http.Get(srv.URL + "/healthz"))
	// Output:
	// 200 OK: /items/7 with 1 permits in flight
	// 200 OK: /reports/7 with 4 permits in flight
	// 200 OK: /items/7 with 8 permits in flight
	// 429 Too Many Requests: {"error":"full"}
	// 200 OK: /healthz with 7 permits in flight
}

// A stream of events takes work to start and next to none to go on. It gives its
// permit back in between, so that many can be open.
func ExampleReleaseEarly() {
	b := bulkhead.MustNew[struct{}](bulkhead.Config{Name: "api", MaxConcurrent: 1})
	events := make(chan string)
	h := bulkheadhttp.NewHandler(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Check who asks, look up what they want: this the bulkhead bounds.
		fmt.Println("starting with", b.Stats().Active, "permits in flight")

		bulkheadhttp.ReleaseEarly(r.Context())
		w.Header().Set("Content-Type", "text/event-stream")
		for event := range events {
			fmt.Fprintf(w, "data: %s\n\n", event)
			http.NewResponseController(w).Flush()
		}
	}), bulkheadhttp.HandlerOptions{})
	srv := httptest.NewServer(h)
	defer srv.Close()

	go func() {
		defer close(events)
		events <- "tick" // the handler receives it once it has released
		fmt.Println("streaming with", b.Stats().Active, "permits in flight")
		events <- "tock"
	}()
	resp, err := http.Get(srv.URL)
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s", text)
	// Output:
	// starting with 1 permits in flight
	// streaming with 0 permits in flight
	// data: tick
	//
	// data: tock
}
