package linearize

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/turnstile-go/turnstile/semaphore"
)

// reopen ends a history: c, who comes last, takes all permits, the others queue
// for some, and then c gives everything back at once, and some of the others
// leave in that moment. There is enough for all of them, and nobody makes another
// call that could help: whoever is not granted now never will be.
func (c *client) reopen(others []*client) (ops []porcupine.Operation) {
	limit := c.stats(stats).Limit
	if limit == 0 {
		limit = c.heaviest
		c.setLimit(limit)
	}
	c.tryFor(limit)
	var (
		returned = make(chan *client, len(others))
		asking   = map[int]call{}
		leave    []func()
	)
	for id, o := range others {
		var n int64 // in all, no more than the limit
		if int64(id) < limit {
			n = 1
		}
		ctx, canceled := context.Background(), new(atomic.Int64)
		if c.r.IntN(3) == 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			leave = append(leave, func() { canceled.Store(c.now()); cancel() })
		}
		asking[id] = call{op: ask, n: n, waits: true, from: c.now()}
		go func() {
			o.acquire(ctx, n, semaphore.Forever, canceled)
			returned <- o
		}()
	}
	// They need not all be there, nor can they, if it is closed.
	waiting := c.r.IntN(len(others) + 1)
	for k := 0; k < 100 && c.lim.Stats().Waiting < waiting; k++ {
		runtime.Gosched()
	}
	release := func() {
		for len(c.held) > 0 {
			c.release()
		}
	}
	steps := append(leave, release)
	c.r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	for _, step := range steps {
		step()
	}

	patience := time.After(c.untilRest)
	for len(asking) > 0 {
		select {
		case o := <-returned:
			ops = append(ops, o.ops...)
			delete(asking, o.id)
		case <-patience:
			for id, what := range asking {
				o := c.client(id)
				o.note(what, reply{}, what.from, c.now())
				ops = append(ops, o.ops...)
			}
			return ops
		}
	}
	return ops
}
