// Observe shows what there is to see of a service under load: its log, its
// metrics for Prometheus, and its status page.
//
// It starts a service on loopback with a bulkhead for its database and one for
// its payments, and clients that come in rushes, and says where to look. It goes
// on until it is interrupted, or for as long as -for says:
//
//	go run -C examples/observe .
//
// At the end it compares what the metrics say with the answers that the clients
// got. If they differ, or if a permit is not back, it says so and exits with
// status 1.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// config is what the program does.
type config struct {
	work     time.Duration // what a request to the service takes
	clients  int           // in a rush, for each bulkhead; otherwise a tenth of them
	rush     time.Duration // how long a rush takes, and the calm before and after
	database bulkhead.Config
	payments bulkhead.Config
}

var standard = config{
	work:     20 * time.Millisecond,
	clients:  40,
	rush:     10 * time.Second,
	database: bulkhead.Config{Name: "database", MaxConcurrent: 8, MaxWait: 50 * time.Millisecond, MaxQueue: 24},
	payments: bulkhead.Config{Name: "payments", MaxConcurrent: 12},
}

func main() {
	lasts := flag.Duration("for", 0, "how long to go on; 0 means until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if *lasts > 0 {
		ctx, stop = context.WithTimeout(ctx, *lasts)
		defer stop()
	}
	os.Exit(command(ctx, os.Stdout, os.Stderr, standard))
}

// command runs the program until ctx is done, which is no failure, and returns
// its exit status.
func command(ctx context.Context, out, stderr io.Writer, cfg config) int {
	if err := run(ctx, out, slog.New(slog.NewTextHandler(stderr, nil)), cfg); err != nil {
		fmt.Fprintf(stderr, "observe: %v\n", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, out io.Writer, logger *slog.Logger, cfg config) (err error) {
	s, err := newService(logger, cfg)
	if err != nil {
		return err
	}
	url, stop, err := demo.Serve(s)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `A service on loopback, whose clients come in rushes. Look at

  status page  %s%s
  metrics      %[1]s%[3]s

and at the warnings in its log. An interrupt ends it.

`, url, statusPath, metricsPath)

	got := keepAsking(ctx, url, cfg)

	// ctx is done, and the answers that are on their way take a moment.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	defer func() {
		if e := stop(ctx); err == nil {
			err = e
		}
	}()
	return report(ctx, out, url, s.registry, got)
}
