package bulkheadhttp_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// stressTime is the environment's STRESS, or 0.
func stressTime(t *testing.T) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(cmp.Or(os.Getenv("STRESS"), "0s"))
	if err != nil {
		t.Fatalf("STRESS: %v", err)
	}
	return d
}

// Clients of all kinds at once: patient ones, some that leave at some moment,
// and some that get a handler which panics, or releases early. Never are more
// inside than the limit allows, and in the end everything is as it was. A round
// takes half a second; there is one, or as many as fit into STRESS.
func TestStressHandler(t *testing.T) {
	long := stressTime(t)
	overProtocols(t, func(t *testing.T, p protocol) {
		for start, round := time.Now(), uint64(0); round == 0 || time.Since(start) < long; round++ {
			if !t.Run(fmt.Sprint(round), func(t *testing.T) { stressHandler(t, p, round) }) {
				return
			}
		}
	})
}

func stressHandler(t *testing.T, p protocol, seed uint64) {
	const limit, clients, heaviest, long = 4, 24, 3, 500 * time.Millisecond
	var inside atomic.Int64
	weight := func(r *http.Request) (n int64) {
		fmt.Sscanf(r.URL.Path, "/%d", &n)
		return n
	}
	s := newSite(t, p, bulkhead.Config{MaxConcurrent: limit, MaxWait: 2 * time.Millisecond, MaxQueue: clients / 2},
		bulkheadhttp.HandlerOptions{Weight: weight}, func(w http.ResponseWriter, r *http.Request) {
			n := weight(r)
			if now := inside.Add(n); now > limit {
				t.Errorf("conservation: %d permits' worth of requests inside, limit %d", now, limit)
			}
			out := sync.OnceFunc(func() { inside.Add(-n) })
			defer out()
			switch _, what, _ := strings.Cut(r.URL.Path[1:], "/"); what {
			case "panic":
				panic(http.ErrAbortHandler)
			case "early":
				out()
				bulkheadhttp.ReleaseEarly(r.Context())
				time.Sleep(time.Millisecond)
			case "stay":
				select {
				case <-r.Context().Done():
				case <-time.After(time.Millisecond):
				}
			case "write":
				io.WriteString(w, strings.Repeat("x", 100_000))
			}
		})
	s.get("/1/first") // HTTP/2 makes a connection for each, unless there is one

	var sent, refused atomic.Int64
	var crowd sync.WaitGroup
	start := time.Now()
	for id := range uint64(clients) {
		crowd.Go(func() {
			rng := rand.New(rand.NewPCG(seed, id))
			for time.Since(start) < long {
				what := []string{"panic", "early", "stay", "write", "nothing"}[rng.IntN(5)]
				path := fmt.Sprintf("/%d/%s", 1+rng.IntN(heaviest), what)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if rng.IntN(3) == 0 {
					time.AfterFunc(time.Duration(rng.IntN(2000))*time.Microsecond, cancel)
				}
				sent.Add(1)
				a, err := s.do(ctx, http.MethodPost, path, nil)
				cancel()
				switch {
				case err == nil && a.status == http.StatusServiceUnavailable:
					refused.Add(1)
				case err == nil && a.status != http.StatusOK:
					t.Errorf("%s: %d %q", path, a.status, a.body)
				case errors.Is(err, context.DeadlineExceeded):
					t.Errorf("%s: no answer: %v", path, err)
				}
			}
		})
	}
	crowd.Wait()
	t.Logf("%d requests, %d of them refused", sent.Load(), refused.Load())
	if refused.Load() == 0 {
		t.Error("no request was refused")
	}
}
