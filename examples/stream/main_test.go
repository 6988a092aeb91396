package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunTellsTheStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		start := time.Now()
		if err := run(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
		const want = `A listing, page by page:
  (page 1)
  bolt
  nut
  (page 2)
  screw
  nail
  (page 3)
  hook
At its end, 0 permits are in flight.

The same again, left early:
  (page 1)
  bolt, and a second listing beside it: rejected
After the break, 0 permits are in flight.

A subscription:
  tick 1
  tick 2
  tick 3
Unsubscribed, the source winds down, and 1 permit is in flight.
The source has closed its channel, and 0 permits are in flight.
`
		if out.String() != want {
			t.Errorf("it prints\n%s\nwant\n%s", &out, want)
		}
		// Four pages, three ticks, and the winding down.
		if got, want := time.Since(start), (4*10+3*20+200)*time.Millisecond; got != want {
			t.Errorf("it took %v, want %v", got, want)
		}
	})
}

// Wherever the program is when its context ends, it ends with that.
func TestRunEndsWithItsContext(t *testing.T) {
	for after := 5 * time.Millisecond; after < 300*time.Millisecond; after += 10 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			start := time.Now()
			if err := run(ctx, io.Discard); err != context.DeadlineExceeded {
				t.Errorf("after %v: error %v, want %v", after, err, context.DeadlineExceeded)
			}
			if got := time.Since(start); got != after {
				t.Errorf("it took %v, want %v", got, after)
			}
			time.Sleep(time.Second) // the source winds down
		})
	}
}

func TestListFetchesAPageWhenTheLoopGetsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			items []string
			take  int // and then leave
			pages string
		}{
			{nil, 1, "  (page 1)\n"},
			{[]string{"a", "b"}, 2, "  (page 1)\n"},
			{[]string{"a", "b", "c"}, 2, "  (page 1)\n"},
			{[]string{"a", "b", "c"}, 3, "  (page 1)\n  (page 2)\n"},
		} {
			var out bytes.Buffer
			inv := &inventory{out: &out, items: tc.items, perPage: 2}
			n := 0
			for item, err := range inv.list(t.Context()) {
				if err != nil || item != tc.items[n] {
					t.Errorf("item %d of %v is %q, %v", n, tc.items, item, err)
				}
				if n++; n == tc.take {
					break
				}
			}
			if out.String() != tc.pages || n != min(tc.take, len(tc.items)) {
				t.Errorf("%d items of %v: %q, want %q", n, tc.items, &out, tc.pages)
			}
		}
	})
}
