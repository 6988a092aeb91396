// Package proptest looks for faults in semaphores: in those of this library,
// and in any other with the methods of [Semaphore].
//
//	func TestLimiter(t *testing.T) {
//		newLimiter := func(limit int64) proptest.Semaphore { return limiter.New(limit) }
//		proptest.Check(t, newLimiter, proptest.Options{})
//		proptest.Stress(t, newLimiter, proptest.Options{})
//	}
//
// [Check] plays random scripts with fake time, one step after the other, and
// compares the semaphore with a model that is short enough to be read as the
// specification: model.go. It finds what is wrong with the outcome of calls,
// and shrinks the script to the few steps that show it. [Stress] lets many
// goroutines loose on the semaphore, with an oracle that counts from outside.
// It finds what is wrong with calls that overlap.
//
// What is found is named by the invariant that is broken:
//
//   - conservation: permits in flight are permits granted minus permits
//     released, and within the limit at every grant.
//   - no barging: nobody gets permits past somebody who waited before.
//   - single outcome: a request comes to one outcome, and to the right one.
//   - delivery: an outcome reaches its caller at once; nobody waits for what
//     is there.
//   - shrink debt: a limit below what is in flight revokes nothing, waits for
//     nothing and grants nothing.
//   - release once: only what is in flight can be released.
//   - lock order: what need not wait for permits waits for nothing else.
//   - layout: what the semaphore says of itself is so.
//   - memory ordering: a Release comes before the return of the Acquire that it
//     enables. This one is named by the race detector, with a data race in
//     proptest between two that hold all permits one after the other.
//
// The harness is tested with broken semaphores, each of which it must find.
// See README.md for which one proves what.
package proptest
