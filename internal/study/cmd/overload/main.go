// Overload measures what becomes of a service when more is asked of it than its
// downstream can do, with and without a guard between the two.
//
// Usage:
//
//	overload [-o file] [-short]
//
// It starts an HTTP service on loopback, in a process of its own, whose
// downstream has a fixed capacity, offers it from a fifth to five times of that,
// in an open loop, and writes a table with a row for each guard and load. The
// README of this module says what the columns mean. If figures are to be
// doubted, it says why, and exits with status 1, after it has written them.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/turnstile-go/turnstile/internal/study/about"
	"github.com/turnstile-go/turnstile/internal/study/table"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "overload:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == serveCommand {
		return serve(args[1:], stdin, stdout)
	}
	flags := flag.NewFlagSet("overload", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("o", "", "write the table to this `file` instead of standard output")
	quick := flags.Bool("short", false, "run for seconds, to see that it works")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := full()
	if *quick {
		s = short()
	}
	write, err := table.Create(*file, stdout)
	if err != nil {
		return err
	}

	fmt.Fprintf(stderr, "%d points, about %v\n", len(s.guards)*len(s.loads), s.takes().Round(time.Second))
	t := &table.Table{About: s.about(args), Columns: columns}
	var points []point
	err = s.run(ctx, func(p point) {
		fmt.Fprintln(stderr, p)
		points = append(points, p)
		t.Add(p.cells(s.perSecond())...)
	})
	if err != nil {
		return err
	}
	if err := write(t); err != nil {
		return err
	}
	return s.verdict(points)
}

// about returns the header of the table.
func (s study) about(args []string) []table.Fact {
	facts := about.Facts("overload", args, time.Now(), "golang.org/x/sync")
	return append(facts,
		table.Fact{Key: "downstream", Value: fmt.Sprintf(
			"serves %d calls at once in %v each, %.0f a second; beyond, all inside share that evenly",
			s.capacity, s.service, s.perSecond())},
		table.Fact{Key: "clients", Value: fmt.Sprintf(
			"open loop, Poisson with seed %d, counted for %v after %v; each gives up after %v",
			s.load.seed, s.load.window, s.load.warmUp, s.load.patience)},
	)
}
