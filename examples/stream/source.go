package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"
)

// inventory stands for a service that lists its items in pages.
type inventory struct {
	out     io.Writer // where it says which pages are fetched
	items   []string
	perPage int
}

// page returns the items from position from on, and where the next page begins,
// or 0 after the last.
func (inv *inventory) page(ctx context.Context, from int) (items []string, next int, err error) {
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	next = from + inv.perPage
	if next >= len(inv.items) {
		return inv.items[from:], 0, nil
	}
	return inv.items[from:next], next, nil
}

// list returns all items, of which it fetches a page when the loop gets there.
func (inv *inventory) list(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for from, number := 0, 1; ; number++ {
			fmt.Fprintf(inv.out, "  (page %d)\n", number)
			items, next, err := inv.page(ctx, from)
			if err != nil {
				yield("", err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == 0 {
				return
			}
			from = next
		}
	}
}

// ticker stands for a source that keeps sending until it is told to stop, and
// then takes a while to do so.
type ticker struct{ every, winddown time.Duration }

// start starts a stream of ticks, counted from 1. It ends with ctx.
func (t *ticker) start(ctx context.Context) (<-chan int, error) {
	ticks := make(chan int)
	go func() {
		defer close(ticks)
		defer time.Sleep(t.winddown)
		for n := 1; ; n++ {
			select {
			case <-time.After(t.every):
			case <-ctx.Done():
				return
			}
			select {
			case ticks <- n:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ticks, nil
}
