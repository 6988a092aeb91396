package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// newStore makes a ledger of ten accounts, whose bulkheads permit one call each
// and are counted by the counters returned.
func newStore(t *testing.T) (s *store, reads, writes *event.Counters) {
	t.Helper()
	reads, writes = event.NewCounters(), event.NewCounters()
	path := filepath.Join(t.TempDir(), "100% ledger?.db") // no name may be taken for an option
	s, err := openStore(t.Context(), path, 2, config{
		reads:    bulkhead.Config{Name: "reads", MaxConcurrent: 1, Listener: reads.Listener()},
		writes:   bulkhead.Config{Name: "writes", MaxConcurrent: 1, Listener: writes.Listener()},
		accounts: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	t.Cleanup(func() {
		wantInUse(t, s, 0)
		if err := s.db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, reads, writes
}

// wantInUse fails t unless that many permits for reading and connections are in
// use.
func wantInUse(t *testing.T, s *store, n int64) {
	t.Helper()
	if permits, connections := s.reads.Stats().Active, s.db.Stats().InUse; permits != n || int64(connections) != n {
		t.Errorf("%d permits and %d connections in use, want %d of each", permits, connections, n)
	}
	if n := s.writes.Stats().Active; n != 0 {
		t.Errorf("%d permits to write in use, want none", n)
	}
}

func TestTransferMovesMoney(t *testing.T) {
	s, _, writes := newStore(t)
	if err := s.transfer(t.Context(), 1, 2, 300); err != nil {
		t.Fatal(err)
	}
	for e, err := range s.history(t.Context(), 1) {
		if want := (entry{e.ID, 1, 2, 300}); e != want || err != nil {
			t.Errorf("the last transfer is %+v, %v, want %+v", e, err, want)
		}
		break
	}
	busiest, err := s.busiest(t.Context())
	if err != nil || len(busiest) != 10 {
		t.Fatalf("busiest: %d accounts, %v, want 10", len(busiest), err)
	}
	for _, a := range busiest {
		want := map[int64]int64{1: 700, 2: 1300}[a.ID]
		if want == 0 {
			want = 1000
		}
		if a.Balance != want {
			t.Errorf("account %d has %d, want %d", a.ID, a.Balance, want)
		}
	}
	if got := writes.Snapshot().Finished[event.OK].Calls; got != 1 {
		t.Errorf("%d transfers have succeeded, want 1", got)
	}
}

func TestTransferThatFailsMovesNothing(t *testing.T) {
	s, _, writes := newStore(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		reason                 string
		ctx                    context.Context
		source, target, amount int64
		want                   error
	}{
		{"too little money", t.Context(), 1, 2, 1001, errNotAdded},
		{"no source", t.Context(), 99, 2, 1, errNotAdded},
		{"no target", t.Context(), 1, 99, 1, errNotAdded},
		{"canceled", canceled, 1, 2, 1, context.Canceled},
	} {
		if err := s.transfer(tc.ctx, tc.source, tc.target, tc.amount); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.reason, err, tc.want)
		}
		wantInUse(t, s, 0)
	}
	if total, err := s.total(t.Context()); total != 10*1000 || err != nil {
		t.Errorf("there is %d in all, %v, want 10000", total, err)
	}
	if got := writes.Snapshot(); got.Finished[event.Failed].Calls != 3 || got.Canceled.Calls != 1 {
		t.Errorf("counted %+v, want 3 that failed and 1 canceled", got)
	}
}

// Canceled at any moment, a transfer is over when its permit is back, and has
// moved all of the money or nothing.
func TestCanceledTransferIsOverWithItsPermit(t *testing.T) {
	s, _, _ := newStore(t)
	for i := range 500 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Microsecond)
		s.transfer(ctx, 1, 2, 1)
		wantInUse(t, s, 0)
		cancel()
		if t.Failed() {
			return
		}
	}
	if total, err := s.total(t.Context()); total != 10*1000 || err != nil {
		t.Errorf("there is %d in all, %v, want 10000", total, err)
	}
}

// While rows are open there is a permit to them; and then, however the loop
// ends, neither permit nor connection.
func TestHistoryHoldsItsPermitUntilItsRowsAreClosed(t *testing.T) {
	s, reads, _ := newStore(t)
	for _, tc := range []struct {
		reason string
		leave  func(n int) bool
		want   int
	}{
		{"to the end", func(int) bool { return false }, 11},
		{"break", func(n int) bool { return n == 3 }, 3},
		{"panic", func(n int) bool {
			if n == 3 {
				panic("boom")
			}
			return false
		}, 3},
	} {
		n := 0
		func() {
			defer func() { _ = recover() }()
			for _, err := range s.history(t.Context(), 5) {
				if n++; err != nil {
					t.Fatal(err)
				}
				wantInUse(t, s, 1)
				if _, err := s.total(t.Context()); !errors.Is(err, bulkhead.ErrFull) {
					t.Errorf("%s: another read meanwhile: %v, want ErrFull", tc.reason, err)
				}
				if tc.leave(n) {
					break
				}
			}
		}()
		wantInUse(t, s, 0)
		if n != tc.want {
			t.Errorf("%s: %d entries, want %d", tc.reason, n, tc.want)
		}
	}
	got := reads.Snapshot().Finished
	if got[event.OK].Calls != 2 || got[event.Panicked].Calls != 1 {
		t.Errorf("counted %+v, want 2 that are OK and 1 that panicked", got)
	}
}

// The driver's error for a query that is canceled is the context's, so nobody
// has to map it for the bulkhead to know.
func TestCanceledQueryIsReleased(t *testing.T) {
	const endless = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`
	s, reads, _ := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.reads.Run(ctx, func(ctx context.Context) error {
		go cancel()
		var n int
		return s.db.QueryRowContext(ctx, endless).Scan(&n)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if got := reads.Snapshot().Released.Calls; got != 1 {
		t.Errorf("%d calls were released, want 1", got)
	}
}

func TestCallsAreRefusedWhilePermitsAreTaken(t *testing.T) {
	s, _, _ := newStore(t)
	for _, b := range []bulkhead.Any{s.reads, s.writes} {
		p, ok := b.TryAcquire()
		if !ok {
			t.Fatalf("no permit for %s", b.Name())
		}
		defer p.Release()
	}
	opened := s.db.Stats().OpenConnections
	_, total := s.total(t.Context())
	_, busiest := s.busiest(t.Context())
	for what, err := range map[string]error{
		"total": total, "busiest": busiest, "transfer": s.transfer(t.Context(), 1, 2, 1), "lookBack": lookBack(t.Context(), s, 1),
	} {
		if !errors.Is(err, bulkhead.ErrFull) {
			t.Errorf("%s: got %v, want ErrFull", what, err)
		}
	}
	if got := s.db.Stats().OpenConnections; got != opened {
		t.Errorf("%d connections, want %d as before", got, opened)
	}
}
