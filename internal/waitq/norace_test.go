//go:build !race

package waitq_test

// crowd is a number of waiters that fill many chunks of the deadline heap.
const crowd = 1 << 20
