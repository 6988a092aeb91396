package bulkheadhttp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// statusWriter notes the status of a response, as middleware that logs does.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// A client that left while it was queued once made the server log an exception,
// and a 500: https://github.com/dotnet/aspnetcore/issues/43473. It was also told
// as a rejection elsewhere:
// https://github.com/failsafe-go/failsafe-go/commit/3113968
func TestClientThatLeavesTheQueueDoesNotReachTheHandler(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		statuses := make(chan int, 1)
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, bulkheadhttp.HandlerOptions{
			Reject: func(http.ResponseWriter, *http.Request, error) {
				t.Error("Reject is asked for an answer that nobody reads")
			},
		}, unreachable(t), around(func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				logging := &statusWriter{w, http.StatusOK}
				h.ServeHTTP(logging, r)
				statuses <- logging.status
			})
		}))
		permit := s.hold(1)
		r := s.send("/")
		s.untilWaiting(1)
		r.leave()
		if got := receive(t, statuses); got != 499 {
			t.Errorf("status %d, want 499", got)
		}
		if waiting := s.Stats().Waiting; waiting != 0 {
			t.Errorf("%d requests wait, want none", waiting)
		}
		permit.Release()
		s.wantEvents("permitted", "canceled", "released")
	})
}

// To net/http a client that closes its side of the connection has left, although
// it may still read. It gets an answer that says so, and no success.
func TestClientThatClosesItsSideHasLeft(t *testing.T) {
	s := newSite(t, protocols[0], bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, bulkheadhttp.HandlerOptions{}, unreachable(t))
	permit := s.hold(1)
	defer permit.Release()
	conn, err := net.Dial("tcp", s.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\n\r\n")
	s.untilWaiting(1)
	conn.(*net.TCPConn).CloseWrite()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 499 {
		t.Errorf("got %+v, %v, want status 499", resp, err)
	}
}

// The reverse: who waits for too long is rejected, and has not canceled.
func TestRequestThatWaitsForTooLongIsRejected(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1, MaxWait: time.Millisecond}, bulkheadhttp.HandlerOptions{}, unreachable(t))
		permit := s.hold(1)
		s.wantStatus("/", http.StatusServiceUnavailable)
		permit.Release()
		s.wantEvents("permitted", "rejected timed_out", "released")
	})
}

// The server's WriteTimeout runs while a request waits: if that is for longer,
// nobody hears of it.
func TestRequestThatWaitsBeyondWriteTimeoutGetsNoAnswer(t *testing.T) {
	cfg := bulkhead.Config{MaxConcurrent: 1, MaxWait: 20 * time.Millisecond}
	s := newSite(t, protocols[0], cfg, bulkheadhttp.HandlerOptions{}, unreachable(t), func(srv *http.Server) {
		srv.WriteTimeout = cfg.MaxWait / 2
	})
	permit := s.hold(1)
	s.send("/").fail()
	permit.Release()
	s.wantEvents("permitted", "rejected timed_out", "released")
}

// A permit is not taken by who is already gone, free as it may be:
// https://github.com/golang/go/issues/63615
func TestClientThatHasLeftTakesNoFreePermit(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		arrived := make(chan struct{}, 1)
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, unreachable(t),
			around(func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					arrived <- struct{}{}
					<-r.Context().Done() // such as a limit on the rate, which let it wait
					h.ServeHTTP(w, r)
				})
			}))
		r := s.send("/")
		receive(t, arrived)
		r.leave()
		s.wantEvents("canceled")
	})
}

// For each way in there is the same test: a call canceled in flight leaves
// nothing behind. Elsewhere one of two had been forgotten:
// https://github.com/failsafe-go/failsafe-go/releases/tag/v0.9.2
func TestPermitComesBackWhenTheClientLeavesInFlight(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		inside := make(chan struct{}, 1)
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, bulkheadhttp.HandlerOptions{},
			func(w http.ResponseWriter, r *http.Request) {
				inside <- struct{}{}
				<-r.Context().Done()
			})
		for i, leave := range []func(sent){
			func(r sent) { r.leave() },
			func(r sent) { s.killClient(); r.fail() },
		} {
			r := s.send("/")
			receive(t, inside)
			leave(r)
			// The permit is back before that is told, so the next request would
			// get in between.
			s.tape.wait(t, i+1, event.KindFinished)
		}
		s.wantEvents("permitted", "finished ok", "permitted", "finished ok")
	})
}

// A proxy once did not count down when the client closed early, and stopped
// working at its limit: https://github.com/envoyproxy/envoy/issues/11504
func TestPermitsComeBackFromClientsKilledMidResponse(t *testing.T) {
	const times = 50
	for _, handler := range []struct {
		name string
		rest func(http.ResponseWriter, *http.Request)
	}{
		{"waits", func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"writes", func(w http.ResponseWriter, r *http.Request) {
			for chunk := make([]byte, 32<<10); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(handler.name, func(t *testing.T) {
			overProtocols(t, func(t *testing.T, p protocol) {
				s := newSite(t, p, bulkhead.Config{MaxConcurrent: 2}, bulkheadhttp.HandlerOptions{}, func(w http.ResponseWriter, r *http.Request) {
					io.WriteString(w, "hello")
					http.NewResponseController(w).Flush()
					handler.rest(w, r)
				})
				for i := 1; i <= times; i++ {
					ctx, cancel := context.WithCancel(t.Context())
					resp, err := s.open(ctx, http.MethodGet, "/", nil)
					if err != nil {
						t.Fatalf("request %d: %v", i, err)
					}
					if _, err := io.ReadFull(resp.Body, make([]byte, len("hello"))); err != nil || resp.StatusCode != http.StatusOK {
						t.Fatalf("request %d: status %d, %v", i, resp.StatusCode, err)
					}
					if i%2 == 0 {
						s.killClient()
					}
					cancel()
					resp.Body.Close()
					s.tape.wait(t, i, event.KindFinished)
				}
			})
		})
	}
}

// Clients that stop reading once kept their places until the service was dead:
// https://github.com/navidrome/navidrome/issues/5472. The permit is held through
// the response, unless it is given back early, or the server loses patience.
func TestSlowReaderKeepsItsPermitUnlessReleasedEarly(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ready func(http.ResponseWriter, *http.Request) // before the body is written
		end   func(*http.Response)                     // nil if nobody needs to do anything
		want  int                                      // status of a second request meanwhile
	}{
		{
			"held", func(http.ResponseWriter, *http.Request) {},
			func(resp *http.Response) { resp.Body.Close() }, http.StatusServiceUnavailable,
		}, {
			"released early", func(w http.ResponseWriter, r *http.Request) { bulkheadhttp.ReleaseEarly(r.Context()) },
			func(resp *http.Response) { resp.Body.Close() }, http.StatusOK,
		}, {
			"with a deadline for writing", func(w http.ResponseWriter, r *http.Request) {
				http.NewResponseController(w).SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			}, nil, http.StatusOK, // as soon as it has passed
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			overProtocols(t, func(t *testing.T, p protocol) {
				writing, ended := make(chan struct{}), make(chan struct{}, 1)
				s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/" {
						return
					}
					http.NewResponseController(w).Flush()
					tc.ready(w, r)
					writing <- struct{}{}
					for chunk := make([]byte, 1<<20); ; { // more than fits between here and there
						if _, err := w.Write(chunk); err != nil {
							break
						}
					}
					ended <- struct{}{}
				})
				resp, err := s.open(t.Context(), http.MethodGet, "/film", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				receive(t, writing)
				if tc.end == nil {
					receive(t, ended)
					s.tape.wait(t, 1, event.KindFinished)
				}
				s.wantStatus("/", tc.want)
				if tc.end != nil {
					tc.end(resp)
					receive(t, ended)
				}
			})
		})
	}
}

// A timeout that answers early must not free the permit while the work goes on:
// https://github.com/Netflix/Hystrix/issues/1867
func TestPermitIsHeldByAHandlerThatOutlivesItsTimeout(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		var inside gauge
		started, leave := make(chan struct{}, 1), make(chan struct{})
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, func(w http.ResponseWriter, r *http.Request) {
			inside.enter()
			defer inside.leave()
			started <- struct{}{}
			<-leave // whatever the context says
		}, around(func(h http.Handler) http.Handler {
			impatient := http.TimeoutHandler(h, 200*time.Millisecond, "")
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/impatient" {
					impatient.ServeHTTP(w, r)
					return
				}
				h.ServeHTTP(w, r)
			})
		}))
		r := s.send("/impatient")
		receive(t, started)
		if got := r.wait(); got.status != http.StatusServiceUnavailable {
			t.Errorf("status %d of the request that takes too long, want 503", got.status)
		}
		s.wantStatus("/", http.StatusServiceUnavailable)
		s.wantEvents("permitted", "rejected full")
		close(leave)
		s.tape.wait(t, 1, event.KindFinished)
		s.wantStatus("/", http.StatusOK)
		if got := inside.highest(); got != 1 {
			t.Errorf("%d requests were inside at once, want 1", got)
		}
	})
}

// A filter once counted down for requests that an earlier filter had refused,
// below zero: https://github.com/envoyproxy/envoy/issues/22390
func TestRequestsRefusedOutsideGiveNothingBack(t *testing.T) {
	const refused = 1000
	overProtocols(t, func(t *testing.T, p protocol) {
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, hello, around(func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer bulkheadhttp.ReleaseEarly(r.Context()) // the clean-up of a request that never got in
				if r.URL.Path == "/refused" {
					http.Error(w, "no", http.StatusForbidden)
					return
				}
				h.ServeHTTP(w, r)
			})
		}))
		for range refused {
			s.wantStatus("/refused", http.StatusForbidden)
		}
		s.wantStatus("/", http.StatusOK)
		s.wantEvents("permitted", "finished ok")
	})
}

// Websockets once took all places for as long as they lived:
// https://github.com/aviddiviner/gin-limit/issues/3 and
// https://github.com/graphql-hive/router/issues/1335. There are three ways out.
func TestHijackedConnectionsLeaveRoomForOthers(t *testing.T) {
	const limit = 2
	for _, tc := range []struct {
		name string
		opts bulkheadhttp.HandlerOptions
		// socket is what the handler does with its connection until it returns.
		socket func(r *http.Request, echo func())
		want   int // status of a request while the connections are open
	}{
		{
			"held by handlers that stay", bulkheadhttp.HandlerOptions{},
			func(r *http.Request, echo func()) { echo() }, http.StatusServiceUnavailable,
		}, {
			"skipped", bulkheadhttp.HandlerOptions{Skip: func(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }},
			func(r *http.Request, echo func()) { echo() }, http.StatusOK,
		}, {
			"released early", bulkheadhttp.HandlerOptions{},
			func(r *http.Request, echo func()) { bulkheadhttp.ReleaseEarly(r.Context()); echo() }, http.StatusOK,
		}, {
			"left to others by handlers that return", bulkheadhttp.HandlerOptions{},
			func(r *http.Request, echo func()) { go echo() }, http.StatusOK,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var open atomic.Int64
			s := newSite(t, protocols[0], bulkhead.Config{MaxConcurrent: limit}, tc.opts, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Upgrade") == "" {
					return
				}
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Errorf("Hijack: %v", err)
					return
				}
				open.Add(1)
				tc.socket(r, func() {
					defer open.Add(-1)
					defer conn.Close()
					io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
					io.Copy(conn, rw)
				})
			})
			var conns []net.Conn
			for range limit {
				conns = append(conns, s.upgrade())
			}
			if tc.want == http.StatusOK { // which may be a moment after the upgrade
				until(t, "no permit is in flight", func() bool { return s.Stats().Active == 0 })
			}
			s.wantStatus("/", tc.want)
			for _, c := range conns {
				c.Close()
			}
			until(t, "the connections are closed", func() bool { return open.Load() == 0 })
		})
	}
}

// upgrade opens a connection that echoes, and tries it.
func (s *site) upgrade() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.srv.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		s.t.Fatalf("no upgrade: %+v, %v", resp, err)
	}
	io.WriteString(conn, "hello\n")
	line, err := r.ReadString('\n')
	if line != "hello\n" {
		s.t.Errorf("the echo is %q, %v", line, err)
	}
	return conn
}
