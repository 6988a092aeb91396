package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// service is an HTTP service that asks its downstream once for each request.
type service struct {
	guard guard
	down  *downstream
	meter *meter
}

// figures is what the service knows of itself.
type figures struct {
	Downstream downstreamLog
	Peak       usage         // of memory and goroutines
	CPU        time.Duration // that the process has used
}

// served is the answer to a request that all went well with.
const served = "served"

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.answer)
	mux.HandleFunc("GET /figures", s.figures)
	return mux
}

func (s *service) answer(w http.ResponseWriter, r *http.Request) {
	err := s.guard(r.Context(), s.down.call)
	switch {
	case err == nil:
		io.WriteString(w, served)
	case errors.Is(err, bulkhead.ErrFull):
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default: // the client has left, so nobody will read it
		http.Error(w, err.Error(), http.StatusGatewayTimeout)
	}
}

func (s *service) figures(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(figures{s.down.log(), s.meter.peak(), cpuTime()})
}
