package bulkheadhttp_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// The load is ten times the limit: as many connections, each of which sends the
// next request when it has the answer.
const (
	loadLimit = 8
	loadUsers = 10 * loadLimit
)

// loadTime is the environment's STRESS, or short.
func loadTime(t *testing.T) time.Duration { return cmp.Or(stressTime(t), time.Second) }

// loaded is a site under load.
type loaded struct {
	*site
	counters *event.Counters
	inside   gauge

	mu       sync.Mutex
	statuses map[int]int64
	refusals sample // what the server took for each
}

// newLoaded returns a site whose requests take a moment each.
func newLoaded(t *testing.T, p protocol, cfg bulkhead.Config) *loaded {
	l := &loaded{counters: event.NewCounters(), statuses: map[int]int64{}}
	cfg.MaxConcurrent, cfg.Listener = loadLimit, l.counters.Listener()
	// A tape of all this would be long, so nobody fills it.
	l.site = newSiteTold(t, p, cfg, newTape(), bulkheadhttp.HandlerOptions{}, func(w http.ResponseWriter, r *http.Request) {
		l.inside.enter()
		defer l.inside.leave()
		time.Sleep(2 * time.Millisecond)
		io.WriteString(w, "hello")
	}, around(l.count))
	return l
}

// count counts how requests are answered.
func (l *loaded) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &statusWriter{w, http.StatusOK}
		start := time.Now()
		h.ServeHTTP(counted, r)
		took := time.Since(start)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.statuses[counted.status]++
		if counted.status == http.StatusServiceUnavailable {
			l.refusals.add(took)
		}
	})
}

// check looks at what the load has left behind, once it is over.
func (l *loaded) check() {
	l.t.Helper()
	l.client.CloseIdleConnections()
	l.srv.Close()
	if err := l.Drain(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := l.inside.highest(); got > loadLimit {
		l.t.Errorf("%d requests were inside at once, more than %d", got, loadLimit)
	}
	counts := l.counters.Snapshot()
	var rejected int64
	for _, n := range counts.Rejected {
		rejected += n.Calls
	}
	// Some may leave their place in the queue when the load ends.
	want := map[int]int64{
		http.StatusOK:                 counts.Permitted.Calls,
		http.StatusServiceUnavailable: rejected,
		499:                           counts.Canceled.Calls,
	}
	maps.DeleteFunc(want, func(_ int, n int64) bool { return n == 0 })
	if !maps.Equal(l.statuses, want) {
		l.t.Errorf("the answers were %v, want %v as the events say", l.statuses, want)
	}
	if l.statuses[http.StatusOK] == 0 || rejected == 0 || counts.Canceled.Calls > loadUsers {
		l.t.Errorf("the answers were %v, want some served, some refused, and few left", l.statuses)
	}
	if got := counts.Running().Calls; got != 0 {
		l.t.Errorf("%d requests are told to run still", got)
	}
	l.t.Logf("%d served, %d refused", l.statuses[http.StatusOK], rejected)
	l.t.Logf("a refusal within the server: %v", &l.refusals)
}

// sample is durations.
type sample struct{ all []time.Duration }

func (s *sample) add(d time.Duration) { s.all = append(s.all, d) }

func (s *sample) String() string {
	if len(s.all) == 0 {
		return "none"
	}
	slices.Sort(s.all)
	at := func(q float64) time.Duration { return s.all[int(q*float64(len(s.all)-1))].Round(time.Microsecond) }
	return fmt.Sprintf("p50 %v, p90 %v, p99 %v, p99.9 %v, longest %v", at(0.5), at(0.9), at(0.99), at(0.999), at(1))
}

// waits are the ways in which a request that finds no permit may wait.
var waits = []struct {
	name string
	cfg  bulkhead.Config
}{
	{"rejected at once", bulkhead.Config{}},
	{"waiting for a moment", bulkhead.Config{MaxWait: 5 * time.Millisecond, MaxQueue: loadUsers / 2}},
}

// wrk is as hard a client as there is, and knows nothing of us.
func TestStressLoadByWrk(t *testing.T) {
	wrk, err := exec.LookPath("wrk")
	if err != nil {
		t.Skip("it needs wrk: apt-get install wrk")
	}
	for _, wait := range waits {
		t.Run(wait.name, func(t *testing.T) {
			l := newLoaded(t, protocols[0], wait.cfg)
			seconds := int(math.Ceil(loadTime(t).Seconds())) // wrk knows no other unit
			var out bytes.Buffer
			cmd := exec.CommandContext(t.Context(), wrk, "--latency", "--threads=2",
				fmt.Sprint("--connections=", loadUsers), fmt.Sprint("--duration=", seconds, "s"), l.srv.URL)
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, &out)
			}
			l.check()
			t.Logf("%s", &out)
			if bytes.Contains(out.Bytes(), []byte("Socket errors")) {
				t.Error("wrk met errors of sockets")
			}
			// wrk counts what it has read when its time is over.
			refused := regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`).FindSubmatch(out.Bytes())
			if refused == nil {
				t.Fatal("wrk was refused nothing")
			}
			got, _ := strconv.ParseInt(string(refused[1]), 10, 64)
			if sent := l.statuses[http.StatusServiceUnavailable]; got > sent || got < sent-loadUsers {
				t.Errorf("wrk read %d refusals, want nearly the %d sent", got, sent)
			}
		})
	}
}

// Over HTTP/2 all requests share a connection.
func TestStressLoadOverHTTP2(t *testing.T) {
	for _, wait := range waits {
		t.Run(wait.name, func(t *testing.T) {
			l := newLoaded(t, protocols[1], wait.cfg)
			l.get("/") // so that the next requests find a connection
			long := loadTime(t)
			var users sync.WaitGroup
			var mu sync.Mutex
			var refusals sample
			start := time.Now()
			for range loadUsers {
				users.Go(func() {
					for time.Since(start) < long {
						sent := time.Now()
						a, err := l.do(t.Context(), http.MethodGet, "/", nil)
						took := time.Since(sent)
						switch {
						case err != nil:
							t.Errorf("no answer: %v", err)
							return
						case a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "1":
							mu.Lock()
							refusals.add(took)
							mu.Unlock()
						case a.status != http.StatusOK || a.body != "hello":
							t.Errorf("answer %d %q", a.status, a.body)
							return
						}
					}
				})
			}
			users.Wait()
			l.check()
			t.Logf("a refusal as the client sees it: %v", &refusals)
		})
	}
}
