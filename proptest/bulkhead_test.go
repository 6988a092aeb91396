package proptest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/turnstile-go/turnstile/bulkhead"
	events "github.com/turnstile-go/turnstile/event"
)

// ours are the ways in which our bulkhead is called.
var ours = ways{
	listen:      func(l events.Listener) events.Listener { return l },
	unsubscribe: func(stop func()) { stop() },
	execute: func(ctx context.Context, b *bulkhead.Bulkhead[int], v verb, fn function) (int, error) {
		switch v {
		case toRun:
			return 0, b.Run(ctx, func(ctx context.Context) error {
				_, err := fn(ctx)
				return err
			})
		case toDo:
			return bulkhead.Do(ctx, b, fn)
		}
		return b.Execute(ctx, fn)
	},
	executeAsync: func(ctx context.Context, b *bulkhead.Bulkhead[int], v verb, fn function) future {
		if v == toGo {
			return bulkhead.Go(ctx, b, fn)
		}
		return b.ExecuteAsync(ctx, fn)
	},
	acquire: func(ctx context.Context, b *bulkhead.Bulkhead[int]) (permit, error) {
		p, err := b.Acquire(ctx)
		if p == nil {
			return nil, err
		}
		return p, err
	},
	resize: func(b *bulkhead.Bulkhead[int], n int64) error { return b.SetMaxConcurrent(n) },
	drain:  func(ctx context.Context, b *bulkhead.Bulkhead[int]) error { return b.Drain(ctx) },
}

func asIs() ways { return ours }

// TestBulkhead plays random scripts on bulkheads, and compares every call, every
// permit and every event with a sequential model. A failure is shrunk by rapid,
// and shown as a test to be pasted.
func TestBulkhead(t *testing.T) {
	rapid.Check(t, (&callProperty{t: t, ways: asIs}).check)
}

func FuzzBulkhead(f *testing.F) {
	f.Fuzz(func(t *testing.T, input []byte) {
		rapid.MakeFuzz((&callProperty{t: t, ways: asIs}).check)(t, input)
	})
}

// callProperty is what is checked: that no script shows a violation.
type callProperty struct {
	t      *testing.T
	ways   func() ways
	only   string     // the invariant to look at; any until one is found broken
	found  *violation // by script
	script callScript
	told   int // how often rapid was told
}

// check fails rt if a script that it draws shows a violation. As for semaphores,
// that is shortened here, and rapid told the second time it asks, and no more.
func (c *callProperty) check(rt *rapid.T) {
	if c.found == nil {
		if !c.fails(callScripts.Draw(rt, "script")) {
			return
		}
		c.shorten()
	}
	if c.told++; c.told <= 2 {
		rt.Fatalf("%v\n\n%s", c.found, c.found.code)
	}
}

// fails reports whether s shows a violation of the kind looked for, and keeps
// it. What happens at one instant need not happen in the same order again, so
// once one is found, a script has more than one chance to show it.
func (c *callProperty) fails(s callScript) bool {
	tries := 1
	if c.found != nil && slices.ContainsFunc(s.actions, func(a callAction) bool { return a.joined }) {
		tries = 10
	}
	for range tries {
		p := newCallPlayer(s, c.ways())
		if v := c.bubble(p); v != nil && (c.only == "" || c.only == v.invariant) {
			v.code, v.steps = p.code()
			c.only, c.found, c.script = v.invariant, v, s
			return true
		}
	}
	return false
}

// shorten looks for a simpler script that fails, from there for one that is
// simpler still, and so on.
func (c *callProperty) shorten() {
	for again := true; again; {
		again = false
		for s := range c.script.simpler() {
			if c.fails(s) {
				again = true
				break
			}
		}
	}
}

// bubble lets p play in a bubble. A goroutine that is left there, waiting, makes
// the bubble panic, once all else is over.
func (c *callProperty) bubble(p *callPlayer) (v *violation) {
	defer func() {
		switch r := recover(); {
		case r == nil:
		case !strings.HasPrefix(fmt.Sprint(r), "deadlock"):
			panic(r)
		case v == nil:
			v = violated(delivery, "a goroutine is left that nothing ends")
		}
	}()
	synctest.Test(c.t, func(*testing.T) { v = p.play() })
	return v
}
