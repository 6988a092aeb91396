package main

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/event/eventprom"
)

// Where to look. Both tell much of a service, so one that faces the world has
// them on a port of their own.
const (
	statusPath  = "/debug/bulkheads"
	metricsPath = "/metrics"
)

// service answers at a path for each bulkhead, /database and /payments.
type service struct {
	http.ServeMux
	registry *bulkhead.Registry
	metrics  *eventprom.Metrics
}

// newService returns a service that can be observed: its bulkheads log, and are
// on the status page and among the metrics.
func newService(logger *slog.Logger, cfg config) (*service, error) {
	s := &service{registry: new(bulkhead.Registry), metrics: eventprom.New(eventprom.Options{})}
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(cfg.work)
		w.Write([]byte("done\n"))
	})
	for _, bc := range []bulkhead.Config{cfg.database, cfg.payments} {
		bc.Listener = event.Slog(logger)
		b, err := bulkhead.New[any](bc)
		if err != nil {
			return nil, err
		}
		if err := s.observe(b); err != nil {
			return nil, err
		}
		s.Handle("/"+bc.Name, bulkheadhttp.NewHandler(b, work, bulkheadhttp.HandlerOptions{}))
	}

	collectors := prometheus.NewRegistry()
	if err := collectors.Register(s.metrics); err != nil {
		return nil, err
	}
	s.Handle(metricsPath, promhttp.HandlerFor(collectors, promhttp.HandlerOpts{Registry: collectors}))
	s.Handle(statusPath, bulkheadhttp.StatusPage(s.registry))
	return s, nil
}

// observe puts b on the status page and among the metrics.
func (s *service) observe(b bulkhead.Any) error {
	if err := s.registry.Add(b); err != nil {
		return err
	}
	return s.metrics.Watch(b)
}
