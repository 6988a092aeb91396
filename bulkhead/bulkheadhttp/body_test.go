package bulkheadhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// pieces serves what comes from next, each as soon as it comes, until next is
// closed or the client has left.
func pieces(next <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		for {
			select {
			case piece, ok := <-next:
				if !ok {
					return
				}
				io.WriteString(w, piece)
				http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}

// stall sends the headers and nothing more.
var stall = pieces(nil)

func TestPermitIsHeldUntilTheBodyIsReadToItsEnd(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		next := make(chan string)
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, pieces(next))
		resp := rig.get(t.Context())
		rig.wantActive(1, "after the headers")
		got := make([]byte, 1)
		for _, piece := range []string{"a", "b", "c"} { // a server that trickles
			next <- piece
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != piece {
				t.Errorf("read %q, %v, want %q", got, err, piece)
			}
			rig.wantActive(1, "after "+piece)
		}
		close(next)
		if rest := read(t, resp); rest != "" {
			t.Errorf("read %q, want the end", rest)
		}
		rig.wantActive(0, "after the end")
		resp.Body.Close()
		resp.Body.Close()
		rig.wantEnds("ok")
	})
}

func TestPermitIsHeldUntilTheBodyIsClosed(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, stall)
		resp := rig.get(t.Context())
		rig.wantActive(1, "after the headers")
		resp.Body.Close()
		rig.wantActive(0, "after Close")
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
			t.Error("Read after Close: got nil, want an error")
		}
		resp.Body.Close()
		rig.wantEnds("ok")
	})
}

func TestPermitIsHeldUntilTheBodyFails(t *testing.T) {
	for what, die := range map[string]func(*rig){
		"handler aborts":         nil,
		"connections are closed": func(r *rig) { r.srv.CloseClientConnections() },
	} {
		t.Run(what, func(t *testing.T) {
			overBoth(t, func(t *testing.T, newRig rigFunc) {
				abort := make(chan struct{})
				rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Length", "10")
					io.WriteString(w, "five.")
					http.NewResponseController(w).Flush()
					select {
					case <-abort:
						panic(http.ErrAbortHandler)
					case <-r.Context().Done():
					}
				})
				resp := rig.get(t.Context())
				if _, err := io.ReadFull(resp.Body, make([]byte, len("five."))); err != nil {
					t.Fatal(err)
				}
				if die == nil {
					close(abort)
				} else {
					die(rig)
				}
				rest, err := io.ReadAll(resp.Body)
				if len(rest) > 0 || err == nil {
					t.Errorf("read %q, %v, want an error", rest, err)
				}
				rig.wantActive(0, "after the failure")
				resp.Body.Close()
				rig.wantEnds("failed")
				if e := rig.tape.of(event.KindFinished)[0]; e.Err != err {
					t.Errorf("told of the error %v, want Read's: %v", e.Err, err)
				}
			})
		})
	}
}

// A server that is killed leaves its kernel to reset the connections.
func TestConnectionResetIsAFailure(t *testing.T) {
	for _, sent := range []string{"", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfive."} {
		reset := make(chan struct{})
		rig := newRig(t, "HTTP/1.1", bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(c, sent)
			<-reset
			c.(*net.TCPConn).SetLinger(0)
			c.Close()
		})
		if sent == "" {
			close(reset)
		}
		resp, err := rig.client.Do(rig.request(t.Context(), http.MethodPost, "/", nil)) // which is not tried again
		if err == nil {
			_, err = io.ReadFull(resp.Body, make([]byte, len("five.")))
			if err == nil {
				close(reset)
				_, err = io.ReadAll(resp.Body)
			}
			resp.Body.Close()
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after %q: got %v, want ECONNRESET", sent, err)
		}
		rig.wantActive(0, "after the reset")
		rig.wantEnds("failed")
	}
}

func TestConnectionLostBeforeTheHeadersIsAFailure(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		})
		if resp, err := rig.client.Do(rig.request(t.Context(), http.MethodGet, "/", nil)); err == nil {
			t.Errorf("got %v, want an error", resp.Status)
		}
		rig.wantActive(0, "after the failure")
		rig.wantEnds("failed")
	})
}

func TestPermitIsHeldUntilTheContextEnds(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, stall)
		ctx, cancel := context.WithCancelCause(t.Context())
		resp := rig.get(ctx)
		rig.wantActive(1, "after the headers")
		cancel(errBoom)
		rig.wantEnds("released") // though nobody reads and nobody has closed the body
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil {
			t.Error("Read after the context's end: got nil, want an error")
		}
		resp.Body.Close()
		rig.wantEnds("released")
	})
}

// Whichever way the end of the context becomes known, the request is told as
// released, even where the base has an error of its own for it.
func TestRequestWhoseContextEndedIsReleased(t *testing.T) {
	for what, end := range map[string]func(body io.ReadCloser, cancel func()){
		"known to Read":  func(body io.ReadCloser, cancel func()) { cancel(); body.Read(nil) },
		"known to Close": func(body io.ReadCloser, cancel func()) { cancel(); body.Close() },
		"known to none":  func(body io.ReadCloser, cancel func()) { cancel() },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := &fakeBody{read: func([]byte) (int, error) { return 0, errBoom }}
				rig := newFakeRig(okWith(body), bulkheadhttp.TransportOptions{})
				ctx, cancel := context.WithCancel(t.Context())
				resp, err := rig.RoundTrip(newRequest(ctx, nil))
				if err != nil {
					t.Fatal(err)
				}
				end(resp.Body, cancel)
				synctest.Wait()
				rig.wantEnd(t, "released", context.Canceled)
			})
		})
	}
}

// The client tells of its Timeout by Cancel, too, and the base may fail because
// of that before the context is done.
func TestRequestThatItsCancelChannelEnded(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		timeout time.Duration // 0: none
		late    time.Duration // after Cancel, the context ends
		want    string
		err     error
	}{
		{"with the deadline", time.Second, 0, "released", context.DeadlineExceeded},
		{"with a deadline that the context does not keep", time.Second, time.Minute, "failed", errBoom},
		{"before the deadline", time.Minute, 0, "failed", errBoom},
		{"without a deadline", 0, 0, "failed", errBoom},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := &late{Context: t.Context(), done: make(chan struct{})}
				if tc.timeout > 0 {
					ctx.deadline = time.Now().Add(tc.timeout)
				}
				cancel := make(chan struct{})
				rig := newFakeRig(okWith(&fakeBody{read: func([]byte) (int, error) {
					<-cancel
					return 0, errBoom
				}}), bulkheadhttp.TransportOptions{})
				req := newRequest(ctx, nil)
				//lint:ignore SA1019 http.Client sets it
				req.Cancel = cancel
				resp, err := rig.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if _, err := resp.Body.Read(nil); err != errBoom {
						t.Errorf("Read = %v, want boom", err)
					}
				}()
				time.Sleep(time.Second)
				close(cancel)
				synctest.Wait() // the base has failed by now
				time.Sleep(tc.late)
				ctx.end()
				synctest.Wait()
				rig.wantEnd(t, tc.want, tc.err)
			})
		})
	}
}

// late is a context that ends when it is told to, by its deadline if it has one.
type late struct {
	context.Context
	deadline time.Time
	done     chan struct{}
	ended    atomic.Bool
}

func (l *late) Deadline() (time.Time, bool) { return l.deadline, !l.deadline.IsZero() }

func (l *late) Done() <-chan struct{} { return l.done }

func (l *late) Err() error {
	if l.ended.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func (l *late) end() {
	l.ended.Store(true)
	close(l.done)
}

func TestContextKeepsNothingOfARequestThatIsDone(t *testing.T) {
	for what, end := range map[string]func(io.ReadCloser){
		"read":   func(b io.ReadCloser) { io.ReadAll(b) },
		"closed": func(b io.ReadCloser) { b.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			rig := newFakeRig(okWith(new(fakeBody)), bulkheadhttp.TransportOptions{})
			ctx := &watched{Context: t.Context(), done: make(chan struct{})}
			resp, err := rig.RoundTrip(newRequest(ctx, nil))
			if err != nil {
				t.Fatal(err)
			}
			if ctx.watchers != 1 {
				t.Fatalf("%d watch the context while the body is open, want 1", ctx.watchers)
			}
			end(resp.Body)
			if ctx.watchers != 0 {
				t.Errorf("%d watch the context of a request that is done, want none", ctx.watchers)
			}
			rig.wantEnd(t, "ok", nil)
		})
	}
}

// watched is a context that counts those who wait for its end by AfterFunc, as
// package context asks a context that has this method.
type watched struct {
	context.Context
	done     chan struct{}
	watchers int
}

func (w *watched) Done() <-chan struct{} { return w.done }

func (w *watched) Err() error { return nil }

func (w *watched) AfterFunc(func()) (stop func() bool) {
	w.watchers++
	return sync.OnceValue(func() bool {
		w.watchers--
		return true
	})
}

func TestErrorOfCloseIsTheOutcome(t *testing.T) {
	rig := newFakeRig(okWith(&fakeBody{close: func() error { return errBoom }}), bulkheadhttp.TransportOptions{})
	resp, err := rig.RoundTrip(newRequest(t.Context(), nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != errBoom {
		t.Errorf("Close = %v, want the base's error", err)
	}
	rig.wantEnd(t, "failed", errBoom)
}

func TestPermitComesBackAfterTheBaseHasClosedTheBody(t *testing.T) {
	var rig fakeRig
	body := &fakeBody{close: func() error {
		if n := rig.Stats().Active; n != 1 {
			t.Errorf("%d permits in flight while the base closes the body, want 1", n)
		}
		return nil
	}}
	rig = newFakeRig(okWith(body), bulkheadhttp.TransportOptions{})
	resp, err := rig.RoundTrip(newRequest(t.Context(), nil))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	rig.wantEnd(t, "ok", nil)
}

func TestPermitComesBackWhenCloseOfTheBasePanics(t *testing.T) {
	rig := newFakeRig(okWith(&fakeBody{close: func() error { panic(errBoom) }}), bulkheadhttp.TransportOptions{})
	ctx := &watched{Context: t.Context(), done: make(chan struct{})}
	resp, err := rig.RoundTrip(newRequest(ctx, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := leave(func() { resp.Body.Close() }); got != errBoom {
		t.Errorf("got panic %v, want boom", got)
	}
	if ctx.watchers != 0 {
		t.Errorf("%d watch the context of a request that is done, want none", ctx.watchers)
	}
	rig.wantEnd(t, "panicked", nil)
}

// Methods of a context are somebody else's code, too.
func TestPermitComesBackWhenAMethodOfTheContextPanics(t *testing.T) {
	readIt := func(b io.ReadCloser) { b.Read(nil) }
	shut := func(b io.ReadCloser) { b.Close() }
	for _, tc := range []struct {
		when string
		body *fakeBody
		end  func(io.ReadCloser)
	}{
		{"the body ends", new(fakeBody), readIt},
		{"the body fails", &fakeBody{read: func([]byte) (int, error) { return 0, errBoom }}, readIt},
		{"it is closed", new(fakeBody), shut},
		{"its Close panics", &fakeBody{close: func() error { panic(errBoom) }}, shut},
	} {
		for _, method := range []string{"Done", "Err", "Value"} {
			ctx := &brittle{}
			var cancel func()
			ctx.Context, cancel = context.WithCancel(t.Context())
			defer cancel()
			rig := newFakeRig(okWith(tc.body), bulkheadhttp.TransportOptions{})
			resp, err := rig.RoundTrip(newRequest(ctx, nil))
			if err != nil {
				t.Fatal(err)
			}
			ctx.broken.Store(method)
			leave(func() { tc.end(resp.Body) })
			want := "panicked"
			if tc.when == "the body ends" && method == "Err" { // it is not asked
				want = "ok"
			}
			t.Logf("%s, and %s of the context panics:", tc.when, method)
			rig.wantEnd(t, want, nil)
		}
	}
	t.Run("Err at the end of the context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx := &brittle{}
			var cancel func()
			ctx.Context, cancel = context.WithCancel(t.Context())
			rig := newFakeRig(okWith(new(fakeBody)), bulkheadhttp.TransportOptions{})
			if _, err := rig.RoundTrip(newRequest(ctx, nil)); err != nil {
				t.Fatal(err)
			}
			ctx.broken.Store("Err")
			cancel()
			synctest.Wait() // the process lives on
			rig.wantEnd(t, "panicked", nil)
		})
	})
}

// brittle is a context of which the broken method panics.
type brittle struct {
	context.Context
	broken atomic.Value
}

func (b *brittle) use(method string) {
	if b.broken.Load() == method {
		panic(method)
	}
}

func (b *brittle) Done() <-chan struct{} { b.use("Done"); return b.Context.Done() }

func (b *brittle) Err() error { b.use("Err"); return b.Context.Err() }

func (b *brittle) Value(key any) any { b.use("Value"); return b.Context.Value(key) }

// The Read that Close interrupts fails, but the request has not.
func TestReadThatCloseInterruptsIsNoFailure(t *testing.T) {
	for what, answer := range map[string]func(*fakeBody) tripper{
		"body":       func(b *fakeBody) tripper { return okWith(b) },
		"connection": func(b *fakeBody) tripper { return switching(pipe{b}) },
	} {
		t.Run(what, func(t *testing.T) {
			reading, closing, failed := make(chan struct{}), make(chan struct{}), make(chan struct{})
			rig := newFakeRig(answer(&fakeBody{
				read: func([]byte) (int, error) {
					close(reading)
					<-closing
					return 0, errBoom
				},
				close: func() error {
					close(closing)
					<-failed
					return nil
				},
			}), bulkheadhttp.TransportOptions{})
			resp, err := rig.RoundTrip(newRequest(t.Context(), nil))
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				defer close(failed)
				if _, err := resp.Body.Read(nil); err != errBoom {
					t.Errorf("Read = %v, want the base's error", err)
				}
				if n := rig.Stats().Active; n != 1 {
					t.Errorf("%d permits in flight while Close goes on, want 1", n)
				}
			}()
			<-reading
			resp.Body.Close()
			rig.wantEnd(t, "ok", nil)
		})
	}
}

// What Read returns goes through untouched, however a Reader likes to end.
func TestReadPassesOnWhatTheBaseReads(t *testing.T) {
	for what, reader := range map[string]func(io.Reader) io.Reader{
		"end by itself":         func(r io.Reader) io.Reader { return r },
		"end with the last":     iotest.DataErrReader,
		"one byte at a time":    iotest.OneByteReader,
		"error after the data":  func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(errBoom)) },
		"error that wraps EOF":  func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(errors.Join(io.EOF))) },
		"unexpected end of all": func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(io.ErrUnexpectedEOF)) },
	} {
		t.Run(what, func(t *testing.T) {
			const text = "some text"
			want, wantErr := io.ReadAll(reader(strings.NewReader(text)))
			rig := newFakeRig(okWith(io.NopCloser(reader(strings.NewReader(text)))), bulkheadhttp.TransportOptions{})
			resp, err := rig.RoundTrip(newRequest(t.Context(), nil))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Errorf("read %q, %v, want %q, %v", got, err, want, wantErr)
			}
			outcome := "ok"
			if wantErr != nil {
				outcome = "failed"
			}
			rig.wantEnd(t, outcome, err)
		})
	}
}

// io.Copy must see the end, too, whatever short cuts the base's body offers.
func TestCopyOfTheBodyGivesThePermitBack(t *testing.T) {
	rig := newFakeRig(okWith(io.NopCloser(strings.NewReader("text"))), bulkheadhttp.TransportOptions{})
	resp, err := rig.RoundTrip(newRequest(t.Context(), nil))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if _, err := io.Copy(&got, resp.Body); err != nil || got.String() != "text" {
		t.Errorf("copied %q, %v, want the text", &got, err)
	}
	rig.wantEnd(t, "ok", nil)
}

func TestTrailersArriveWithTheEndOfTheBody(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "Announced")
			io.WriteString(w, "text")
			http.NewResponseController(w).Flush()
			w.Header().Set("Announced", "a")
			w.Header().Set(http.TrailerPrefix+"Surprising", "s")
		})
		resp := rig.get(t.Context())
		wantText(t, "body", read(t, resp), "text")
		wantText(t, "announced trailer", resp.Trailer.Get("Announced"), "a")
		wantText(t, "trailer that was not announced", resp.Trailer.Get("Surprising"), "s")
	})
}
