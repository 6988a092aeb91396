package linearize

import (
	"cmp"
	"context"
	"errors"
	"flag"
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
	AcquireAsync(ctx context.Context, n int64, maxWait time.Duration) undecided
}

// undecided is an asynchronous request, whatever limiter it was made to.
type undecided interface {
	Err() error
	Cancel() bool
}

// ours is the semaphore as a limiter.
type ours struct{ *semaphore.Weighted }

func (s ours) AcquireAsync(ctx context.Context, n int64, maxWait time.Duration) undecided {
	return s.Weighted.AcquireAsync(ctx, n, maxWait)
}

// young is Unfair's patience, and so not ours to choose.
var young = flag.Duration("young", time.Millisecond, "for how `long` newcomers may pass a waiter")

// kind is what histories of one kind have in common.
type kind struct {
	name   string
	waits  bool // with requests that wait
	unfair bool // on an Unfair semaphore
}

var (
	notWaiting = kind{name: "not waiting"}
	inOrder    = kind{name: "in order", waits: true}
	unfair     = kind{name: "unfair", waits: true, unfair: true}
)

// script says what kind of history to run.
type script struct {
	kind
	goroutines, maxOps int
	limit              int64
	maxWaiters         int
	seed               uint64
	closeAfter         int // ops, by goroutine 0; never if beyond
	heaviest           int64
	untilRest          time.Duration // after which whoever still waits will wait for ever
}

// scriptFor draws a script. The same seed draws the same one; what the
// goroutines then meet is up to the scheduler.
func scriptFor(seed uint64, k kind) script {
	r := rand.New(rand.NewPCG(seed, 0))
	sc := script{
		kind:       k,
		goroutines: 3 + r.IntN(clients-2),
		maxOps:     10 + r.IntN(21),
		limit:      int64(r.IntN(5)),
		seed:       seed,
		heaviest:   int64(1 + r.IntN(3)),
		untilRest:  10 * time.Second,
	}
	sc.closeAfter = r.IntN(4 * sc.maxOps)
	if r.IntN(2) == 0 {
		sc.maxWaiters = 1 + r.IntN(2)
	}
	return sc
}

// history is one run.
type history struct {
	script
	lim   limiter
	begun time.Time
}

func (h *history) now() int64 { return int64(time.Since(h.begun)) }

// client is one goroutine of a history, and notes its operations.
type client struct {
	*history
	id   int
	r    *rand.Rand
	held []int64 // weights granted to it and not released

	ops []porcupine.Operation

	pending *request // made by AcquireAsync and not answered yet
}

func (h *history) client(id int) *client {
	return &client{history: h, id: id, r: rand.New(rand.NewPCG(h.seed, uint64(id)+1))}
}

// request is an asynchronous request under way.
type request struct {
	undecided
	call     call  // the ask
	at       int64 // when it was made
	maxWait  time.Duration
	cancel   context.CancelFunc
	canceled int64 // when cancel was called, or 0
}

// run plays the script on lim and returns the operations.
func (sc script) run(lim limiter) (ops []porcupine.Operation) {
	h := &history{script: sc, lim: lim, begun: time.Now()}
	// They all begin within nanoseconds.
	var ready atomic.Int32
	var wg sync.WaitGroup
	cs := make([]*client, sc.goroutines)
	for id := range cs {
		c := h.client(id)
		cs[id] = c
		wg.Go(func() {
			for ready.Add(1); ready.Load() < int32(sc.goroutines); {
				runtime.Gosched()
			}
			for k := range sc.maxOps {
				if id == 0 && k == sc.closeAfter {
					c.do(call{op: shut}, func() (r reply) { lim.Close(); return })
				}
				c.step()
			}
			c.end()
		})
	}
	wg.Wait()
	for _, c := range cs {
		ops = append(ops, c.ops...)
		c.ops = nil
	}
	last := h.client(clients)
	if sc.waits {
		ops = append(ops, last.reopen(cs)...)
	}
	last.stats(rest) // what is in use now was lost, and who waits was forgotten
	return append(ops, last.ops...)
}

// do makes a call that takes effect at one instant.
func (c *client) do(what call, f func() reply) reply {
	from := c.now()
	r := f()
	c.note(what, r, from, c.now())
	return r
}

// note records a call, or a part of one, which took effect between from and to.
func (c *client) note(what call, r reply, from, to int64) {
	what.client, what.from, what.to = c.id, from, to
	c.ops = append(c.ops, what.returned(r))
}

// returned is the call as porcupine wants it.
func (c call) returned(r reply) porcupine.Operation {
	return porcupine.Operation{ClientId: c.client, Input: c, Output: r, Call: c.from, Return: c.to}
}

// step makes a random call.
func (c *client) step() {
	if c.r.IntN(4) == 0 {
		runtime.Gosched()
	}
	if c.unfair && c.r.IntN(30) == 0 {
		c.grow()
	}
	look := func() { c.stats(stats) }
	calls := []func(){c.try, c.try, c.release, c.release, c.changeLimit, look, c.drain, c.refuse}
	if c.waits {
		calls = []func(){c.try, c.release, c.release, c.release, c.changeLimit, look, c.drain, c.refuse, c.wait, c.wait, c.async, c.async}
	}
	calls[c.r.IntN(len(calls))]()
}

// grow has whoever waits grow old, and then tries to pass.
func (c *client) grow() {
	if c.pending == nil {
		c.async()
	}
	time.Sleep(*young)
	c.try()
}

func (c *client) weight() int64 { return c.r.Int64N(c.heaviest + 1) }

func (c *client) try() { c.tryFor(c.weight()) }

func (c *client) tryFor(n int64) {
	if c.do(call{op: try, n: n}, func() reply { return reply{ok: c.lim.TryAcquire(n)} }).ok {
		c.held = append(c.held, n)
	}
}

// release returns some of what the client holds, so that it never returns too
// much; or, if it holds nothing, it looks at Stats.
func (c *client) release() {
	if len(c.held) == 0 {
		c.stats(stats)
		return
	}
	k := c.r.IntN(len(c.held))
	n := c.held[k]
	c.held = slices.Delete(c.held, k, k+1)
	c.do(call{op: release, n: n}, func() (r reply) { c.lim.Release(n); return })
}

func (c *client) changeLimit() { c.setLimit(c.r.Int64N(5)) }

func (c *client) setLimit(n int64) {
	c.do(call{op: setLimit, n: n}, func() (r reply) { c.lim.SetLimit(n); return })
}

func (c *client) stats(o op) semaphore.Stats {
	return c.do(call{op: o}, func() reply { return reply{stats: c.lim.Stats()} }).stats
}

// drain is a Drain, whose context has ended or, where the script lets calls
// wait, ends later.
func (c *client) drain() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	from := c.now()
	var canceled atomic.Int64
	end := func() { canceled.Store(c.now()); cancel() }
	if c.waits && c.r.IntN(2) == 0 {
		defer time.AfterFunc(c.patience(), end).Stop()
	} else {
		end()
	}
	ok := c.lim.Drain(ctx) == nil
	since, to := from, c.now()
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
	c.acquire(context.Background(), c.weight(), 0, new(atomic.Int64))
}

// acquire makes a request and waits for its outcome. The time at which ctx is
// canceled is in canceled.
func (c *client) acquire(ctx context.Context, n int64, maxWait time.Duration, canceled *atomic.Int64) {
	what := call{op: ask, n: n, waits: maxWait > 0}
	from := c.now()
	err := c.lim.AcquireWithin(ctx, what.n, maxWait)
	c.note(what, reply{}, from, c.now())
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
	c.note(call{op: answer, n: ask.n}, reply{err: err}, since, c.now())
	if err == nil {
		c.held = append(c.held, ask.n)
	} else {
		c.stats(stats) // what its leaving has brought, before others make up for it
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
		c.acquire(context.Background(), c.weight(), c.patience(), &canceled)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	defer time.AfterFunc(c.patience(), func() { canceled.Store(c.now()); cancel() }).Stop()
	c.acquire(ctx, c.weight(), semaphore.Forever, &canceled)
}

// async makes an asynchronous request, or goes on with the one it has made.
func (c *client) async() {
	if c.pending != nil {
		switch c.r.IntN(4) {
		case 0:
			c.collect()
		case 1:
			if c.pending.canceled == 0 {
				c.pending.canceled = c.now()
				c.pending.cancel()
			}
		default:
			c.peek()
		}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &request{call: call{op: ask, n: c.weight(), waits: true, async: true}, maxWait: semaphore.Forever, cancel: cancel}
	if c.r.IntN(2) == 0 {
		p.maxWait = c.patience()
	}
	c.do(p.call, func() (r reply) {
		p.at = c.now()
		p.undecided = c.lim.AcquireAsync(ctx, p.call.n, p.maxWait)
		return
	})
	c.pending = p
}

// peek looks whether the pending request is decided.
func (c *client) peek() {
	from := c.now()
	if err := c.pending.Err(); err == semaphore.ErrPending {
		c.note(call{op: pending}, reply{}, from, c.now())
	} else {
		c.settle(err)
	}
}

// collect ends the pending request: withdraws it or learns its outcome.
func (c *client) collect() {
	p := c.pending
	from := c.now()
	if p.Cancel() {
		c.note(call{op: withdraw}, reply{}, from, c.now())
		c.pending = nil
		p.cancel()
		c.stats(stats)
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
	initial := state{limit: sc.limit, maxWaiters: sc.maxWaiters, unfair: sc.unfair}
	return porcupine.CheckOperationsTimeout(model(initial), ops, time.Minute)
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
