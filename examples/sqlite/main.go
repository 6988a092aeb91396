// Sqlite is a ledger in a SQLite file on disk, whose queries and transactions
// are guarded by bulkheads, and shows how many connections that needs.
//
// database/sql has a queue of its own: SetMaxOpenConns bounds how many queries
// run, but those that find no connection wait as long as their context allows,
// without bound, unseen, and there is no saying no. A bulkhead in front of it
// refuses what cannot be served in time. What to choose:
//
//   - The limit is what the database does well at once. For SQLite that is one
//     transaction that writes, and some that read; so there are two bulkheads, or
//     the reads would take the permits and the writes wait inside the driver.
//   - The pool is as large as the limits together, or larger by what is used
//     without a permit, such as a health check or a migration. If it is smaller,
//     calls that have a permit wait once more, in the queue that was to be
//     avoided. If it is larger, nothing is gained: those connections stay closed.
//   - SetMaxIdleConns is the same number. With the default of 2, a busy service
//     closes and opens connections all the time.
//   - A call holds its permit for as long as its connection: until its rows are
//     closed, or its transaction is over. See store.go for how.
//   - Within a transaction, or while reading rows, use that, and not another call
//     of the store. Each would wait for a permit while it holds one, and enough of
//     them at once would all wait until their MaxWait has passed.
//
// It sends the same burst of reads and transfers through a pool that is too
// small, one that fits and one that is too large, and prints what became of
// them. If more was done at once than the limits allow, money was lost or made,
// or a call waited for a connection though the pool was large enough, it says so
// and exits with status 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// config is what the program does.
type config struct {
	reads, writes     bulkhead.Config
	pools             []int // connections, one run with each
	accounts          int
	burst             burst
	maxRead, maxWrite int64 // at once, that the ledger may see
}

var standard = config{
	reads:    bulkhead.Config{Name: "reads", MaxConcurrent: 8, MaxWait: 100 * time.Millisecond},
	writes:   bulkhead.Config{Name: "writes", MaxConcurrent: 1, MaxWait: 100 * time.Millisecond},
	pools:    []int{3, 9, 40},
	accounts: 60,
	burst:    burst{reads: 400, transfers: 60, amount: 10},
	maxRead:  8,
	maxWrite: 1,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(command(ctx, os.Stdout, os.Stderr, standard))
}

// command runs the program and returns its exit status.
func command(ctx context.Context, out, stderr io.Writer, cfg config) int {
	return demo.Run(ctx, "sqlite", stderr, func(ctx context.Context) error { return run(ctx, out, cfg) })
}

func run(ctx context.Context, out io.Writer, cfg config) (err error) {
	dir, err := os.MkdirTemp("", "turnstile-sqlite-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintf(out, "A ledger in SQLite: %d reads and %d transfer at once, others wait up to %v.\n",
		cfg.reads.MaxConcurrent, cfg.writes.MaxConcurrent, cfg.reads.MaxWait)
	fmt.Fprintf(out, "%d reads and %d transfers come at once.\n\n", cfg.burst.reads, cfg.burst.transfers)
	fmt.Fprintf(out, "           reads            transfers        connections\n")
	fmt.Fprintf(out, "  pool   served refused   served refused   opened waited for\n")
	for i, pool := range cfg.pools {
		r, err := measure(ctx, cfg, filepath.Join(dir, fmt.Sprintf("%d.db", i)), pool)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %4d    %5d   %5d    %5d   %5d    %5d      %5d\n", pool,
			r.reads.served, r.reads.refused, r.transfers.served, r.transfers.refused, r.opened, r.waited)
		if err := verdict(cfg, pool, r); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "\nCalls that waited for a connection had a permit already: the pool is too small.\n")
	return nil
}

// result is what a run came to.
type result struct {
	reads, transfers tally
	money            int64 // in all accounts, more or less than at the start
	opened           int   // connections, at most
	waited           int64 // calls that did, for a connection
	mostRead         int64 // at once, by the ledger's count
	mostWrite        int64
	reading, writing bulkhead.Stats // in the end
}

// measure sends the burst to a new ledger with that many connections.
func measure(ctx context.Context, cfg config, path string, pool int) (r result, err error) {
	s, err := openStore(ctx, path, pool, cfg)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	before, err := s.total(ctx)
	if err != nil {
		return result{}, err
	}
	if r.reads, r.transfers, err = cfg.burst.load(ctx, s, cfg.accounts); err != nil {
		return result{}, err
	}
	r.opened, r.waited = s.db.Stats().OpenConnections, s.db.Stats().WaitCount
	after, err := s.total(ctx)
	r.money = after - before
	r.mostRead, r.mostWrite = s.reading.Highest(), s.writing.Highest()
	r.reading, r.writing = s.reads.Stats(), s.writes.Stats()
	return r, err
}

// verdict returns an error if a promise was broken.
func verdict(cfg config, pool int, r result) error {
	switch permits := cfg.maxRead + cfg.maxWrite; {
	case r.mostRead > cfg.maxRead:
		return fmt.Errorf("%d reads were made at once, more than %d", r.mostRead, cfg.maxRead)
	case r.mostWrite > cfg.maxWrite:
		return fmt.Errorf("%d transfers were made at once, more than %d", r.mostWrite, cfg.maxWrite)
	case r.money != 0:
		return fmt.Errorf("there is %+d money", r.money)
	case int64(pool) >= permits && r.waited > 0:
		return fmt.Errorf("with %d connections, %d calls waited for one", pool, r.waited)
	}
	for _, s := range []bulkhead.Stats{r.reading, r.writing} {
		if s.Active != 0 || s.Waiting != 0 {
			return fmt.Errorf("in the end %d permits for %s are in flight and %d calls wait", s.Active, s.Name, s.Waiting)
		}
	}
	return nil
}
