// Fanout fetches thousands of pages with few requests at once, in one pass over
// their addresses.
//
// It starts a server on loopback that counts the requests it deals with at
// once, and asks for every page with bulkhead.Go. The calls that have to wait
// queue in the bulkhead without a goroutine each, and the results are collected
// in the order of the pages. If the server saw more requests at once than the
// limit, or a page is missing, it says so and exits with status 1.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// config is what the program does.
type config struct {
	pages    int
	limit    int64 // requests at once that the server may see
	bulkhead bulkhead.Config
}

var standard = config{
	pages:    3000,
	limit:    32,
	bulkhead: bulkhead.Config{Name: "pages", MaxConcurrent: 32},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, demo.NewScreen(os.Stdout), os.Stderr, standard))
}

// command runs the program and returns its exit status.
func command(ctx context.Context, out demo.Screen, stderr io.Writer, cfg config) int {
	return demo.Run(ctx, "fanout", stderr, func(ctx context.Context) error {
		return run(ctx, out, cfg)
	})
}

func run(ctx context.Context, out demo.Screen, cfg config) error {
	b, err := bulkhead.New[string](cfg.bulkhead)
	if err != nil {
		return err
	}
	s := new(server)
	url, stop, err := demo.Serve(s)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A server on loopback, and %d pages to fetch from it, %d at once.\n\n", cfg.pages, cfg.limit)

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: int(cfg.limit)}}
	start := time.Now()
	job := startJob(ctx, b, client, url, cfg.pages)
	fmt.Fprintf(out, "  calls that wait      %5d, when all were made\n", b.Stats().Waiting)
	fmt.Fprintf(out, "  goroutines           %5d at that moment, client and server included\n", runtime.NumGoroutine())
	pages, err := job.collect(ctx, out.Task("fetching", "pages"))
	took := time.Since(start)
	client.CloseIdleConnections()
	if e := stop(ctx); err == nil {
		err = e
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  pages fetched        %5d, in order, in %.1f s\n", len(pages), took.Seconds())
	fmt.Fprintf(out, "  requests at once     %5d at most, by the server's count\n", s.inside.Highest())
	return verdict(cfg, pages, s.inside.Highest())
}

// verdict returns an error if the job was not done as it should be.
func verdict(cfg config, pages []string, highest int64) error {
	if highest > cfg.limit {
		return fmt.Errorf("the server saw %d requests at once, more than %d", highest, cfg.limit)
	}
	if len(pages) != cfg.pages {
		return fmt.Errorf("%d pages, want %d", len(pages), cfg.pages)
	}
	for i, got := range pages {
		if want := page(i); got != want {
			return fmt.Errorf("page %d is %q, want %q", i, got, want)
		}
	}
	return nil
}
