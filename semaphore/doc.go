// Package semaphore bounds how much may be in flight at once: a weighted
// semaphore, first in, first out, whose limit can be changed, whose queue can
// be bounded and looked into, and whose waits can be limited in time.
//
// It is a superset of golang.org/x/sync/semaphore: a program that changes only
// the import path keeps working. What differs is said under "Differences".
//
// # Permits
//
// A semaphore has a number of permits in circulation, its limit. A request
// asks for some of them, its weight, and holds them until they are released,
// from any goroutine and in any portions. At every moment
//
//	permits in flight = permits granted − permits released
//
// by the callers' own count, whatever acquires, time-outs, cancellations,
// releases and limit changes meet. A request that fails holds nothing. See
// [Weighted.Stats] for looking in.
//
// # Order
//
// A request that cannot be granted at once waits in a queue. Whoever waits is
// granted before any request made later, and a heavy request at the front
// holds up lighter ones behind it, or it would starve. For the same reason
// [Weighted.TryAcquire] fails while anybody waits. A release hands its permits
// to the waiters in front: they are not up for grabs in between. When a waiter
// leaves, those behind it who now fit are granted at once.
//
// A holder that acquires again from the semaphore whose permit it holds can
// wait for itself. With [Weighted.AcquireWithin] the inner request fails
// instead.
//
// # Throughput instead of order
//
// A strict hand-off makes every acquire of a saturated semaphore a change of
// goroutines. With Unfair in its [Config], a release only wakes the waiter in front,
// and whoever is running may take the permits first: several times the
// throughput where holds are shorter than a change of goroutines. The price is
// order, and waits that vary more, up to about a millisecond on top: a waiter
// that has waited longer gets its permits by hand-off, and meanwhile newcomers
// queue behind it, so that nobody starves, however heavy. Choose it for short
// critical sections under heavy load; for calls over a network it gains
// nothing.
//
// # What ends a wait
//
// Exactly one of: a grant, the end of the request's context, its maximum wait,
// [Weighted.SetLimit] making it impossible, or [Weighted.Close]. A waiter
// whose context ended before a Release never gets that Release's permits. When
// two of these happen at the same instant, either may win.
//
// # Asynchronous requests
//
// [Weighted.AcquireAsync] and [Weighted.AcquireFunc] queue a request without
// parking anybody: a million of them cost a million structs, not goroutines.
// They stand in the same queue as blocking ones. Nothing of the user's, be it a
// function or a method of a context, runs on the goroutine of a releaser or of
// a timer, or under the semaphore's mutex.
//
// # Limits
//
// [Weighted.SetLimit] never waits. Below what is in flight it leaves a debt,
// which releases pay off before anything is granted again. A limit of 0 is a
// pause.
//
// # Cost
//
// While permits are free and nobody waits, Acquire, TryAcquire and Release are
// one compare-and-swap each and allocate nothing. Waiting allocates nothing
// while the queue stays busy. A maximum wait costs no timer of its own: one
// timer serves the whole queue.
//
// # Testing with synctest
//
// A semaphore may be used in one testing/synctest bubble after another, a
// package-level one too. Two bubbles at the same time, or a bubble and
// goroutines outside it, must not wait in one queue: their channels and timers
// do not mix. For the same reason every asynchronous request must be decided
// before its bubble ends.
//
// # Differences from golang.org/x/sync/semaphore
//
//   - A weight above a limit that is not 0 fails at once with
//     [ErrExceedsLimit], instead of waiting for the context to end.
//   - At a limit of 0, a request that waits is in the queue, and so makes
//     TryAcquire(0) fail and Acquire of 0 wait behind it.
//   - Releasing too much panics before anything is changed.
package semaphore
