// Stream guards what goes on for longer than one call: a listing that comes page
// by page, with bulkhead.Seq, and a subscription that ticks, with
// bulkhead.DecorateChan. Either holds its permit until it has really ended.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(demo.Run(ctx, "stream", os.Stderr, func(ctx context.Context) error {
		return run(ctx, os.Stdout)
	}))
}

func run(ctx context.Context, out io.Writer) error {
	if err := list(ctx, out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return subscribe(ctx, out)
}

// list reads a listing to its end, then leaves it early, with one permit for
// both: each loop takes it anew.
func list(ctx context.Context, out io.Writer) error {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "listing", MaxConcurrent: 1})
	inventory := &inventory{out: out, items: []string{"bolt", "nut", "screw", "nail", "hook"}, perPage: 2}
	items := bulkhead.Seq(ctx, b, inventory.list(ctx))

	fmt.Fprintln(out, "A listing, page by page:")
	for item, err := range items {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %s\n", item)
	}
	fmt.Fprintf(out, "At its end, %d permits are in flight.\n\n", b.Stats().Active)

	fmt.Fprintln(out, "The same again, left early:")
	for item, err := range items {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %s, and a second listing beside it: %s\n", item, second(ctx, b, inventory))
		break
	}
	fmt.Fprintf(out, "After the break, %d permits are in flight.\n", b.Stats().Active)
	return nil
}

// second says how another listing fares.
func second(ctx context.Context, b bulkhead.Any, inventory *inventory) string {
	for _, err := range bulkhead.Seq(ctx, b, inventory.list(ctx)) {
		if errors.Is(err, bulkhead.ErrFull) {
			return "rejected"
		}
	}
	return "permitted"
}

// subscribe listens to a ticker for a while and then unsubscribes.
func subscribe(ctx context.Context, out io.Writer) error {
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "ticker", MaxConcurrent: 1})
	ticker := &ticker{every: 20 * time.Millisecond, winddown: 200 * time.Millisecond}
	guarded := bulkhead.DecorateChan(b, ticker.start)

	subscription, unsubscribe := context.WithCancel(ctx)
	defer unsubscribe()
	ticks, err := guarded(subscription)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "A subscription:")
	for n := range ticks {
		fmt.Fprintf(out, "  tick %d\n", n)
		if n == 3 {
			unsubscribe() // ends the loop at once
		}
	}
	fmt.Fprintf(out, "Unsubscribed, the source winds down, and %d permit is in flight.\n", b.Stats().Active)
	if err := b.Drain(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "The source has closed its channel, and %d permits are in flight.\n", b.Stats().Active)
	return nil
}
