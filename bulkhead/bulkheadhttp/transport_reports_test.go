package bulkheadhttp_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// Faults that users of other libraries reported, on the side of the client. The
// panics among them are in transport_test.go, long-lived connections in
// conn_test.go.

// https://github.com/resilience4j/resilience4j/issues/332 and 543: the permit
// stayed taken when the consumer went away after the first value.
// https://github.com/envoyproxy/envoy/issues/11504: and so it did when the other
// side was gone early, until nothing was let through any more.
func TestResponsesAbandonedMidwayGiveTheirPermitsBack(t *testing.T) {
	for what, abandon := range map[string]func(body io.ReadCloser, cancel func()){
		"closed":              func(body io.ReadCloser, _ func()) { body.Close() },
		"canceled":            func(_ io.ReadCloser, cancel func()) { cancel() },
		"canceled and closed": func(body io.ReadCloser, cancel func()) { cancel(); body.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			overBoth(t, func(t *testing.T, newRig rigFunc) {
				rig := newRig(bulkhead.Config{MaxConcurrent: 2}, bulkheadhttp.TransportOptions{}, func(w http.ResponseWriter, r *http.Request) {
					io.WriteString(w, "first")
					stall(w, r)
				})
				for i := range 50 {
					ctx, cancel := context.WithCancel(t.Context())
					resp := rig.get(ctx)
					if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
						t.Fatal(err)
					}
					abandon(resp.Body, cancel)
					rig.tape.wait(t, i+1, event.KindFinished, event.KindReleased)
					cancel()
				}
			})
		})
	}
}

// https://github.com/failsafe-go/failsafe-go/blob/v0.9.8/CHANGELOG.md (0.9.2):
// permits were not given back when a call was canceled that had come in by one
// of two entries.
func TestCanceledRequestGivesItsPermitBackAtEveryStage(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		for _, untilHeaders := range []bool{false, true} {
			arrived := make(chan struct{})
			rig := newRig(bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever},
				bulkheadhttp.TransportOptions{UntilHeaders: untilHeaders},
				func(w http.ResponseWriter, r *http.Request) {
					arrived <- struct{}{}
					if r.URL.Path == "/silent" {
						<-r.Context().Done()
						return
					}
					stall(w, r)
				})
			send := func(path string) (failed chan error, cancel func()) {
				ctx, cancel := context.WithCancel(t.Context())
				failed = make(chan error, 1)
				req := rig.request(ctx, http.MethodGet, path, nil)
				go func() {
					resp, err := rig.client.Do(req)
					if err == nil {
						_, err = io.ReadAll(resp.Body)
						resp.Body.Close()
					}
					failed <- err
				}()
				return failed, cancel
			}
			for _, path := range []string{"/silent", "/headers only"} {
				failed, cancel := send(path)
				<-arrived
				if path == "/headers only" && untilHeaders {
					rig.tape.wait(t, 2, event.KindFinished, event.KindReleased)
				}
				cancel()
				if err := <-failed; !errors.Is(err, context.Canceled) {
					t.Errorf("%s: got %v, want Canceled", path, err)
				}
			}
			rig.tape.wait(t, 2, event.KindFinished, event.KindReleased) // or the next could be told first
			held, err := rig.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			failed, cancel := send("/queued")
			until(t, "a request waits", func() bool { return rig.Stats().Waiting == 1 })
			cancel()
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Errorf("queued: got %v, want Canceled", err)
			}
			held.Complete(nil)
			last := "released"
			if untilHeaders {
				last = "ok"
			}
			rig.wantEnds("released", last, "ok")
		}
	})
}

// https://github.com/Netflix/Hystrix/issues/1867: the permit was free while the
// work went on, as that did not listen to its deadline.
func TestPermitIsHeldWhileTheBaseIgnoresTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newFakeRig(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Minute)
			return nil, errBoom
		}, bulkheadhttp.TransportOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			rig.RoundTrip(newRequest(ctx, nil))
		}()
		time.Sleep(59 * time.Second)
		if _, err := rig.RoundTrip(newRequest(t.Context(), nil)); !errors.Is(err, bulkhead.ErrFull) {
			t.Errorf("a request while the first goes on: got %v, want ErrFull", err)
		}
		<-done
		rig.wantEnd(t, "released", context.DeadlineExceeded)
	})
}

// https://github.com/palantir/conjure-java-runtime/pull/1137 and 1255: users
// were divided over when the permit ought to come back.
func TestPermitOfAStreamedResponse(t *testing.T) {
	for _, untilHeaders := range []bool{false, true} {
		what := "held until the body is done"
		if untilHeaders {
			what = "held until the headers"
		}
		t.Run(what, func(t *testing.T) {
			overBoth(t, func(t *testing.T, newRig rigFunc) {
				next := make(chan string)
				rig := newRig(bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever},
					bulkheadhttp.TransportOptions{UntilHeaders: untilHeaders},
					func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/" {
							pieces(next)(w, r)
						}
					})
				first := rig.get(t.Context())
				second := make(chan error, 1)
				req := rig.request(t.Context(), http.MethodGet, "/second", nil)
				go func() {
					resp, err := rig.client.Do(req)
					if err == nil {
						err = resp.Body.Close()
					}
					second <- err
				}()
				if untilHeaders {
					if err := <-second; err != nil { // while the first goes on
						t.Error(err)
					}
				} else {
					until(t, "the second waits", func() bool { return rig.Stats().Waiting == 1 })
				}
				next <- "text"
				close(next)
				wantText(t, "first", read(t, first), "text")
				if !untilHeaders {
					if err := <-second; err != nil {
						t.Error(err)
					}
				}
				rig.wantEnds("ok", "ok")
			})
		})
	}
}

// https://github.com/failsafe-go/failsafe-go/issues/123: the client canceled its
// own context when the headers had come, and broke the body.
func TestBodyThatComesLaterIsReadInFull(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		for _, untilHeaders := range []bool{false, true} {
			next := make(chan string)
			rig := newRig(bulkhead.Config{MaxConcurrent: 1, MaxWait: time.Minute},
				bulkheadhttp.TransportOptions{UntilHeaders: untilHeaders}, pieces(next))
			ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
			defer cancel()
			resp := rig.get(ctx)
			text := strings.Repeat("text", 100_000)
			go func() {
				defer close(next)
				next <- text
			}()
			if got := read(t, resp); got != text {
				t.Errorf("read %d bytes, want %d", len(got), len(text))
			}
		}
	})
}

// https://github.com/resilience4j/resilience4j/issues/263: a call with two ends
// gave its permit back twice, and so the limit grew.
func TestRequestWithSeveralEndsGivesOnePermitBack(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 2}, bulkheadhttp.TransportOptions{}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/other" {
				stall(w, r)
			}
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		other := rig.do(rig.request(t.Context(), http.MethodGet, "/other", nil))
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			resp := rig.get(ctx)
			var ends sync.WaitGroup
			ends.Go(cancel)
			ends.Go(func() { io.ReadAll(resp.Body) })
			ends.Go(func() { resp.Body.Close() })
			ends.Go(func() { resp.Body.Close() })
			ends.Wait()
			rig.tape.wait(t, len(rig.tape.of(event.KindPermitted))-1, event.KindFinished, event.KindReleased)
			rig.wantActive(1, "after all ends of the request")
		}
		other.Body.Close()
	})
}

// https://github.com/thomhurst/AsyncSemaphore/pull/563 and
// https://github.com/meziantou/Meziantou.Framework/pull/3068: what was closed
// from two goroutines, or again later, freed the permit of somebody else.
func TestClosingAgainDoesNotFreeThePermitOfAnother(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, stall)
		mine := rig.get(t.Context())
		var closers sync.WaitGroup
		for range 2 {
			closers.Go(func() { mine.Body.Close() })
		}
		closers.Wait()
		theirs := rig.get(t.Context())
		for range 2 {
			mine.Body.Close()
			mine.Body.Read(make([]byte, 1))
		}
		rig.wantActive(1, "after closing the first again")
		if _, ok := rig.TryAcquire(); ok {
			t.Error("the second's permit is free")
		}
		theirs.Body.Close()
	})
}

// https://github.com/golang/go/issues/63615: a permit was to be had with a
// context that was done, if there was room.
func TestRequestWhoseContextIsDoneTakesNothing(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		rig := newRig(bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, func(http.ResponseWriter, *http.Request) {
			t.Error("the request was sent")
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := rig.client.Do(rig.request(ctx, http.MethodGet, "/", nil))
		if c, ok := errors.AsType[*bulkhead.CanceledError](err); !ok || c.Waited != 0 || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want a CanceledError that has not waited", err)
		}
		if got := rig.tape.of(event.KindPermitted, event.KindRejected); len(got) != 0 {
			t.Errorf("told %+v, want only that it was canceled", got)
		}
	})
}

// https://github.com/failsafe-go/failsafe-go/commit/3113968: a wait that the
// caller ended was told as a full bulkhead.
func TestReasonIsWhatEndedTheWait(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		timeout time.Duration
		maxWait time.Duration
		matches error
		not     error
		told    event.Kind
	}{
		{"ctx first", time.Second, time.Minute, context.DeadlineExceeded, bulkhead.ErrFull, event.KindCanceled},
		{"maximum wait first", time.Minute, time.Second, bulkhead.ErrFull, context.DeadlineExceeded, event.KindRejected},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rig := newFakeRig(okWith(http.NoBody), bulkheadhttp.TransportOptions{})
				if err := rig.SetMaxWait(tc.maxWait); err != nil {
					t.Fatal(err)
				}
				held, _ := rig.TryAcquire()
				defer held.Release()
				ctx, cancel := context.WithTimeout(t.Context(), tc.timeout)
				defer cancel()
				_, err := (&http.Client{Transport: rig}).Do(newClientRequest(t, ctx))
				if !errors.Is(err, tc.matches) || errors.Is(err, tc.not) {
					t.Errorf("got %v, want one that matches %v and not %v", err, tc.matches, tc.not)
				}
				if told := rig.tape.of(event.KindCanceled, event.KindRejected); len(told) != 1 || told[0].Kind != tc.told {
					t.Errorf("told %+v, want only %v", told, tc.told)
				}
			})
		})
	}
}

// https://github.com/encode/httpcore/discussions/1093: requests that were
// canceled while the pool was contended left it with places that belonged to
// nobody, until every request timed out.
func TestCrowdThatGivesUpLeavesAllPermits(t *testing.T) {
	overBoth(t, func(t *testing.T, newRig rigFunc) {
		const limit = 4
		rig := newRig(bulkhead.Config{MaxConcurrent: limit, MaxWait: bulkhead.Forever}, bulkheadhttp.TransportOptions{},
			func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, "text")
				http.NewResponseController(w).Flush()
				io.WriteString(w, "text")
			})
		var crowd sync.WaitGroup
		for range 16 {
			crowd.Go(func() {
				for range 25 {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(3*time.Millisecond))
					resp, err := rig.client.Do(rig.request(ctx, http.MethodGet, "/", nil))
					if err == nil {
						io.ReadAll(resp.Body)
						if rand.N(2) == 0 {
							resp.Body.Close()
						}
					}
					cancel()
				}
			})
		}
		crowd.Wait()
		// All that are permitted have ended when the rig says so, and then the
		// whole limit is to be had at once.
		rig.tape.wait(t, len(rig.tape.of(event.KindPermitted)), event.KindFinished, event.KindReleased)
		if err := rig.SetMaxWait(0); err != nil {
			t.Fatal(err)
		}
		for range limit {
			resp := rig.get(t.Context())
			defer resp.Body.Close()
		}
	})
}
