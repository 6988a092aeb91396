package main

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"net/url"

	_ "modernc.org/sqlite" // the driver

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// store is the ledger. Its methods are all there is to reach the database by, so
// that nobody forgets the bulkheads.
type store struct {
	db               *sql.DB
	reads, writes    bulkhead.Any
	reading, writing demo.Gauge // what is in the database, by our own count
}

type account struct{ ID, Balance, Transfers int64 }

type entry struct{ ID, Source, Target, Amount int64 }

// openStore makes a ledger in a file, with so many connections at most.
func openStore(ctx context.Context, path string, pool int, cfg config) (*store, error) {
	reads, err := bulkhead.New[any](cfg.reads)
	if err != nil {
		return nil, err
	}
	writes, err := bulkhead.New[any](cfg.writes)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dataSource(path))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(pool)
	db.SetMaxIdleConns(pool)
	s := &store{db: db, reads: reads, writes: writes}
	if err := s.fill(ctx, cfg.accounts); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// dataSource names the file and says how each connection is set up. With a
// write-ahead log, reads and the one write do not wait for each other.
// busy_timeout is for other processes: in this one, the bulkhead lets only one
// transaction write.
func dataSource(path string) string {
	options := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)"}}
	return "file:" + url.PathEscape(path) + "?" + options.Encode()
}

// fill makes accounts that have 1000 each, and a history.
func (s *store) fill(ctx context.Context, accounts int) error {
	_, err := s.db.ExecContext(ctx, `
		CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0));
		CREATE TABLE transfers (id INTEGER PRIMARY KEY, source INTEGER, target INTEGER, amount INTEGER);
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO accounts SELECT i, 1000 FROM n;
		INSERT INTO transfers (source, target, amount) SELECT a.id, b.id, 1 FROM accounts a, accounts b WHERE b.id % 5 = 0`, accounts)
	return err
}

// total returns how much money there is. It is one row, and QueryRow's Scan
// closes it: Do with a function that returns the value.
func (s *store) total(ctx context.Context) (int64, error) {
	return bulkhead.Do(ctx, s.reads, func(ctx context.Context) (total int64, err error) {
		s.reading.Enter()
		defer s.reading.Leave()
		err = s.db.QueryRowContext(ctx, `SELECT sum(balance) FROM accounts`).Scan(&total)
		return total, err
	})
}

// busiest returns the accounts with the most transfers. They are few, so the
// function given to Do reads them all, and closes the rows before it returns. If
// it returned the rows, the permit would be back while they hold a connection.
func (s *store) busiest(ctx context.Context) ([]account, error) {
	return bulkhead.Do(ctx, s.reads, func(ctx context.Context) ([]account, error) {
		s.reading.Enter()
		defer s.reading.Leave()
		rows, err := s.db.QueryContext(ctx, `
			SELECT a.id, a.balance, count(*) AS n FROM accounts a JOIN transfers t ON a.id IN (t.source, t.target)
			GROUP BY a.id ORDER BY n DESC, a.id LIMIT 10`)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		var all []account
		for rows.Next() {
			var a account
			if err := rows.Scan(&a.ID, &a.Balance, &a.Transfers); err != nil {
				return nil, err
			}
			all = append(all, a)
		}
		return all, rows.Err()
	})
}

// history returns every transfer of an account, the last one first. They may be
// too many to keep, so the caller gets them one by one: Seq holds the permit
// from the start of the loop until it is left, by break or return as well, and
// then the rows are closed.
func (s *store) history(ctx context.Context, id int64) iter.Seq2[entry, error] {
	return bulkhead.Seq(ctx, s.reads, func(yield func(entry, error) bool) {
		s.reading.Enter()
		defer s.reading.Leave()
		rows, err := s.db.QueryContext(ctx, `
			SELECT id, source, target, amount FROM transfers WHERE ?1 IN (source, target) ORDER BY id DESC`, id)
		if err != nil {
			yield(entry{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var e entry
			err := rows.Scan(&e.ID, &e.Source, &e.Target, &e.Amount)
			if !yield(e, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(entry{}, err)
		}
	})
}

// transfer moves money, or fails and moves nothing: a transaction, from begin to
// commit, is one function given to Run. What it does with the transaction is in
// functions that get it, and not the store, whose methods would ask for another
// permit.
//
// When ctx ends, database/sql rolls back on a goroutine of its own, and Rollback
// here does not wait for it. So the transaction would still be there while the
// next one has its permit. Close of a connection that was taken by hand does wait.
func (s *store) transfer(ctx context.Context, source, target, amount int64) error {
	return s.writes.Run(ctx, func(ctx context.Context) error {
		s.writing.Enter()
		defer s.writing.Leave()
		conn, err := s.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // after Commit it does nothing
		if err := add(ctx, tx, source, -amount); err != nil {
			return err
		}
		if err := add(ctx, tx, target, amount); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO transfers (source, target, amount) VALUES (?, ?, ?)`, source, target, amount)
		if err != nil {
			return err
		}
		return tx.Commit()
	})
}

var errNotAdded = errors.New("no such account, or not enough money in it")

// add adds the amount, which may be negative, to an account.
func add(ctx context.Context, tx *sql.Tx, id, amount int64) error {
	result, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = balance + ?2 WHERE id = ?1 AND balance + ?2 >= 0`, id, amount)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		return errors.Join(err, errNotAdded)
	}
	return nil
}
