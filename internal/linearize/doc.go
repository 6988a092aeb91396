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
// An Unfair semaphore is left out while requests wait: whom it grants next is
// not the model's to say.
package linearize
