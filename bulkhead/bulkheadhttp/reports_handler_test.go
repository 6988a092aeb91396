package bulkheadhttp_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// Faults of queues that users of other libraries reported, in front of a
// handler.

// A storm of requests whose clients had given up kept minutes of dead ones in
// line, until somebody released:
// https://github.com/nozzlegear/ShopifySharp/issues/1055
func TestStormOfClientsThatLeaveKeepsNoPlaceInTheQueue(t *testing.T) {
	const storms, crowd = 4, 30
	overProtocols(t, func(t *testing.T, p protocol) {
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever, MaxQueue: crowd},
			bulkheadhttp.HandlerOptions{}, hello)
		s.wantStatus("/", http.StatusOK) // HTTP/2 makes a connection for each, unless there is one
		permit := s.hold(1)              // throughout
		for storm := 1; storm <= storms; storm++ {
			var clients []sent
			for range crowd {
				clients = append(clients, s.send("/"))
			}
			s.untilWaiting(crowd)
			for _, c := range clients {
				c.leave()
			}
			s.tape.wait(t, storm*crowd, event.KindCanceled)
			if got := s.Stats(); got.Waiting != 0 || got.Active != 1 {
				t.Errorf("after storm %d: %+v, want nobody waiting and 1 permit in flight", storm, got)
			}
		}
		if got := s.tape.of(event.KindRejected); len(got) != 0 {
			t.Errorf("%d requests found the queue full of those who had left", len(got))
		}
		last := s.send("/")
		s.untilWaiting(1)
		permit.Release()
		wantText(t, "the body", last.wait().body, "hello")
	})
}

// Of twenty quick calls for ten permits and ten places some were refused:
// https://github.com/OpenLiberty/open-liberty/issues/2746
func TestQuickRequestsFillLimitAndQueueExactly(t *testing.T) {
	const rounds, limit, queue = 50, 3, 3
	overProtocols(t, func(t *testing.T, p protocol) {
		leave := make(chan struct{}, limit+queue)
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: limit, MaxWait: bulkhead.Forever, MaxQueue: queue},
			bulkheadhttp.HandlerOptions{}, func(http.ResponseWriter, *http.Request) { <-leave })
		for range rounds {
			var crowd []sent
			for range limit + queue {
				crowd = append(crowd, s.send("/"))
			}
			s.untilWaiting(queue)
			s.wantStatus("/", http.StatusServiceUnavailable)
			for range crowd {
				leave <- struct{}{}
			}
			for i, r := range crowd {
				if got := r.wait().status; got != http.StatusOK {
					t.Errorf("request %d of %d: status %d, want 200", i, len(crowd), got)
				}
			}
			s.tape.wait(t, len(s.tape.of(event.KindPermitted)), event.KindFinished)
		}
	})
}

// On shutdown nothing woke those who waited:
// https://github.com/tokio-rs/tokio/issues/3061
func TestQueuedRequestsAreAnsweredOnClose(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		inside, leave := make(chan struct{}, 5), make(chan struct{})
		s := newSite(t, p, bulkhead.Config{MaxConcurrent: 1, MaxWait: bulkhead.Forever}, bulkheadhttp.HandlerOptions{},
			func(w http.ResponseWriter, r *http.Request) {
				inside <- struct{}{}
				<-leave
				hello(w, r)
			})
		first := s.send("/")
		receive(t, inside)
		var queued []sent
		for range 3 {
			queued = append(queued, s.send("/"))
		}
		s.untilWaiting(len(queued))
		s.Close()
		for _, r := range queued {
			if got := r.wait().status; got != http.StatusServiceUnavailable {
				t.Errorf("a queued request: status %d, want 503", got)
			}
		}
		s.wantStatus("/", http.StatusServiceUnavailable)
		close(leave)
		wantText(t, "the body of the one inside", first.wait().body, "hello")
		s.wantEvents("permitted", "rejected closed", "rejected closed", "rejected closed", "rejected closed", "finished ok")
	})
}

// Who asks again from inside waits for himself, for ever:
// https://github.com/panjf2000/ants/issues/90. Here the wait is bounded.
func TestHandlerGuardedTwiceByOneBulkheadIsRefused(t *testing.T) {
	overProtocols(t, func(t *testing.T, p protocol) {
		var s *site
		s = newSite(t, p, bulkhead.Config{MaxConcurrent: 1, MaxWait: time.Millisecond}, bulkheadhttp.HandlerOptions{}, unreachable(t),
			around(func(guarded http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					bulkheadhttp.NewHandler(s, guarded, bulkheadhttp.HandlerOptions{}).ServeHTTP(w, r)
				})
			}))
		s.wantStatus("/", http.StatusServiceUnavailable)
		s.wantEvents("permitted", "rejected timed_out", "finished ok")
	})
}
