// Quickstart shows what a bulkhead is for, on real traffic and within seconds.
//
// It starts an HTTP service on loopback whose downstream can take only a few
// calls at once, sends it the same burst of requests without and with a
// bulkhead, and prints what became of each. Then it lets burst after burst time
// out in the queue and takes all the permits after each: none may be lost. If
// the bulkhead breaks a promise, it says which and exits with status 1.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// config is what the program does.
type config struct {
	capacity int64         // calls that the downstream serves well at once
	service  time.Duration // what each of them takes
	bulkhead bulkhead.Config
	burst    load

	timeouts int  // bursts that time out in the queue
	waiters  load // each of them
}

var standard = config{
	capacity: 8,
	service:  20 * time.Millisecond,
	bulkhead: bulkhead.Config{
		Name:          "downstream",
		MaxConcurrent: 8,
		MaxWait:       100 * time.Millisecond,
		MaxQueue:      60,
	},
	burst: load{clients: 500, spread: 500 * time.Millisecond, patience: time.Second},

	timeouts: 5,
	waiters:  load{clients: 60, spread: 20 * time.Millisecond, patience: 5 * time.Second},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, demo.NewScreen(os.Stdout), os.Stderr, standard))
}

// command runs the program and returns its exit status.
func command(ctx context.Context, out demo.Screen, stderr io.Writer, cfg config) int {
	return demo.Run(ctx, "quickstart", stderr, func(ctx context.Context) error { return run(ctx, out, cfg) })
}

// run is the story. A broken promise is an error.
func run(ctx context.Context, out demo.Screen, cfg config) error {
	b, err := bulkhead.New[int](cfg.bulkhead)
	if err != nil {
		return err
	}
	n := cfg.bulkhead.MaxConcurrent
	r := report{config: cfg}
	r.printScene(out)

	if r.without, err = measure(ctx, cfg, nil, cfg.burst, out.Task("without a bulkhead", "requests")); err != nil {
		return err
	}
	if r.with, err = measure(ctx, cfg, b, cfg.burst, out.Task("with a bulkhead", "requests")); err != nil {
		return err
	}
	r.with.left = permitsLeft(b, n)
	r.printBursts(out)

	for i := range cfg.timeouts {
		held, ok := b.Weighing(n).TryAcquire()
		if !ok {
			break // the permits left before say why
		}
		task := fmt.Sprintf("timing out, %d of %d", i+1, cfg.timeouts)
		f, err := measure(ctx, cfg, b, cfg.waiters, out.Task(task, "requests"))
		held.Release()
		if err != nil {
			return err
		}
		f.left = permitsLeft(b, n)
		r.timeouts = append(r.timeouts, f)
	}
	r.printTimeouts(out)

	if err := r.verdict(); err != nil {
		return err
	}
	r.printKept(out)
	return nil
}

// measure sends the load to a new service, whose way to its downstream is
// through b, or direct if b is nil.
func measure(ctx context.Context, cfg config, b *bulkhead.Bulkhead[int], l load, progress func(done, of int)) (figures, error) {
	down := &downstream{capacity: cfg.capacity, service: cfg.service}
	srv := &service{lookup: down.price}
	var told tally
	if b != nil {
		srv.lookup = bulkhead.DecorateFunc(b, down.price)
		defer b.Subscribe(told.listener())()
	}
	url, stop, err := demo.Serve(srv.handler())
	if err != nil {
		return figures{}, err
	}
	start := time.Now()
	answers := l.send(ctx, url+"/price/", progress)
	took := time.Since(start)
	// Requests whose clients gave up may still be under way.
	err = stop(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return figures{}, err
	}
	return figures{
		answers: answers,
		took:    took,
		lookups: int(srv.lookups.Load()),
		calls:   int(down.calls.Load()),
		highest: down.inside.Highest(),
		events:  told.events,
	}, nil
}

// permitsLeft finds out how many of its n permits b has left by taking them all
// at once, as a caller would, and then trying for one more. Stats would only
// repeat what b believes.
func permitsLeft(b *bulkhead.Bulkhead[int], n int64) int64 {
	for ; n > 0; n-- {
		all, ok := b.Weighing(n).TryAcquire()
		if !ok {
			continue
		}
		defer all.Release()
		if more, ok := b.TryAcquire(); ok {
			more.Release()
			return n + 1
		}
		return n
	}
	return 0
}
