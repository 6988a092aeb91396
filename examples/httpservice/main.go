// Httpservice is a web service whose handlers are guarded by a bulkhead: an item
// takes one permit, a report, which is more work, takes four, and the health
// check takes none.
//
// It serves on loopback, sends itself a burst of requests of each kind, and
// prints what became of them. If more was done at once than the limit allows, a
// health check was refused, or an answer is none of those agreed on, it says so
// and exits with status 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// config is what the program does.
type config struct {
	bulkhead bulkhead.Config
	capacity int64 // permits' worth of work at once that the service may do
	burst    []kind
}

// kind is requests that are alike.
type kind struct {
	name, path string
	requests   int
}

var standard = config{
	bulkhead: bulkhead.Config{
		Name:          "service",
		MaxConcurrent: 8,
		MaxWait:       200 * time.Millisecond,
		MaxQueue:      40,
	},
	capacity: 8,
	burst:    []kind{{"items", "/items/7", 400}, {"reports", "/reports/7", 40}, {"health checks", "/healthz", 20}},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Stdout, os.Stderr, standard))
}

// command runs the program and returns its exit status.
func command(ctx context.Context, out, stderr io.Writer, cfg config) int {
	return demo.Run(ctx, "httpservice", stderr, func(ctx context.Context) error { return run(ctx, out, cfg) })
}

func run(ctx context.Context, out io.Writer, cfg config) error {
	b, err := bulkhead.New[struct{}](cfg.bulkhead)
	if err != nil {
		return err
	}
	s := new(service)
	url, stop, err := demo.Serve(s.handler(b))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: new(http.Transport)}
	tallies, err := load(ctx, client, url, cfg.burst)
	client.CloseIdleConnections()
	if err := errors.Join(err, stop(ctx)); err != nil {
		return err
	}
	fmt.Fprintf(out, "A service on loopback, limit %d: an item weighs 1, a report %d, a health check nothing.\n", cfg.bulkhead.MaxConcurrent, reportWeight)
	fmt.Fprintf(out, "All requests come at once.\n\n")
	fmt.Fprintf(out, "                 sent   served   refused\n")
	for i, k := range cfg.burst {
		fmt.Fprintf(out, "  %-13s %5d    %5d     %5d\n", k.name, k.requests, tallies[i].served, tallies[i].refused)
	}
	fmt.Fprintf(out, "\nAt most %d permits' worth of work was done at once.\n", s.working.Highest())
	return verdict(cfg, tallies, s.working.Highest(), b.Stats())
}

// verdict returns an error if a promise was broken.
func verdict(cfg config, tallies []tally, highest int64, s bulkhead.Stats) error {
	if highest > cfg.capacity {
		return fmt.Errorf("%d permits' worth of work was done at once, more than %d", highest, cfg.capacity)
	}
	for i, k := range cfg.burst {
		if n := tallies[i].served + tallies[i].refused; n != k.requests {
			return fmt.Errorf("%s: %d answers, want %d", k.name, n, k.requests)
		}
		if k.path == healthPath && tallies[i].refused > 0 {
			return fmt.Errorf("%d health checks were refused", tallies[i].refused)
		}
	}
	if s.Active != 0 || s.Waiting != 0 {
		return fmt.Errorf("in the end %d permits are in flight and %d requests wait", s.Active, s.Waiting)
	}
	return nil
}
