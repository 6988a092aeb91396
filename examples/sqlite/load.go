package main

import (
	"context"
	"errors"
	"sync"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// burst is calls that come at once.
type burst struct {
	reads, transfers int
	amount           int64 // of money, each
}

// tally is what became of the calls of a kind.
type tally struct{ served, refused int }

// load makes all calls, and returns what became of them, or the first thing that
// went wrong.
func (b burst) load(ctx context.Context, s *store, accounts int) (reads, transfers tally, err error) {
	var mu sync.Mutex
	count := func(t *tally, e error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case e == nil:
			t.served++
		case errors.Is(e, bulkhead.ErrFull):
			t.refused++
		case err == nil:
			err = e
		}
	}
	var all sync.WaitGroup
	for i := range b.transfers {
		source, target := int64(i%accounts+1), int64((i+1)%accounts+1)
		all.Go(func() { count(&transfers, s.transfer(ctx, source, target, b.amount)) })
	}
	for i := range b.reads {
		if i%3 == 0 {
			all.Go(func() { count(&reads, lookBack(ctx, s, int64(i%accounts+1))) })
			continue
		}
		all.Go(func() {
			_, err := s.busiest(ctx)
			count(&reads, err)
		})
	}
	all.Wait()
	return reads, transfers, err
}

// lookBack reads the last transfers of an account.
func lookBack(ctx context.Context, s *store, id int64) error {
	n := 0
	for _, err := range s.history(ctx, id) {
		if err != nil {
			return err
		}
		if n++; n == 20 {
			break
		}
	}
	return nil
}
