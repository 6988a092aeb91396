//go:build race

package waitq_test

// crowd is a number of waiters that fill many chunks of the deadline heap: the
// race detector makes each some ten times as slow.
const crowd = 1 << 17
