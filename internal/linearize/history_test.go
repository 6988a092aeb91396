package linearize

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/turnstile-go/turnstile/semaphore"
)

// limiter is what a history calls.
type limiter interface {
	TryAcquire(n int64) bool
	Release(n int64)
	SetLimit(limit int64)
	Stats() semaphore.Stats
	Close()
	Drain(ctx context.Context) error
	AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error
	AcquireAsync(ctx context.Context, n int64, maxWait time.Duration) *semaphore.Pending
}

// script says what kind of history to run.
type script struct {
	goroutines, ops int
	limit           int64
	maxWaiters      int
	waits           bool // with requests that wait
	seed            uint64
	closeAfter      int // ops, by goroutine 0; never if beyond
	heaviest        int64
}

// scriptFor draws a script. The same seed draws the same one; what the
// goroutines then meet is up to the scheduler.
func scriptFor(seed uint64, waits bool) script {
	r := rand.New(rand.NewPCG(seed, 0))
	sc := script{
		goroutines: 3 + r.IntN(clients-2),
		ops:        10 + r.IntN(21),
		limit:      int64(r.IntN(5)),
		waits:      waits,
		seed:       seed,
		heaviest:   int64(1 + r.IntN(3)),
	}
	sc.closeAfter = r.IntN(4 * sc.ops)
	if r.IntN(2) == 0 {
		sc.maxWaiters = 1 + r.IntN(2)
	}
	return sc
}

// history collects the operations of one run, with the times before and after.
type history struct {
	begun time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (h *history) now() int64 { return int64(time.Since(h.begun)) }

// client is one goroutine of a history.
type client struct {
	id   int
	h    *history
	lim  limiter
	r    *rand.Rand
	sc   script
	held []int64 // weights granted to it and not released

	ops []porcupine.Operation

	pending *request // made by AcquireAsync and not answered yet
}

// request is an asynchronous request under way.
type request struct {
	*semaphore.Pending
	call     call  // the ask
	at       int64 // when it was made
	maxWait  time.Duration
	cancel   context.CancelFunc
	canceled int64 // when cancel was called, or 0
}

// run plays the script on lim and returns the history.
func (sc script) run(lim limiter) []porcupine.Operation {
	h := &history{begun: time.Now()}
	// They all begin within nanoseconds.
	var ready atomic.Int32
	var wg sync.WaitGroup
	for id := range sc.goroutines {
		c := &client{id: id, h: h, lim: lim, sc: sc, r: rand.New(rand.NewPCG(sc.seed, uint64(id)+1))}
		wg.Go(func() {
			for ready.Add(1); ready.Load() < int32(sc.goroutines); {
				runtime.Gosched()
			}
			for k := range sc.ops {
				if id == 0 && k == sc.closeAfter {
					c.do(call{op: shut}, func() (r reply) { lim.Close(); return })
				}
				c.step()
			}
			c.end()
			h.mu.Lock()
			h.ops = append(h.ops, c.ops...)
			h.mu.Unlock()
		})
	}
	wg.Wait()
	// At rest: what is in use now was lost.
	last := &client{h: h, lim: lim}
	last.stats()
	return append(h.ops, last.ops...)
}

// do makes a call that takes effect at one instant.
func (c *client) do(what call, f func() reply) reply {
	what.client = c.id
	op := porcupine.Operation{ClientId: c.id, Input: what}
	op.Call = c.h.now()
	r := f()
	op.Return = c.h.now()
	op.Output = r
	c.ops = append(c.ops, op)
	return r
}

// note records a part of a call, which took effect between from and to.
func (c *client) note(what call, r reply, from, to int64) {
	what.client = c.id
	c.ops = append(c.ops, porcupine.Operation{ClientId: c.id, Input: what, Output: r, Call: from, Return: to})
}

// step makes a random call.
func (c *client) step() {
	if c.r.IntN(4) == 0 {
		runtime.Gosched()
	}
	kinds := []func(){c.try, c.try, c.release, c.release, c.setLimit, c.stats, c.drain, c.refuse}
	if c.sc.waits {
		kinds = []func(){c.try, c.release, c.release, c.release, c.setLimit, c.stats, c.drain, c.refuse, c.wait, c.wait, c.async, c.async}
	}
	kinds[c.r.IntN(len(kinds))]()
}

func (c *client) weight() int64 { return c.r.Int64N(c.sc.heaviest + 1) }

func (c *client) try() {
	n := c.weight()
	if c.do(call{op: try, n: n}, func() reply { return reply{ok: c.lim.TryAcquire(n)} }).ok {
		c.held = append(c.held, n)
	}
}

// release returns some of what the client holds, so that it never returns too
// much; or, if it holds nothing, it looks at Stats.
func (c *client) release() {
	if len(c.held) == 0 {
		c.stats()
		return
	}
	k := c.r.IntN(len(c.held))
	n := c.held[k]
	c.held = slices.Delete(c.held, k, k+1)
	c.do(call{op: release, n: n}, func() (r reply) { c.lim.Release(n); return })
}

func (c *client) setLimit() {
	n := c.r.Int64N(5)
	c.do(call{op: setLimit, n: n}, func() (r reply) { c.lim.SetLimit(n); return })
}

func (c *client) stats() {
	c.do(call{op: stats}, func() reply { return reply{stats: c.lim.Stats()} })
}

// drain is a Drain, whose context has ended or, where the script lets calls
// wait, ends later.
func (c *client) drain() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from := c.h.now()
	var canceled atomic.Int64
	end := func() { canceled.Store(c.h.now()); cancel() }
	if c.sc.waits && c.r.IntN(2) == 0 {
		defer time.AfterFunc(c.patience(), end).Stop()
	} else {
		end()
	}
	ok := c.lim.Drain(ctx) == nil
	since, to := from, c.h.now()
	if !ok {
		since = canceled.Load()
	}
	c.note(call{op: drain}, reply{}, from, to)
	c.note(call{op: drained}, reply{ok: ok}, since, to)
}

// refuse is an acquire that is not willing to wait.
func (c *client) refuse() {
	if c.pending != nil {
		c.collect()
		return
	}
	c.acquire(context.Background(), 0, new(atomic.Int64))
}

// acquire makes a request and waits for its outcome. The time at which ctx is
// canceled is in canceled.
func (c *client) acquire(ctx context.Context, maxWait time.Duration, canceled *atomic.Int64) {
	what := call{op: ask, n: c.weight(), waits: maxWait > 0}
	from := c.h.now()
	err := c.lim.AcquireWithin(ctx, what.n, maxWait)
	c.note(what, reply{}, from, c.h.now())
	c.answered(what, err, from, maxWait, canceled.Load())
}

// errUnasked stands in for an error that nothing called for. No state of the
// model has it.
var errUnasked = errors.New("ended by nobody")

// answered notes a request made at from, with the call ask, whose outcome err
// is known now. A wait that the request itself ended did not end before its
// maximum wait had passed, or before its context was canceled, if ever it was.
func (c *client) answered(ask call, err error, from int64, maxWait time.Duration, canceled int64) {
	since := from
	switch {
	case err == semaphore.ErrTimeout && maxWait == semaphore.Forever, err == context.Canceled && canceled == 0:
		err = errUnasked
	case err == semaphore.ErrTimeout:
		since += int64(maxWait)
	case err == context.Canceled:
		since = max(since, canceled)
	}
	c.note(call{op: answer, n: ask.n}, reply{err: err}, since, c.h.now())
	if err == nil {
		c.held = append(c.held, ask.n)
	}
}

// patience is how long requests are willing to wait: about as long as a few
// calls of the others take.
func (c *client) patience() time.Duration { return time.Duration(1+c.r.IntN(40)) * time.Microsecond }

// wait is an acquire that waits until its context ends or its maximum wait has
// passed.
func (c *client) wait() {
	if c.pending != nil {
		c.collect()
		return
	}
	var canceled atomic.Int64
	if c.r.IntN(2) == 0 {
		c.acquire(context.Background(), c.patience(), &canceled)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(c.patience(), func() { canceled.Store(c.h.now()); cancel() }).Stop()
	c.acquire(ctx, semaphore.Forever, &canceled)
}

// async makes an asynchronous request, or goes on with the one it has made.
func (c *client) async() {
	if c.pending != nil {
		switch c.r.IntN(4) {
		case 0:
			c.collect()
		case 1:
			if c.pending.canceled == 0 {
				c.pending.canceled = c.h.now()
				c.pending.cancel()
			}
		default:
			c.peek()
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &request{call: call{op: ask, n: c.weight(), waits: true}, maxWait: semaphore.Forever, cancel: cancel}
	if c.r.IntN(2) == 0 {
		p.maxWait = c.patience()
	}
	c.do(p.call, func() (r reply) {
		p.at = c.h.now()
		p.Pending = c.lim.AcquireAsync(ctx, p.call.n, p.maxWait)
		return
	})
	c.pending = p
}

// peek looks whether the pending request is decided.
func (c *client) peek() {
	from := c.h.now()
	if err := c.pending.Err(); err == semaphore.ErrPending {
		c.note(call{op: pending}, reply{}, from, c.h.now())
	} else {
		c.settle(err)
	}
}

// collect ends the pending request: withdraws it or learns its outcome.
func (c *client) collect() {
	p := c.pending
	from := c.h.now()
	if p.Cancel() {
		if p.canceled == 0 {
			p.canceled = from
		}
		c.settle(context.Canceled)
		return
	}
	c.settle(p.Err())
}

func (c *client) settle(err error) {
	p := c.pending
	c.pending = nil
	c.answered(p.call, err, p.at, p.maxWait, p.canceled)
	p.cancel()
}

// end gives everything back.
func (c *client) end() {
	if c.pending != nil {
		c.collect()
	}
	for len(c.held) > 0 {
		c.release()
	}
}

// check reports whether a history is linearizable.
func (sc script) check(ops []porcupine.Operation) porcupine.CheckResult {
	return porcupine.CheckOperationsTimeout(model(state{limit: sc.limit, maxWaiters: sc.maxWaiters}), ops, time.Minute)
}

// describe lists a history in the order of the calls.
func describe(ops []porcupine.Operation) string {
	ops = slices.Clone(ops)
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	for _, o := range ops {
		fmt.Fprintf(&b, "%9d … %9d  goroutine %d  %s\n", o.Call, o.Return, o.ClientId, o.Input.(call).describe(o.Output.(reply)))
	}
	return b.String()
}
