// Package event is what a bulkhead tells about its calls.
//
// A [Listener] is a struct of functions, one per event, in the manner of
// net/http/httptrace. Set those that you want and give it to a bulkhead, in its
// Config or with Subscribe:
//
//	listener := event.Listener{
//		Rejected: func(ctx context.Context, e event.Rejected) {
//			log.Printf("%s rejected a call: %v", e.Name, e.Reason)
//		},
//	}
//
// [Join] makes one listener of several, and [All] turns the six events into one
// stream of [Record] values.
//
// # What adds up
//
// Every call is told as exactly one of [Permitted], [Rejected] and [Canceled],
// and every permitted call, once it is over, as exactly one of [Finished] and
// [Released]. So, for a listener in a Config,
//
//	calls     = Permitted + Rejected + Canceled
//	Permitted = Finished + Released + calls that run
//
// and the same by Weight, where the weights of those that run are the permits
// in flight. A call keeps the listeners that it started with until it is over:
// for a listener that was subscribed later, the same holds over the calls that
// started since, and one that is unsubscribed still hears the end of those that
// had started. What is wrong with a call's arguments, such as a nil function,
// is an error to the caller and not a call.
//
// # Delivery
//
// Permits are accounted before anything is told. An event can therefore be late
// and never early: a listener that counts Permitted minus Finished may for a
// moment see more than the limit, since the next call may be permitted before
// the last one has told that it finished. Events of one call come in order;
// those of different calls come as the calls run, at the same time too, so a
// listener must be safe for concurrent use.
//
// Listeners run in line, on the goroutine that made the call, outside every
// lock. They may call back into the bulkhead, subscribe and unsubscribe. A slow
// one delays its caller, before the function for Permitted, and with no permit
// held for the others.
//
// An asynchronous call is told on its own goroutine, or on one that delivers its
// failure, and as far as listeners go it starts when its turn comes. Permitted of
// a PendingPermit is told by the first Permit or Wait that returns the permit.
//
// # Panics
//
// A listener that panics or calls runtime.Goexit loses no permit, and keeps no
// other listener from being told. Its panic goes on, out of the method that
// made the call, or out of the one that asks for an asynchronous call's result;
// only at the end of a channel that a bulkhead guards is there nobody to tell.
// If it did so in Permitted, the function does not run, the permits go back, and
// Released is told. If there are several panics, the first one goes on: the
// function's own before any listener's, then the listeners' in order.
//
// While a panic is on its way, the listeners still to be told run on goroutines
// of their own, which the caller's waits for. On the caller's, a Goexit of
// theirs would silently replace the panic.
//
// # Ready listeners
//
// [Slog] logs: the first of a spell of rejections and then one line a second, so
// that an overload does not flood the log, and everything at Debug. [Counters]
// count, for metrics and expvar, and know since when a bulkhead is full. A
// [Ring] keeps the last events for whoever looks later. A [Stream] hands them to
// a goroutine of the reader's, and drops what that is too slow for. None of them
// blocks, starts a goroutine or looks at a clock, but for what a logger's handler
// does.
//
// # Cost
//
// Nobody listening costs a call one atomic load: no event is built and no clock
// read. An event is a value and building it allocates nothing.
package event
