// Package bulkhead bounds how many calls run at once, so that a slow
// dependency cannot take the whole service down with it: beyond the limit,
// calls fail fast or wait a bounded time.
//
//	var payments = bulkhead.MustNew[Receipt](bulkhead.Config{
//		Name:          "payments",
//		MaxConcurrent: 10,
//		MaxWait:       50 * time.Millisecond,
//	})
//
//	receipt, err := payments.Execute(ctx, func(ctx context.Context) (Receipt, error) {
//		return client.Charge(ctx, order)
//	})
//	if errors.Is(err, bulkhead.ErrFull) {
//		// the function did not run: shed the load, or try again later
//	}
//
// Make one [Bulkhead] for each resource, once, and keep it for as long as the
// process lives.
//
// # Ways to call
//
// [Bulkhead.Execute] runs a function and returns its result, [Bulkhead.Run] one
// that has only an error. [Do] is Execute for functions of any result type over
// one bulkhead, for which [Any] stands, a bulkhead without its type.
// [Decorate], [DecorateFunc], [DecorateRun] and [DecorateConsumer] wrap a
// function once, for code that should not know about the bulkhead. Where the
// work is no single function, [Bulkhead.Acquire] and [Bulkhead.TryAcquire] give
// a [Permit].
//
// Whichever it is, the permit comes back exactly once, and only when the work
// has really ended: on return, error, panic and runtime.Goexit alike.
//
// # Asynchronous calls
//
// [Bulkhead.ExecuteAsync], and [Go] for any result type, run a function on a
// goroutine of its own and return a [Future]. A call that waits for its turn
// costs some 250 bytes and no goroutine, so a burst of a million may queue; that
// it may, its bulkhead must say, as by default nobody waits:
//
//	patient := bulkhead.Waiting(db, bulkhead.Forever)
//	for i, id := range ids {
//		users[i] = bulkhead.Go(ctx, patient, func(ctx context.Context) (User, error) {
//			return load(ctx, id)
//		})
//	}
//
// Blocking and asynchronous calls wait in one queue, in the order in which they
// were made. [Bulkhead.AcquireAsync] asks for a permit in the same way.
// [DecorateAsync] wraps a function once. [Seq] and [DecorateChan] guard what
// goes on for longer than one call: a sequence that is iterated over, and an
// operation that sends its results through a channel.
//
// # Waiting
//
// By default nobody waits. With Config.MaxWait, calls wait in the order in
// which they came, and Config.MaxQueue bounds how many. [Bulkhead.Waiting]
// returns a handle to the same bulkhead whose calls wait otherwise, and
// [Bulkhead.Weighing] one whose calls hold several permits each. A heavy call
// at the front of the queue holds up lighter ones behind it, or it would starve.
//
// A call's context ends its wait, too. It does not end fn: what runs holds its
// permit until it returns, and a permit freed earlier would let more calls run
// than the limit says.
//
// # Errors
//
// If the error is a [RejectedError] or a [*CanceledError] of this bulkhead's
// Name, the function did not run (unless it returned one it got from a nested
// call). A RejectedError matches [ErrFull], [ErrTooHeavy] or [ErrClosed], so a
// loop that retries on ErrFull comes to an end; a CanceledError matches what
// the context says, and never ErrFull. The function's own error is passed
// through as it is.
//
// # Events
//
// A listener in Config, or one given to [Bulkhead.Subscribe], is told of every
// call: permitted, rejected or canceled, and then finished or released; see
// package event for what each says. A permitted call counts as canceled, and is
// released rather than finished, if its own context is done and its error
// matches that context's error or cause. Every other end is a finish. So an
// error of a driver that means the same should wrap context.Canceled.
//
// With nobody listening, events cost a call one atomic load, and a call that
// finds its permit free allocates nothing.
//
// Package event has ready listeners that log, count, keep the last events and
// stream them.
//
// # Many bulkheads
//
// A [Registry] holds bulkheads by name, for exporters, status pages and whoever
// shuts them down. [Keyed] is one limit for each key, such as a tenant: what a
// key needs is made when it has calls and dropped when it has none, so keys may
// be as many as there are users.
//
// # The end
//
// [Bulkhead.Close] fails those that wait and those that come,
// [Bulkhead.Drain] waits for those that run, [Bulkhead.Shutdown] does both.
package bulkhead
