package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

const (
	healthPath   = "/healthz"
	reportPath   = "/reports/"
	reportWeight = 4
)

// service serves items and reports.
type service struct{ working demo.Gauge }

// handler returns the service's routes, guarded by b. It guards all of them at
// once, so one that is added later is guarded, too.
func (s *service) handler(b bulkhead.Any) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "fine") })
	mux.HandleFunc("GET /items/{id}", s.item)
	mux.HandleFunc("GET "+reportPath+"{id}", s.report)
	return bulkheadhttp.NewHandler(b, mux, bulkheadhttp.HandlerOptions{
		// A service that is busy is healthy. Were the check refused, it would be
		// restarted when it is needed most.
		Skip: func(r *http.Request) bool { return r.URL.Path == healthPath },
		Weight: func(r *http.Request) int64 {
			if strings.HasPrefix(r.URL.Path, reportPath) {
				return reportWeight
			}
			return 1
		},
		RetryAfter: 2 * time.Second,
	})
}

func (s *service) item(w http.ResponseWriter, r *http.Request) {
	s.work(1, 5*time.Millisecond)
	fmt.Fprint(w, "item ", r.PathValue("id"))
}

func (s *service) report(w http.ResponseWriter, r *http.Request) {
	s.work(reportWeight, 20*time.Millisecond)
	fmt.Fprint(w, "report ", r.PathValue("id"))
}

// work stands for something that takes its time, and as many processors,
// connections, or gigabytes as it weighs.
func (s *service) work(weight int, d time.Duration) {
	for range weight {
		s.working.Enter()
		defer s.working.Leave()
	}
	time.Sleep(d)
}
