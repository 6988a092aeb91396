package event

import "context"

// Listener is a set of functions, one per event; set those that you want. The
// zero value listens to nothing. The package documentation says when and on
// which goroutine they run, and what happens if one panics.
//
// The context is the one the call was made with, so it carries the caller's
// values; it may be done. Where there was none, in TryAcquire and for
// LimitChanged, it is context.Background().
type Listener struct {
	// Permitted is called once per call that got its permits, before its
	// function runs. If it panics, the function does not run.
	Permitted func(context.Context, Permitted)

	// Rejected is called once per call that the bulkhead refused.
	Rejected func(context.Context, Rejected)

	// Canceled is called once per call whose caller gave up before it was
	// permitted.
	Canceled func(context.Context, Canceled)

	// Finished is called once per permitted call, when it has ended and its
	// permits are back; unless Released is.
	Finished func(context.Context, Finished)

	// Released is called once per permitted call that did not finish, when its
	// permits are back.
	Released func(context.Context, Released)

	// LimitChanged is called after a setter has changed the limit to another
	// value. Those of setters at work at once may come in either order; for the
	// present limit ask Stats.
	LimitChanged func(context.Context, LimitChanged)
}

// All returns a listener that passes every event to f.
func All(f func(context.Context, Record)) Listener {
	return Listener{
		Permitted: func(ctx context.Context, e Permitted) {
			f(ctx, Record{
				Kind: KindPermitted, Time: e.Time, Name: e.Name,
				Weight: e.Weight, Active: e.Active, Waited: e.Waited,
			})
		},
		Rejected: func(ctx context.Context, e Rejected) {
			f(ctx, Record{
				Kind: KindRejected, Time: e.Time, Name: e.Name,
				Weight: e.Weight, MaxConcurrent: e.MaxConcurrent,
				MaxWait: e.MaxWait, Waited: e.Waited, Reason: e.Reason,
			})
		},
		Canceled: func(ctx context.Context, e Canceled) {
			f(ctx, Record{
				Kind: KindCanceled, Time: e.Time, Name: e.Name,
				Weight: e.Weight, Waited: e.Waited, Err: e.Err,
			})
		},
		Finished: func(ctx context.Context, e Finished) {
			f(ctx, Record{
				Kind: KindFinished, Time: e.Time, Name: e.Name,
				Weight: e.Weight, Active: e.Active, Elapsed: e.Elapsed,
				Outcome: e.Outcome, Err: e.Err,
			})
		},
		Released: func(ctx context.Context, e Released) {
			f(ctx, Record{
				Kind: KindReleased, Time: e.Time, Name: e.Name,
				Weight: e.Weight, Active: e.Active, Elapsed: e.Elapsed, Err: e.Err,
			})
		},
		LimitChanged: func(ctx context.Context, e LimitChanged) {
			f(ctx, Record{
				Kind: KindLimitChanged, Time: e.Time, Name: e.Name,
				From: e.From, To: e.To,
			})
		},
	}
}

// Join returns a listener that calls those given, in their order. Each is
// called even if one before it panics or calls runtime.Goexit; the first such
// panic or Goexit then goes on, later ones are dropped. A function that none of
// them sets is not set in the result.
func Join(listeners ...Listener) Listener {
	return Listener{
		Permitted:    join(listeners, func(l Listener) func(context.Context, Permitted) { return l.Permitted }),
		Rejected:     join(listeners, func(l Listener) func(context.Context, Rejected) { return l.Rejected }),
		Canceled:     join(listeners, func(l Listener) func(context.Context, Canceled) { return l.Canceled }),
		Finished:     join(listeners, func(l Listener) func(context.Context, Finished) { return l.Finished }),
		Released:     join(listeners, func(l Listener) func(context.Context, Released) { return l.Released }),
		LimitChanged: join(listeners, func(l Listener) func(context.Context, LimitChanged) { return l.LimitChanged }),
	}
}

// join returns one function that calls the one that pick finds in each
// listener; nil if it finds none.
func join[E any](listeners []Listener, pick func(Listener) func(context.Context, E)) func(context.Context, E) {
	var fs []func(context.Context, E)
	for _, l := range listeners {
		if f := pick(l); f != nil {
			fs = append(fs, f)
		}
	}
	switch len(fs) {
	case 0:
		return nil
	case 1:
		return fs[0]
	}
	return func(ctx context.Context, e E) { tell(fs, ctx, e) }
}

// tell calls every one of fs. It recovers nothing on the way, so that a crash
// shows the stack of the listener that panicked.
func tell[E any](fs []func(context.Context, E), ctx context.Context, e E) {
	i := 0
	defer func() {
		if i < len(fs) { // fs[i] did not return
			tellAside(fs[i+1:], ctx, e)
		}
	}()
	for ; i < len(fs); i++ {
		fs[i](ctx, e)
	}
}

// tellAside calls every one of fs while a panic or Goexit is on its way through
// this goroutine. Each runs on a goroutine of its own, which is waited for: a
// Goexit on this one would replace the panic without a trace, and nothing can
// stop a Goexit.
func tellAside[E any](fs []func(context.Context, E), ctx context.Context, e E) {
	for _, f := range fs {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() { _ = recover() }() // the first one counts
			f(ctx, e)
		}()
		<-done
	}
}
