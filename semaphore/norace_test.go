//go:build !race

package semaphore_test

// raceEnabled reports whether the race detector is on. It makes goroutines cost
// ten times as much, and allocates.
const raceEnabled = false
