package semaphore

import (
	"testing"
	"unsafe"
)

// A million waiters are to fit where a million goroutines already do.
func TestWaiterIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(parked{}); got > 128 {
		t.Errorf("a waiter has %d B, want at most 128", got)
	}
}
