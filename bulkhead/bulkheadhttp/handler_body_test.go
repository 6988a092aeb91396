package bulkheadhttp_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// post sends a request whose body is what the test writes.
func (s *site) post(path string) (body *io.PipeWriter, r sent) {
	read, write := io.Pipe()
	return write, s.request(http.MethodPost, path, read)
}

// write writes a piece of a body.
func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatalf("the request's body is not read: %v", err)
	}
}

// A client that sends its body bit by bit keeps a permit for as long as the
// handler reads, and not longer, however that ends.
func TestPermitIsHeldWhileTheBodyTrickles(t *testing.T) {
	never := time.Time{}
	for _, tc := range []struct {
		ending   string
		deadline time.Time // for reading the body
		end      func(s *site, body *io.PipeWriter, r sent)
		want     func(err error) bool // what reading the body ends with
	}{
		{
			"the body ends", never,
			func(s *site, body *io.PipeWriter, r sent) { body.Close() },
			func(err error) bool { return err == nil },
		}, {
			"the client leaves", never,
			func(s *site, body *io.PipeWriter, r sent) { r.cancel() },
			func(err error) bool { return err != nil },
		}, {
			"the client is killed", never,
			func(s *site, body *io.PipeWriter, r sent) { s.killClient() },
			func(err error) bool { return err != nil },
		}, {
			"the deadline passes", time.Unix(1, 0),
			func(s *site, body *io.PipeWriter, r sent) {},
			func(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) },
		},
	} {
		t.Run(tc.ending, func(t *testing.T) {
			overProtocols(t, func(t *testing.T, p protocol) {
				first, read, ended := make(chan string), make(chan bool), make(chan error)
				s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, func(w http.ResponseWriter, r *http.Request) {
					drip := make([]byte, 4)
					io.ReadFull(r.Body, drip)
					first <- string(drip)
					<-read
					http.NewResponseController(w).SetReadDeadline(tc.deadline)
					_, err := io.ReadAll(r.Body)
					ended <- err
				})
				body, r := s.post("/")
				write(t, body, "drip")
				wantText(t, "the first piece", receive(t, first), "drip")
				s.wantStatus("/", http.StatusServiceUnavailable)
				read <- true
				tc.end(s, body, r)
				if err := receive(t, ended); !tc.want(err) {
					t.Errorf("reading the body ended with %v", err)
				}
				body.CloseWithError(io.ErrUnexpectedEOF) // the client may wait for more of it
				<-r.result
			})
		})
	}
}

// A refused client that has not sent its body yet is in nobody's way. Whether it
// is told before it has, is up to the server: over HTTP/1 only on a connection
// that ends with that.
func TestRefusedClientThatTricklesHoldsNothing(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, hello)
		permit := s.hold(1)
		body, r := s.post("/")
		go io.WriteString(body, "drip") // HTTP/2 may not read it any more
		s.wantEvents("permitted", "rejected full")
		permit.Release()
		s.wantStatus("/", http.StatusOK)
		body.Close()
		if got := r.wait(); got.status != http.StatusServiceUnavailable {
			t.Errorf("status %d, want 503", got.status)
		}
	})
}

func TestRejectCanAnswerBeforeTheBodyIsSent(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{
			Reject: func(w http.ResponseWriter, r *http.Request, err error) {
				w.Header().Set("Connection", "close")
				w.WriteHeader(http.StatusTooManyRequests)
			},
		}, hello)
		permit := s.hold(1)
		defer permit.Release()
		body, r := s.post("/")
		go io.WriteString(body, "drip")
		if got := r.wait(); got.status != http.StatusTooManyRequests {
			t.Errorf("status %d, want 429", got.status)
		}
		body.Close()
	})
}

func TestPermitComesBackFromAHandlerThatDoesNotReadTheBody(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, hello)
		for i := range 5 {
			a, err := s.do(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat("x", 4<<20)))
			if err != nil || a.body != "hello" {
				t.Fatalf("got %q, %v, want hello", a.body, err)
			}
			s.tape.wait(t, i+1, event.KindFinished)
		}
	})
}

// A client that asks first does not send its body in vain.
func TestRefusedUploadIsNotSentByAClientThatAsksFirst(t *testing.T) {
	s := newSite(t, protocols[0], bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.HandlerOptions{}, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	})
	s.client.Transport.(*http.Transport).ExpectContinueTimeout = patience
	upload := func() (status int, sent bool) {
		t.Helper()
		body := &noted{Reader: strings.NewReader("hello")}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.srv.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Expect", "100-continue")
		resp, err := s.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, body.read.Load()
	}
	permit := s.hold(1)
	if status, sent := upload(); status != http.StatusServiceUnavailable || sent {
		t.Errorf("status %d, body sent %v; want 503 and not sent", status, sent)
	}
	permit.Release()
	if status, sent := upload(); status != http.StatusOK || !sent {
		t.Errorf("status %d, body sent %v; want 200 and sent", status, sent)
	}
}

// noted is a Reader that notes whether it was read.
type noted struct {
	io.Reader
	read atomic.Bool
}

func (r *noted) Read(p []byte) (int, error) {
	r.read.Store(true)
	return r.Reader.Read(p)
}
