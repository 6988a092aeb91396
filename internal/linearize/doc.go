// Package linearize checks that the semaphore is linearizable: that calls
// which overlap in time return what they could have returned had each taken
// effect at one instant between its call and its return.
//
// Its tests run short random histories on the real semaphore with real
// goroutines, note the time before and after each call, and hand them to
// porcupine with a sequential model of the semaphore. Package proptest asks
// whether the semaphore does the right thing at rest; this one asks what other
// goroutines can see while it is doing it.
//
// A script is made from a seed, but what its goroutines meet is up to the
// scheduler, so a failure prints the whole history. TestHistoriesYielding
// overlaps calls at every atomic operation. For more than the usual few seconds:
//
//	go test -histories=100000
//	STRESS=10m go test -race -run=Stress
//
// An Unfair semaphore does not determine whom it grants next: a newcomer may pass
// a waiter that is young, and one that is woken may come too late. Its model
// allows whatever can come of that, and nothing else: no grant without permits
// and none past a waiter that is old, no refusal without reason, hand-offs where
// the semaphore promises them, and at rest nobody who waits for free permits. How
// old a waiter is can be told from outside for asynchronous requests only: when a
// blocking one was queued shows when it returns.
package linearize
