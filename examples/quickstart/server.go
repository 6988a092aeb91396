package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// downstream stands for what a service depends on: a database, a payment API, a
// model server. It serves as many calls at once as its capacity says in the
// time that its service takes, and every call beyond makes all of them slower
// by a quarter of that. So the more is asked of it at once, the less it does.
type downstream struct {
	capacity int64
	service  time.Duration

	calls  atomic.Int64
	inside demo.Gauge
}

// steps is how many pieces a call's work has. What a piece takes depends on how
// many calls run when it starts, so a call feels those that come after it.
const steps = 4

// price is the call that the service makes: it looks up what an item costs.
func (d *downstream) price(ctx context.Context, item int) (int, error) {
	d.calls.Add(1)
	d.inside.Enter()
	defer d.inside.Leave()
	for range steps {
		beyond := max(0, d.inside.Inside()-d.capacity)
		slower := 1 + float64(beyond)/4
		select {
		case <-time.After(time.Duration(float64(d.service/steps) * slower)):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return priceOf(item), nil
}

// priceOf is the right answer, by which clients check theirs.
func priceOf(item int) int { return 100 + 7*item }

// service is the HTTP service in front of the downstream. lookup is its way
// there: the bare call, or the call guarded by a bulkhead.
type service struct {
	lookup  func(ctx context.Context, item int) (int, error)
	lookups atomic.Int64
}

// handler returns the service's routes.
func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /price/{item}", s.price)
	return mux
}

// price answers what an item costs. Who is rejected learns at once that it is
// for lack of room, and why.
func (s *service) price(w http.ResponseWriter, r *http.Request) {
	item, err := strconv.Atoi(r.PathValue("item"))
	if err != nil {
		http.Error(w, "an item is a number", http.StatusBadRequest)
		return
	}
	s.lookups.Add(1)
	price, err := s.lookup(r.Context(), item)
	if rejected, ok := errors.AsType[bulkhead.RejectedError](err); ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, rejected.Reason.String(), http.StatusServiceUnavailable)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, price)
}
