package bulkheadhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// Each hop takes its own permit after the one before has given back its own, so
// a limit of 1 and nobody waiting is enough; the body is sent again where the
// status says so.
func TestRedirectsNeedOnePermitAtATime(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/":
				http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
			case "/again":
				// More than the client reads before it closes the body.
				w.Header().Set("Location", "/end")
				w.WriteHeader(http.StatusPermanentRedirect)
				io.WriteString(w, strings.Repeat("elsewhere ", 10_000))
			case "/end":
				io.Copy(w, r.Body)
			}
		})
		resp := rig.do(rig.request(t.Context(), http.MethodPost, "/", strings.NewReader("sent thrice")))
		wantText(t, "body", read(t, resp), "sent thrice")
		rig.wantEnds("ok", "ok", "ok")
	})
}

func TestExpectContinue(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/refused" {
				http.Error(w, "no", http.StatusExpectationFailed)
				return
			}
			io.Copy(w, r.Body) // sends the 100
		})
		for path, want := range map[string]string{"/": "text", "/refused": "no\n"} {
			req := rig.request(t.Context(), http.MethodPost, path, strings.NewReader("text"))
			req.Header.Set("Expect", "100-continue")
			wantText(t, path, read(t, rig.do(req)), want)
			rig.wantActive(0, path)
		}
		rig.wantEnds("ok", "ok")
	})
}

// The base tries again when the server has closed a connection that was idle.
// For the bulkhead that is one request.
func TestRetryOfTheBaseNeedsNoFurtherPermit(t *testing.T) {
	checkGoroutines(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(c net.Conn, in *bufio.Reader) {
		if _, err := http.ReadRequest(in); err != nil {
			t.Error(err)
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntext")
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		first, err := l.Accept()
		if err != nil {
			return
		}
		in := bufio.NewReader(first)
		answer(first, in)
		http.ReadRequest(in) // the second request gets no answer on this connection
		first.Close()
		second, err := l.Accept()
		if err != nil {
			return
		}
		answer(second, bufio.NewReader(second))
		second.Close()
	}()

	p := newTape()
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1, Listener: p.listener()})
	client := &http.Client{Transport: bulkheadhttp.NewTransport(b, new(http.Transport), bulkheadhttp.TransportOptions{})}
	for range 2 {
		resp, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, "body", read(t, resp), "text")
		resp.Body.Close()
	}
	client.CloseIdleConnections()
	l.Close()
	<-served
	if n := len(p.of(event.KindPermitted)); n != 2 {
		t.Errorf("%d permits were taken, want one for each request", n)
	}
	p.checkAtRest(t, b)
}

func TestServerThatIsGoneIsAFailure(t *testing.T) {
	checkGoroutines(t)
	srv := httptest.NewServer(nil)
	srv.Close()
	p := newTape()
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1, Listener: p.listener()})
	client := &http.Client{Transport: bulkheadhttp.NewTransport(b, new(http.Transport), bulkheadhttp.TransportOptions{})}
	_, err := client.Get(srv.URL)
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("got %v, want the error of the dial", err)
	}
	if ends := p.of(event.KindFinished); len(ends) != 1 || !errors.Is(err, ends[0].Err) {
		t.Errorf("told %+v, want one failure with the error of the dial", ends)
	}
	p.checkAtRest(t, b)
}

// A client's Timeout is a deadline like another, told as such. But the client may
// have an error of its own for it, so what happened while the request waited is
// to be known for sure only with a deadline in the context.
func TestTimeoutOfTheClient(t *testing.T) {
	t.Run("while it waits", func(t *testing.T) {
		for _, timeout := range []time.Duration{0, time.Second} {
			synctest.Test(t, func(t *testing.T) {
				rig := newFakeRig(okWith(http.NoBody), bulkheadhttp.TransportOptions{})
				if err := rig.SetMaxWait(time.Minute); err != nil {
					t.Fatal(err)
				}
				held, _ := rig.TryAcquire()
				defer held.Release()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				client := &http.Client{Transport: rig, Timeout: timeout}
				_, err := client.Do(newClientRequest(t, ctx))
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Timeout %v: got %v, want DeadlineExceeded", timeout, err)
				}
				if _, ok := errors.AsType[*bulkhead.CanceledError](err); !ok && timeout == 0 {
					t.Errorf("got %v, want a CanceledError", err)
				}
				if told := rig.tape.of(event.KindCanceled); len(told) != 1 {
					t.Errorf("Timeout %v: told %+v, want that it was canceled", timeout, told)
				}
			})
		}
	})
	t.Run("while it reads", func(t *testing.T) {
		overBoth(t, func(t *testing.T, newRig rigFunc) {
			rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, stall)
			// If the headers take longer, there is no body to read, and if even
			// RoundTrip comes later, there is no permit.
			rig.client.Timeout = 200 * time.Millisecond
			resp, err := rig.client.Get(rig.srv.URL)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want DeadlineExceeded", err)
			}
			rig.tape.wait(t, 1, event.KindReleased, event.KindCanceled, event.KindFinished)
			if told := rig.tape.of(event.KindFinished); len(told) > 0 {
				t.Errorf("told %+v, want that it was released", told)
			}
		})
	})
}

// Transports may be stacked: one limit for all, one for each host.
func TestTransportsWithinEachOther(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "text")
		})
		k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{Name: "hosts", MaxConcurrent: 1}, nil)
		rig.client.Transport = bulkheadhttp.NewKeyedTransport(k, rig.transport, bulkheadhttp.TransportOptions{})
		resp := rig.get(t.Context())
		rig.wantActive(1, "after the headers")
		if k.Len() != 1 {
			t.Errorf("%d hosts are in use after the headers, want 1", k.Len())
		}
		_, err := rig.client.Get(rig.srv.URL)
		if rejected, ok := errors.AsType[bulkhead.RejectedError](err); !ok || rejected.Name != "hosts" {
			t.Errorf("got %v, want a rejection by the outer one", err)
		}
		wantText(t, "body", read(t, resp), "text")
		rig.wantActive(0, "after the end")
		if k.Len() != 0 {
			t.Errorf("%d hosts are in use after the end, want 0", k.Len())
		}
	})
}

// Requests wait in the order in which they came, and each is sent when the one
// before it is done with its body.
func TestRequestsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newFakeRig(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(r.Header.Get("Turn")))}, nil
		}, bulkheadhttp.TransportOptions{})
		rig.SetMaxWait(bulkhead.Forever)
		held, _ := rig.TryAcquire()
		turns := make(chan string, 3)
		for i := range 3 {
			req := newRequest(t.Context(), nil)
			req.Header.Set("Turn", fmt.Sprint(i))
			go func() {
				resp, err := rig.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				turns <- "headers"
				synctest.Wait() // nobody else gets in meanwhile
				turns <- read(t, resp)
			}()
			synctest.Wait()
		}
		held.Release()
		for i := range 3 {
			wantText(t, "turn", <-turns, "headers")
			wantText(t, "turn", <-turns, fmt.Sprint(i))
		}
	})
}
