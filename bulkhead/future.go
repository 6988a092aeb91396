package bulkhead

import "context"

// Future is a call that runs, once it has its permits, on a goroutine of its
// own. It is made by [Bulkhead.ExecuteAsync] or [Go], and is safe for concurrent
// use. Its result need not be collected: the permits come back in any case.
type Future[T any] struct {
	promise[T]
	fn func(context.Context) (T, error)
}

// ExecuteAsync is [Bulkhead.Execute] on another goroutine. If a permit is free
// it starts one for fn at once; if not, and the call may wait, it takes its
// place in the queue before it returns, and costs no goroutine until its turn
// comes. The goroutine is started by whoever makes room, and inherits that
// goroutine's pprof labels.
//
// The call must be over before its testing/synctest bubble ends.
//
// With a MaxWait of 0, the default, a call that finds no free permit is rejected
// at once. To queue any number of calls, let them wait:
//
//	f := b.Waiting(bulkhead.Forever).ExecuteAsync(ctx, fetch)
//
// The permit comes back when fn has really ended, whether or not anybody still
// wants the result. A call whose ctx is done when its turn comes is canceled,
// and fn does not run. A panic in fn does not end the process: see
// [Future.Get]. Listeners run on the call's goroutine, or, if it never gets one
// of its own, on one made for them.
func (b *Bulkhead[T]) ExecuteAsync(ctx context.Context, fn func(context.Context) (T, error)) *Future[T] {
	return executeAsync(ctx, b.h, fn)
}

// Go is [Bulkhead.ExecuteAsync] for a function of any result type.
func Go[R any](ctx context.Context, b Any, fn func(context.Context) (R, error)) *Future[R] {
	return executeAsync(ctx, b.handle(), fn)
}

func executeAsync[R any](ctx context.Context, h handle, fn func(context.Context) (R, error)) *Future[R] {
	switch {
	case fn == nil:
		return refused[R](h.nilFunc())
	case h.misused():
		return refused[R](h.misuse())
	}
	if err := h.core.sem.AcquireWithin(ctx, h.weight, 0); err != nil {
		f := new(Future[R])
		f.prepare(ctx, h)
		if f.waits(err) {
			f.fn = fn
			f.queue(f.decided)
			return f
		}
		c, ctx, _ := f.begin(err)
		f.settle(&c, func(out *outcome[R]) { out.err = c.refused(ctx, err, f.maxWait) })
		return f
	}
	// It runs at once, so room for the outcome comes with it.
	var f struct {
		Future[R]
		end outcome[R]
	}
	f.fn = fn
	f.prepare(ctx, h)
	f.end.over = make(chan struct{})
	f.out.Store(&f.end)
	go f.decided(nil)
	return &f.Future
}

// refused returns the future of a call that is none.
func refused[R any](err error) *Future[R] {
	f := new(Future[R])
	f.refuse(err)
	return f
}

// decided runs the call on this goroutine, its own, if err, the semaphore's, is
// nil; or says why not.
func (f *Future[T]) decided(err error) {
	c, ctx, ok := f.begin(err)
	if !ok {
		return
	}
	fn := f.fn
	f.fn = nil
	f.conclude(func(out *outcome[T]) {
		if err == nil {
			err = c.endedInQueue(ctx)
		}
		if err != nil {
			out.err = c.refused(ctx, err, f.maxWait)
			return
		}
		c.noteGrant()
		out.value, out.err = hold(ctx, &c, fn)
	})
}

// Done returns a channel that is closed when the call is over, run or not, and
// listeners have been told.
func (f *Future[T]) Done() <-chan struct{} { return f.wait() }

// Get waits for the call to be over and returns what fn returned, or why it did
// not run: a [RejectedError] or a [*CanceledError]. If ctx ends first, Get
// returns ctx.Err(), and the call goes on; to stop it from starting, use
// [Future.Cancel], to stop it while it runs, the context it was made with.
//
// If fn, or a listener, panicked, every Get panics with a [*PanicError]; if it
// called runtime.Goexit, Get returns [ErrGoexit]. An outcome that is there is
// returned even if ctx is done.
func (f *Future[T]) Get(ctx context.Context) (T, error) {
	out := f.outcome()
	if out == nil {
		select {
		case <-f.wait():
		case <-ctx.Done():
		}
		if out = f.outcome(); out == nil {
			var none T
			return none, errOf(ctx)
		}
	}
	return out.get()
}

// Cancel keeps the call from starting, and reports whether it did: then fn
// never runs, the permit, if there was one, is back, and Get returns a
// [*CanceledError] that matches context.Canceled. If it reports false, the call
// runs or is over, and Cancel has changed nothing.
func (f *Future[T]) Cancel() bool {
	if f.cancel(context.Canceled, nil) == nil {
		return false
	}
	f.fn = nil
	return true
}
