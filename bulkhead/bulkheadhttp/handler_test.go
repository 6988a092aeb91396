package bulkheadhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }

func TestRequestWithoutAPermitIsAnsweredAndDoesNotReachTheHandler(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		var reached atomic.Int64
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, func(w http.ResponseWriter, r *http.Request) {
			reached.Add(1)
			hello(w, r)
		})
		permit := s.hold(1)
		got := s.get("/")
		if got.status != http.StatusServiceUnavailable {
			t.Errorf("status %d, want 503", got.status)
		}
		wantText(t, "Retry-After", got.header.Get("Retry-After"), "1")
		wantText(t, "Content-Type", got.header.Get("Content-Type"), "text/plain; charset=utf-8")
		wantText(t, "the body", got.body, "Service Unavailable\n")
		permit.Release()
		wantText(t, "the body with a free permit", s.get("/").body, "hello")
		if n := reached.Load(); n != 1 {
			t.Errorf("%d requests reached the handler, want 1", n)
		}
		s.wantEvents("permitted", "rejected full", "released", "permitted", "finished ok")
	})
}

func TestRequestWaitsForItsPermit(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, bulkheadhttp.HandlerOptions{}, hello)
		permit := s.hold(1)
		r := s.send("/")
		s.untilWaiting(1)
		permit.Release()
		wantText(t, "the body", r.wait().body, "hello")
	})
}

// A crowd of clients, and never more of them inside than the limit allows.
func TestLimitHoldsForACrowdOfRequests(t *testing.T) {
	const limit, requests = 3, 60
	overProtocols(t, func(t *testing.T, p protocol) {
		var inside gauge
		full := make(chan struct{}) // as many are inside as may be
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: limit, MaxWait: bulkhead.Forever}, bulkheadhttp.HandlerOptions{},
			func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/first" {
					return
				}
				if inside.enter() == limit {
					select {
					case <-full:
					default:
						close(full)
					}
				}
				<-full
				inside.leave()
			})
		s.get("/first") // HTTP/2 makes a connection for each, unless there is one
		var crowd []sent
		for range requests {
			crowd = append(crowd, s.send("/"))
		}
		for _, r := range crowd {
			if got := r.wait(); got.status != http.StatusOK {
				t.Errorf("status %d, want 200", got.status)
			}
		}
		if got := inside.highest(); got != limit {
			t.Errorf("at most %d requests were inside at once, want %d", got, limit)
		}
	})
}

// gauge counts how many are inside at once.
type gauge struct {
	mu          sync.Mutex
	inside, top int
}

func (g *gauge) enter() (inside int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside++
	g.top = max(g.top, g.inside)
	return g.inside
}

func (g *gauge) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
}

func (g *gauge) highest() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.top
}

func TestSkippedRequestsTakeNoPermit(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{
			Skip: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
		}, func(w http.ResponseWriter, r *http.Request) {
			bulkheadhttp.ReleaseEarly(r.Context()) // there is nothing to release
			hello(w, r)
		})
		permit := s.hold(1)
		s.wantStatus("/healthz", http.StatusOK)
		s.wantStatus("/", http.StatusServiceUnavailable)
		if active := s.Stats().Active; active != 1 {
			t.Errorf("%d permits in flight, want the one held", active)
		}
		permit.Release()
		s.wantEvents("permitted", "rejected full", "released")
	})
}

func TestRequestHoldsItsWeight(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		var active atomic.Int64
		var s *site
		s = newSite(t, p, bulkhead.Config{MaxConcurrent: 10}, bulkheadhttp.HandlerOptions{
			Weight: func(r *http.Request) (n int64) {
				fmt.Sscanf(r.URL.Path, "/%d", &n)
				return n
			},
		}, func(http.ResponseWriter, *http.Request) { active.Store(s.Stats().Active) })
		for _, n := range []int64{1, 7, 10} {
			s.wantStatus(fmt.Sprint("/", n), http.StatusOK)
			if got := active.Load(); got != n {
				t.Errorf("%d permits in flight during a request of weight %d", got, n)
			}
		}
		if got := s.get("/11"); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "" {
			t.Errorf("status %d, Retry-After %q of a request too heavy, want 503 and none", got.status, got.header.Get("Retry-After"))
		}
		s.wantStatus("/0", http.StatusInternalServerError)
		wantText(t, "the server's log", s.log.take(), "bulkheadhttp: bulkhead \"server\": weight is 0, want at least 1\n")
	})
}

// The handler sees the very ResponseWriter that the server made, so that
// whatever this can do, it can.
func TestResponseWriterIsPassedOnAsItIs(t *testing.T) {
	type key struct{}
	overProtocols(t, func(t *testing.T, p protocol) {
		next := func(w http.ResponseWriter, r *http.Request) {
			if r.Context().Value(key{}) != w {
				t.Error("the handler has another ResponseWriter than the server made")
			}
			if _, ok := w.(http.Flusher); !ok {
				t.Errorf("a %T is no http.Flusher", w)
			}
			if _, ok := w.(io.ReaderFrom); ok != (p.name == "http1") {
				t.Errorf("a %T: io.ReaderFrom is %v", w, ok)
			}
			c := http.NewResponseController(w)
			if err := c.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Errorf("SetWriteDeadline: %v", err)
			}
			io.WriteString(w, "hello, ")
			if err := c.Flush(); err != nil {
				t.Errorf("Flush: %v", err)
			}
			io.WriteString(w, "world")
		}
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, next, around(func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, w)))
			})
		}))
		wantText(t, "the body", s.get("/").body, "hello, world")
	})
}

// What the handler notes in its request is there for those who come after it,
// although its request is a copy. The server removes the files of a form by
// that. See https://github.com/golang/go/issues/58809 for what happens
// otherwise.
func TestNotesInTheRequestAreKept(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		mux := http.NewServeMux()
		mux.HandleFunc("POST /forms/{id}", func(w http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(0); err != nil { // nothing stays in memory
				t.Errorf("ParseMultipartForm: %v", err)
			}
			if files, err := filepath.Glob(filepath.Join(dir, "*")); len(files) == 0 {
				t.Errorf("no file for the form: %v", err)
			}
			if r.URL.Path == "/forms/panic" {
				panic(http.ErrAbortHandler)
			}
		})
		var pattern string
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, mux.ServeHTTP, around(func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer func() {
					pattern = r.Pattern
					if recover() != nil {
						r.MultipartForm.RemoveAll() // as the server would for HTTP/2
					}
				}()
				h.ServeHTTP(w, r)
			})
		}))
		for _, path := range []string{"/forms/1", "/forms/panic"} {
			form := "--x\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\n" + strings.Repeat("y", 1<<20) + "\r\n--x--\r\n"
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.srv.URL+path, strings.NewReader(form))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
			resp, err := s.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			wantText(t, "the pattern", pattern, "POST /forms/{id}")
			// The server removes it after the answer.
			until(t, "the form's file is gone", func() bool {
				files, err := os.ReadDir(dir)
				return err == nil && len(files) == 0
			})
		}
	})
}
