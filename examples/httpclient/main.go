// Httpclient is a client that stops hammering a slow host.
//
// It starts two hosts on loopback. One sends the headers of its answers and then
// no more, as a host does that is out of breath. Many callers ask it at once,
// first without a limit, then with one for each host: those beyond it are refused
// before anything is sent, and know it from bulkhead.ErrFull. The other host
// answers them all meanwhile. If a host saw more requests at once than its limit,
// or an answer is missing in the end, the program says so and exits with status 1.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// config is what the program does.
type config struct {
	callers  int
	limit    int // requests at once that a host may see
	bulkhead bulkhead.Config
}

var standard = config{
	callers:  20,
	limit:    4,
	bulkhead: bulkhead.Config{Name: "hosts", MaxConcurrent: 4},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Stdout, os.Stderr, standard))
}

// command runs the program and returns its exit status.
func command(ctx context.Context, out, stderr io.Writer, cfg config) int {
	return demo.Run(ctx, "httpclient", stderr, func(ctx context.Context) error {
		return run(ctx, out, cfg)
	})
}

func run(ctx context.Context, out io.Writer, cfg config) error {
	limits, err := bulkhead.NewKeyed[string, any](cfg.bulkhead, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Two hosts on loopback, one of them slow, and %d callers for each.\n", cfg.callers)

	fmt.Fprint(out, "\nWithout a limit:\n")
	bare, err := play(ctx, new(http.Transport), cfg.callers)
	if err != nil {
		return err
	}
	bare.print(out)

	fmt.Fprintf(out, "\nWith %d requests at once for each host:\n", cfg.limit)
	guarded, err := play(ctx, bulkheadhttp.NewKeyedTransport(limits, new(http.Transport), bulkheadhttp.TransportOptions{}), cfg.callers)
	if err != nil {
		return err
	}
	guarded.print(out)
	return guarded.verdict(cfg)
}
