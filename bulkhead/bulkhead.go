package bulkhead

import (
	"context"
	"time"

	"github.com/turnstile-go/turnstile/event"
)

// Bulkhead bounds how many calls run at once. T is what the functions given to
// [Bulkhead.Execute] return; for one resource with calls of many result types,
// use [Do].
//
// It is made by [New], once for each resource to protect, and lives as long as
// that; the zero value is of no use. It is safe for concurrent use. The handles
// that [Bulkhead.Weighing] and [Bulkhead.Waiting] return stand for the same
// bulkhead.
//
// In the terminology of the Go memory model, the end of a call synchronizes
// before the start of the function of a call that it makes room for.
type Bulkhead[T any] struct{ h handle }

// New returns a bulkhead as cfg describes. The error names the field that is
// out of range and its value.
func New[T any](cfg Config) (*Bulkhead[T], error) {
	c, err := newCore(cfg)
	if err != nil {
		return nil, err
	}
	return &Bulkhead[T]{handle{core: c, weight: 1}}, nil
}

// MustNew is [New] for a cfg that is known to be good, such as a package-level
// variable's. It panics if it is not.
func MustNew[T any](cfg Config) *Bulkhead[T] {
	b, err := New[T](cfg)
	if err != nil {
		panic(err)
	}
	return b
}

// Execute runs fn with a permit held, on the calling goroutine, and returns
// what fn returns, its error untouched. If no permit is free, the call waits in
// arrival order (but see Config.Unfair), at most the bulkhead's MaxWait or what [Bulkhead.Waiting] says.
//
// If it gets no permit, fn does not run and the error says why: a
// [RejectedError], or a [*CanceledError] if ctx ended first. ctx is looked at
// first: if it is done, a free permit is not taken. fn gets ctx as it is, and
// running fn is not interrupted when ctx ends.
//
// The permit comes back exactly once, when fn has ended: by returning, by a
// panic, which goes on to the caller and is not recovered on its way, or by
// runtime.Goexit.
//
// fn may call this bulkhead again, which takes a further permit; when such
// calls hold all permits and wait for more, only their MaxWait or their
// contexts end that. It is an error if fn is nil, and Execute panics if ctx is
// nil; in both cases nothing is taken and no event told.
func (b *Bulkhead[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	return execute(ctx, b.h, fn)
}

// Run is [Bulkhead.Execute] for a function that returns only an error.
func (b *Bulkhead[T]) Run(ctx context.Context, fn func(context.Context) error) error {
	return run(ctx, b.h, fn)
}

// execute is what every way to run a function comes down to.
func execute[R any](ctx context.Context, h handle, fn func(context.Context) (R, error)) (result R, err error) {
	if fn == nil {
		return result, h.nilFunc()
	}
	var c call
	if err := c.start(ctx, h); err != nil {
		return result, err
	}
	return hold(ctx, &c, fn)
}

// hold runs fn with the permits that c has obtained.
func hold[R any](ctx context.Context, c *call, fn func(context.Context) (R, error)) (result R, err error) {
	if c.listener != nil {
		c.permitted(ctx)
	}
	// Release once: from here on this is the one place that gives the permits
	// back, however fn ends.
	returned := false
	defer func() { c.end(ctx, returned, err) }()
	result, err = fn(ctx)
	returned = true
	return result, err
}

func run(ctx context.Context, h handle, fn func(context.Context) error) error {
	if fn == nil {
		return h.nilFunc()
	}
	_, err := execute(ctx, h, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, fn(ctx)
	})
	return err
}

// Acquire obtains a permit as [Bulkhead.Execute] does, waiting and failing
// alike, and leaves the work to the caller, who ends it with
// [Permit.Complete] or [Permit.Release]. A permit that is not ended is lost to
// everybody until it is, so prefer Execute where the work is one function.
func (b *Bulkhead[T]) Acquire(ctx context.Context) (*Permit, error) {
	return b.h.acquire(ctx)
}

// TryAcquire obtains a permit if it can do so without waiting, whatever MaxWait
// is, and reports whether it did. While anybody waits it does not, unless the
// bulkhead is Unfair. A weight or wait that Acquire would return an error for
// makes it false.
func (b *Bulkhead[T]) TryAcquire() (*Permit, bool) {
	return b.h.tryAcquire()
}

// Weighing returns a handle to the same bulkhead whose calls hold n permits
// each instead of 1; the last Weighing counts. Nothing is copied but the
// handle: permits, listeners and settings are shared, and setters on the handle
// act on the bulkhead. A handle used at once costs no allocation, so
//
//	b.Weighing(int64(len(batch))).Execute(ctx, store)
//
// is how to weigh a single call. If n is below 1, every call through the handle
// is an error that says so.
func (b *Bulkhead[T]) Weighing(n int64) *Bulkhead[T] {
	return &Bulkhead[T]{b.h.weighing(n)}
}

// Waiting returns a handle to the same bulkhead, as [Bulkhead.Weighing] does,
// whose calls wait at most d for their permits, whatever MaxWait is: 0 not at
// all, [Forever] as long as the context allows. The last Waiting counts. If d
// is negative, every call through the handle is an error that says so.
func (b *Bulkhead[T]) Waiting(d time.Duration) *Bulkhead[T] {
	return &Bulkhead[T]{b.h.waiting(d)}
}

// SetMaxConcurrent changes the limit. Raising it lets waiting calls in at once.
// Lowering it returns at once too, and interrupts nobody: no call gets in until
// enough of those that run have ended. Waiting calls that weigh more than the
// new limit are rejected.
//
// It is an error, and changes nothing, if n is below 1.
func (b *Bulkhead[T]) SetMaxConcurrent(n int64) error { return b.h.core.setMaxConcurrent(n) }

// SetMaxWait changes how long a call may wait. Calls that wait already keep the
// wait they came with.
//
// It is an error, and changes nothing, if d is negative.
func (b *Bulkhead[T]) SetMaxWait(d time.Duration) error { return b.h.core.setMaxWait(d) }

// Name returns the bulkhead's name.
func (b *Bulkhead[T]) Name() string { return b.h.core.name }

// Config returns the configuration as the setters have left it. Through a
// handle it is the bulkhead's too, and later subscriptions are not part of it.
func (b *Bulkhead[T]) Config() Config { return b.h.core.config() }

// Stats returns one consistent snapshot.
func (b *Bulkhead[T]) Stats() Stats { return b.h.core.stats() }

// Subscribe adds a listener, which is told of calls that start from now on, and
// returns a function that removes it. Calls that start after unsubscribe has
// returned do not reach the listener; it still hears of the end of those that
// had started. Both may be called at any time, by a listener as well;
// unsubscribing again does nothing.
func (b *Bulkhead[T]) Subscribe(l event.Listener) (unsubscribe func()) {
	return b.h.core.subscribe(l)
}

// Close makes calls that wait, and calls from now on, fail with [ErrClosed].
// Those that run are not disturbed. Closing again does nothing.
func (b *Bulkhead[T]) Close() { b.h.core.sem.Close() }

// Drain waits until no permit is in flight and returns nil, or returns
// ctx.Err() if ctx ends first. It closes nothing: other calls may start at the
// next moment. A function that runs in this bulkhead would wait for itself.
func (b *Bulkhead[T]) Drain(ctx context.Context) error { return b.h.core.sem.Drain(ctx) }

// Shutdown closes the bulkhead, then drains it.
func (b *Bulkhead[T]) Shutdown(ctx context.Context) error {
	b.Close()
	return b.Drain(ctx)
}

func (b *Bulkhead[T]) handle() handle { return b.h }

// Stats is what a bulkhead is doing at one moment.
type Stats struct {
	Name          string
	MaxConcurrent int64 // the limit
	Active        int64 // permits in flight; above the limit for a while after it was lowered
	Available     int64 // max(0, MaxConcurrent − Active)
	Waiting       int   // calls that wait
	Closed        bool
}
