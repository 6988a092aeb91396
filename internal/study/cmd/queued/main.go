// Queued measures what calls cost that wait in a queue, and how that grows with
// the queue: without a goroutine each, by AcquireAsync and ExecuteAsync, and with
// one, parked in our semaphore or in that of golang.org/x/sync.
//
// Usage:
//
//	queued [-o file] [-runs n] [-sizes list]
//
// It writes a table with a row for each way to queue and size of the queue. The
// README of this module says what the columns mean. A million parked goroutines
// take some 3 GB of memory.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/internal/study/about"
	"github.com/turnstile-go/turnstile/internal/study/table"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "queued:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == measureCommand {
		return measureHere(ctx, args[1:], stdout)
	}
	flags := flag.NewFlagSet("queued", flag.ContinueOnError)
	flags.SetOutput(stderr)
	file := flags.String("o", "", "write the table to this `file` instead of standard output")
	runs := flags.Int("runs", 5, "measure each so many times, in turn, and tell the median")
	list := flags.String("sizes", "10000,100000,1000000", "`list` of how many calls are to wait")
	if err := flags.Parse(args); err != nil {
		return err
	}
	sizes, err := numbers(*list)
	if err == nil && *runs < 1 {
		err = fmt.Errorf("-runs is %d, want at least 1", *runs)
	}
	if err != nil {
		return err
	}
	write, err := table.Create(*file, stdout)
	if err != nil {
		return err
	}

	t := &table.Table{
		About:   about.Facts("queued", args, time.Now(), "golang.org/x/sync"),
		Columns: []string{"how", "calls", "bytes_per_call", "goroutines", "queue_ms", "drain_ms", "drain_ns_per_call"},
	}
	t.About = append(t.About, table.Fact{Key: "runs", Value: fmt.Sprintf("median of %d, each in a process of its own", *runs)})
	for _, calls := range sizes {
		if err := compare(ctx, t, calls, *runs, stderr); err != nil {
			return err
		}
	}
	return write(t)
}

// compare adds to t a row for each contender at that number of calls. The
// contenders take turns, so that what slows the machine for a while slows all.
func compare(ctx context.Context, t *table.Table, calls, runs int, progress io.Writer) error {
	all := make([][]figures, len(contenders))
	for run := range runs {
		for i, c := range contenders {
			f, err := measureApart(ctx, c.name, calls)
			if err != nil {
				return err
			}
			fmt.Fprintf(progress, "%d calls, run %d of %d, %s: %.0f B each, queued in %v, drained in %v\n",
				calls, run+1, runs, c.name, f.Bytes, f.Queue.Round(time.Microsecond), f.Drain.Round(time.Microsecond))
			all[i] = append(all[i], f)
		}
	}
	for i, c := range contenders {
		f := median(all[i])
		t.Add(c.name, calls, f.Bytes, f.Goroutines, f.Queue.Seconds()*1e3, f.Drain.Seconds()*1e3,
			float64(f.Drain.Nanoseconds())/float64(calls))
	}
	return nil
}

// measureHere is what the process of a measurement does: it measures what args
// say and prints the figures.
func measureHere(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("%d arguments, want a way to queue and a number", len(args))
	}
	calls, err := numbers(args[1])
	if err != nil {
		return err
	}
	f, err := measure(ctx, args[0], calls[0])
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(f)
}

// numbers returns the positive numbers of a list with commas.
func numbers(list string) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number of calls", text)
		}
		all = append(all, n)
	}
	return all, nil
}
