package bulkheadhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

var errBoom = errors.New("boom")

// fakeRig is a bulkhead with a limit of 1, and a transport over a base that is a
// function.
type fakeRig struct {
	*bulkhead.Bulkhead[int]
	*bulkheadhttp.Transport
	tape *tape
}

func newFakeRig(base tripper, opts bulkheadhttp.TransportOptions, listeners ...event.Listener) fakeRig {
	p := newTape()
	b := bulkhead.MustNew[int](bulkhead.Config{
		Name:          "fake",
		MaxConcurrent: 1,
		Listener:      event.Join(append(listeners, p.listener())...),
	})
	return fakeRig{b, bulkheadhttp.NewTransport(b, base, opts), p}
}

// wantEnd fails the test unless one call was permitted and has ended, as want
// with the error err.
func (r fakeRig) wantEnd(t *testing.T, want string, err error) {
	t.Helper()
	ends := r.tape.of(event.KindFinished, event.KindReleased)
	if len(ends) != 1 {
		t.Fatalf("%d calls have ended, want 1: %+v", len(ends), ends)
	}
	if got := endOf(ends[0]); got != want || !errors.Is(ends[0].Err, err) {
		t.Errorf("the call ended as %q with %v, want %q with %v", got, ends[0].Err, want, err)
	}
	r.tape.checkAtRest(t, r)
}

// newRequest returns a request that is never sent.
func newRequest(ctx context.Context, body io.Reader) *http.Request {
	return httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/", body)
}

func okWith(body io.ReadCloser) tripper {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	}
}

func TestRefusedRequestIsNotSentAndItsBodyClosed(t *testing.T) {
	canceled, cancel := context.WithCancelCause(context.Background())
	cancel(errBoom)
	late, stop := context.WithTimeout(context.Background(), 0)
	defer stop()
	for _, tc := range []struct {
		reason  string
		ctx     context.Context
		make    func(*bulkhead.Bulkhead[int]) bulkhead.Any
		matches error
		timeout bool
		is      event.Reason // 0 for a *CanceledError
	}{
		{"full", context.Background(), func(b *bulkhead.Bulkhead[int]) bulkhead.Any { return b }, bulkhead.ErrFull, false, event.Full},
		{"expired", context.Background(), func(b *bulkhead.Bulkhead[int]) bulkhead.Any { return b.Waiting(time.Second) }, bulkhead.ErrFull, true, event.TimedOut},
		{"too heavy", context.Background(), func(b *bulkhead.Bulkhead[int]) bulkhead.Any { return b.Weighing(2) }, bulkhead.ErrTooHeavy, false, event.TooHeavy},
		{"closed", context.Background(), func(b *bulkhead.Bulkhead[int]) bulkhead.Any { b.Close(); return b }, bulkhead.ErrClosed, false, event.Closed},
		{"canceled from the start", canceled, func(b *bulkhead.Bulkhead[int]) bulkhead.Any { return b }, context.Canceled, false, 0},
		{"its cause", canceled, func(b *bulkhead.Bulkhead[int]) bulkhead.Any { return b }, errBoom, false, 0},
		{"too late from the start", late, func(b *bulkhead.Bulkhead[int]) bulkhead.Any { return b }, context.DeadlineExceeded, true, 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1})
				held, _ := b.TryAcquire()
				defer held.Release()
				client := &http.Client{Transport: bulkheadhttp.NewTransport(tc.make(b), tripper(func(*http.Request) (*http.Response, error) {
					t.Error("the request was sent")
					return nil, errBoom
				}), bulkheadhttp.TransportOptions{})}
				sent := new(fakeBody)
				req, err := http.NewRequestWithContext(tc.ctx, http.MethodPost, "http://127.0.0.1/", sent)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := client.Do(req)
				if resp != nil || !errors.Is(err, tc.matches) {
					t.Errorf("got %v, %v, want an error that matches %v", resp, err, tc.matches)
				}
				var wrapped *url.Error
				if !errors.As(err, &wrapped) || wrapped.Timeout() != tc.timeout {
					t.Errorf("got %T with Timeout %v, want a *url.Error with %v", err, wrapped.Timeout(), tc.timeout)
				}
				if rejected, ok := errors.AsType[bulkhead.RejectedError](err); rejected.Reason != tc.is || ok != (tc.is != 0) {
					t.Errorf("got RejectedError %v with reason %v, want reason %v", ok, rejected.Reason, tc.is)
				}
				if c, ok := errors.AsType[*bulkhead.CanceledError](err); ok != (tc.is == 0) {
					t.Errorf("got CanceledError %v, want %v", c, tc.is == 0)
				}
				if sent.closed != 1 {
					t.Errorf("the request's body was closed %d times, want once", sent.closed)
				}
				if s := b.Stats(); s.Active != 1 || s.Waiting != 0 {
					t.Errorf("Stats = %+v, want only the permit that the test holds", s)
				}
			})
		})
	}
}

func TestRefusedRequestMayLackABody(t *testing.T) {
	rig := newFakeRig(okWith(http.NoBody), bulkheadhttp.TransportOptions{})
	rig.Close()
	req := newRequest(t.Context(), nil)
	req.Body = nil // as clients send it; a server's is never nil
	if _, err := rig.RoundTrip(req); !errors.Is(err, bulkhead.ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

func TestPermitComesBackHoweverTheBaseEnds(t *testing.T) {
	ending, end := context.WithCancel(context.Background())
	for _, tc := range []struct {
		reason  string
		ctx     context.Context
		base    tripper
		want    string // how the call ended
		err     error  // with which error
		wantErr string // what RoundTrip returns
	}{
		{
			"an error", t.Context(),
			func(*http.Request) (*http.Response, error) { return nil, errBoom },
			"failed", errBoom, "boom",
		},
		{
			"an error after ctx ended, which says nothing of ctx", ending,
			func(*http.Request) (*http.Response, error) { end(); return nil, errBoom },
			"released", context.Canceled, "boom",
		},
		{
			"neither response nor error", t.Context(),
			func(*http.Request) (*http.Response, error) { return nil, nil },
			"failed", nil, "bulkheadhttp: the base, a bulkheadhttp_test.tripper, returned neither a response nor an error",
		},
		{
			"both response and error", t.Context(),
			func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Body: new(fakeBody)}, errBoom
			},
			"failed", errBoom, "boom",
		},
		{
			"a response without a body", t.Context(),
			func(*http.Request) (*http.Response, error) { return &http.Response{StatusCode: 200}, nil },
			"ok", nil, "",
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			rig := newFakeRig(tc.base, bulkheadhttp.TransportOptions{})
			resp, err := rig.RoundTrip(newRequest(tc.ctx, nil))
			if err == nil {
				err = errors.New("")
			}
			wantText(t, "error", err.Error(), tc.wantErr)
			if tc.reason == "a response without a body" && (resp == nil || resp.Body != nil) {
				t.Errorf("got %+v, want the base's response as it is", resp)
			}
			switch ends := rig.tape.of(event.KindFinished); {
			case tc.reason == "neither response nor error":
				if len(ends) != 1 || ends[0].Err != err {
					t.Errorf("the call ended as %+v, want the error that RoundTrip returned", ends)
				}
				rig.tape.checkAtRest(t, rig)
			default:
				rig.wantEnd(t, tc.want, tc.err)
			}
		})
	}
}

// A panic in the work must not cost the permit
// (https://github.com/valyala/fasthttp/issues/2219), nor must a failure before it
// has begun (https://github.com/mauricio/postgresql-async/issues/140).
func TestPermitComesBackWhenTheBaseDoesNotReturn(t *testing.T) {
	for _, tc := range []struct {
		reason string
		base   tripper
		want   any // the panic's value; nil for Goexit
	}{
		{"panic", func(*http.Request) (*http.Response, error) { panic(errBoom) }, errBoom},
		{"Goexit", func(*http.Request) (*http.Response, error) { runtime.Goexit(); return nil, nil }, nil},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			// A listener's Goexit would replace the panic if it ran on the same
			// goroutine.
			rig := newFakeRig(tc.base, bulkheadhttp.TransportOptions{}, event.Listener{
				Finished: func(context.Context, event.Finished) { runtime.Goexit() },
			})
			got, returned := leave(func() { rig.RoundTrip(newRequest(t.Context(), nil)) })
			if returned || got != tc.want {
				t.Errorf("returned %v, panic %v, want panic %v", returned, got, tc.want)
			}
			rig.wantEnd(t, "panicked", nil)
		})
	}
}

// leave runs f on a goroutine of its own and says how it left that: the value of
// a panic, or whether it returned; neither after a Goexit.
func leave(f func()) (panicked any, returned bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
		returned = true
	}()
	<-done
	return panicked, returned
}

func TestListenerThatPanicsLosesNothing(t *testing.T) {
	t.Run("of a request refused", func(t *testing.T) {
		rig := newFakeRig(okWith(http.NoBody), bulkheadhttp.TransportOptions{}, event.Listener{
			Rejected: func(context.Context, event.Rejected) { panic(errBoom) },
		})
		rig.Close()
		sent := new(fakeBody)
		if got, _ := leave(func() { rig.RoundTrip(newRequest(t.Context(), sent)) }); got != errBoom {
			t.Errorf("got panic %v, want boom", got)
		}
		if sent.closed != 1 {
			t.Errorf("the request's body was closed %d times, want once", sent.closed)
		}
	})
	boom := func() { panic(errBoom) }
	t.Run("of a request permitted", func(t *testing.T) {
		var first sync.Once // and not when the test looks whether all is well
		rig := newFakeRig(func(*http.Request) (*http.Response, error) {
			t.Error("the request was sent")
			return nil, errBoom
		}, bulkheadhttp.TransportOptions{}, event.Listener{
			Permitted: func(context.Context, event.Permitted) { first.Do(boom) },
		})
		sent := new(fakeBody)
		if got, _ := leave(func() { rig.RoundTrip(newRequest(t.Context(), sent)) }); got != errBoom {
			t.Errorf("got panic %v, want boom", got)
		}
		if sent.closed != 1 {
			t.Errorf("the request's body was closed %d times, want once", sent.closed)
		}
		rig.wantEnd(t, "released", nil)
	})
	finished := event.Listener{Finished: func(context.Context, event.Finished) { boom() }}
	t.Run("of the headers", func(t *testing.T) {
		received := new(fakeBody)
		rig := newFakeRig(okWith(received), bulkheadhttp.TransportOptions{UntilHeaders: true}, finished)
		if got, _ := leave(func() { rig.RoundTrip(newRequest(t.Context(), nil)) }); got != errBoom {
			t.Errorf("got panic %v, want boom", got)
		}
		if received.closed != 1 {
			t.Errorf("the body that nobody got was closed %d times, want once", received.closed)
		}
		rig.wantEnd(t, "ok", nil)
	})
	for what, end := range map[string]func(io.ReadCloser){
		"of the body's end": func(b io.ReadCloser) { b.Read(nil) },
		"of its Close":      func(b io.ReadCloser) { b.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			rig := newFakeRig(okWith(new(fakeBody)), bulkheadhttp.TransportOptions{}, finished)
			resp, err := rig.RoundTrip(newRequest(t.Context(), nil))
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := leave(func() { end(resp.Body) }); got != errBoom {
				t.Errorf("got panic %v, want boom", got)
			}
			rig.wantEnd(t, "ok", nil)
		})
	}
	t.Run("of the context's end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var first sync.Once
			rig := newFakeRig(okWith(new(fakeBody)), bulkheadhttp.TransportOptions{}, event.Listener{
				Released: func(context.Context, event.Released) { first.Do(boom) },
			})
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := rig.RoundTrip(newRequest(ctx, nil)); err != nil {
				t.Fatal(err)
			}
			cancel()
			synctest.Wait() // the process lives on
			rig.wantEnd(t, "released", context.Canceled)
		})
	})
}

func TestPermitComesBackWithTheHeadersIfNoBodyFollows(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/204":
				w.WriteHeader(http.StatusNoContent)
			case "/304":
				w.WriteHeader(http.StatusNotModified)
			case "/HEAD":
				w.Header().Set("Content-Length", "5")
			}
		})
		for _, tc := range []struct{ method, path string }{
			{http.MethodHead, "/HEAD"}, {http.MethodGet, "/204"}, {http.MethodGet, "/304"}, {http.MethodGet, "/empty"},
		} {
			resp := rig.do(rig.request(t.Context(), tc.method, tc.path, nil))
			rig.wantActive(0, tc.path)
			resp.Body.Close()
			resp.Body.Close()
		}
		rig.wantEnds("ok", "ok", "ok", "ok")
	})
}

// Another RoundTripper below may have wrapped a body that is empty, as tracing
// does, and callers of HEAD are known to close nothing.
func TestPermitComesBackWithTheHeadersWhateverTheBodyIs(t *testing.T) {
	for _, tc := range []struct {
		method string
		status int
		held   bool
	}{
		{http.MethodHead, 200, false},
		{http.MethodGet, 204, false},
		{http.MethodGet, 304, false},
		{http.MethodGet, 200, true}, // a ContentLength of 0 may just be unset
	} {
		body := new(fakeBody)
		rig := newFakeRig(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: tc.status, Body: body}, nil
		}, bulkheadhttp.TransportOptions{})
		req := newRequest(t.Context(), nil)
		req.Method = tc.method
		resp, err := rig.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := rig.Stats().Active == 1; got != tc.held {
			t.Errorf("%s, status %d: permit held %v, want %v", tc.method, tc.status, got, tc.held)
		}
		resp.Body.Close()
		if body.closed != 1 {
			t.Errorf("%s, status %d: the base's body was closed %d times, want once", tc.method, tc.status, body.closed)
		}
		rig.wantEnd(t, "ok", nil)
	}
}

func TestNewTransportPanicsWithoutABulkhead(t *testing.T) {
	for _, b := range []bulkhead.Any{nil, (*bulkhead.Bulkhead[int])(nil)} {
		got, _ := leave(func() { bulkheadhttp.NewTransport(b, nil, bulkheadhttp.TransportOptions{}) })
		wantText(t, "panic", fmt.Sprint(got), "bulkheadhttp: NewTransport with a nil bulkhead")
	}
}

func TestNilBaseIsTheDefaultTransportOfTheTime(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	transport := bulkheadhttp.NewTransport(b, nil, bulkheadhttp.TransportOptions{})
	defer func(was http.RoundTripper) { http.DefaultTransport = was }(http.DefaultTransport)
	idle := &idler{tripper: okWith(io.NopCloser(strings.NewReader("set later")))}
	http.DefaultTransport = idle
	resp, err := transport.RoundTrip(newRequest(t.Context(), nil))
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, "body", read(t, resp), "set later")
	transport.CloseIdleConnections()
	if idle.calls != 1 {
		t.Errorf("CloseIdleConnections of the default transport was called %d times, want once", idle.calls)
	}
}

// idler is a base that has CloseIdleConnections.
type idler struct {
	tripper
	calls int
}

func (i *idler) CloseIdleConnections() { i.calls++ }

func TestCloseIdleConnectionsReachesTheBase(t *testing.T) {
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "server", MaxConcurrent: 1})
	idle := new(idler)
	within := bulkheadhttp.NewTransport(b, idle, bulkheadhttp.TransportOptions{})
	(&http.Client{Transport: bulkheadhttp.NewTransport(b, within, bulkheadhttp.TransportOptions{})}).CloseIdleConnections()
	if idle.calls != 1 {
		t.Errorf("called %d times, want once", idle.calls)
	}
	bulkheadhttp.NewTransport(b, tripper(nil), bulkheadhttp.TransportOptions{}).CloseIdleConnections() // has none
}

// newClientRequest returns a request as a client sends it, and that is never sent.
func newClientRequest(t *testing.T, ctx context.Context) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1", nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}
