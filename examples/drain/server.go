package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// server is a web server and the bulkhead that all its work goes through: that
// of requests, and jobs that go on after theirs is answered.
type server struct {
	work *bulkhead.Bulkhead[struct{}]
	http *http.Server
}

func newServer(limit int64) (*server, error) {
	work, err := bulkhead.New[struct{}](bulkhead.Config{
		Name:          "work",
		MaxConcurrent: limit,
		MaxWait:       time.Minute,
		MaxQueue:      100,
	})
	if err != nil {
		return nil, err
	}
	s := &server{work: work}
	mux := http.NewServeMux()
	mux.Handle("POST /uploads", bulkheadhttp.NewHandler(work, http.HandlerFunc(s.upload), bulkheadhttp.HandlerOptions{}))
	mux.HandleFunc("POST /jobs", s.job)
	mux.HandleFunc("GET /stats", s.stats)
	s.http = &http.Server{Handler: mux}
	return s, nil
}

// drain takes no more work, and returns nil when what runs has ended. If that
// takes longer than the deadline, it says what did not.
func (s *server) drain(deadline time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()

	// Clients that are answered from now on shall connect elsewhere next time.
	s.http.SetKeepAlivesEnabled(false)
	// Before the server's Shutdown, which waits for requests, and would for
	// those that wait, too: now they are refused.
	s.work.Close()
	err := s.http.Shutdown(ctx)
	// After it, because a job may go on when its request is answered, and so may
	// whatever has taken over a connection.
	if e := s.work.Drain(ctx); err == nil {
		err = e
	}
	if err != nil {
		defer s.http.Close()
		return fmt.Errorf("cut off after %v, in flight: %d: %w", deadline, s.work.Stats().Active, err)
	}
	return nil
}

// upload takes as long as its client.
func (s *server) upload(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, "%d bytes\n", n)
}

// job starts something that goes on when the request is answered, and holds its
// permit until it has ended.
func (s *server) job(w http.ResponseWriter, r *http.Request) {
	d, err := time.ParseDuration(r.URL.Query().Get("for")) // FormValue would read the body, with no permit yet
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	permit, err := s.work.Acquire(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	go func() {
		defer permit.Complete(nil)
		time.Sleep(d)
		log.Print("a job is done")
	}()
	w.WriteHeader(http.StatusAccepted)
}

// stats tells how much runs and waits.
func (s *server) stats(w http.ResponseWriter, r *http.Request) {
	stats := s.work.Stats()
	fmt.Fprintf(w, "in flight: %d, waiting: %d", stats.Active, stats.Waiting)
}
