package semaphore

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// yield lets another goroutine run, every other time.
func yield() {
	if rand.Uint32()&1 == 0 {
		runtime.Gosched()
	}
}

// yieldingInt64 is an atomic.Int64 before whose operations others may run.
type yieldingInt64 struct{ v atomic.Int64 }

func (y *yieldingInt64) Load() int64 {
	yield()
	return y.v.Load()
}

func (y *yieldingInt64) Store(n int64) {
	yield()
	y.v.Store(n)
}

func (y *yieldingInt64) Swap(n int64) int64 {
	yield()
	return y.v.Swap(n)
}

func (y *yieldingInt64) CompareAndSwap(old, n int64) bool {
	yield()
	return y.v.CompareAndSwap(old, n)
}

// yieldingMutex is a sync.Mutex before and after which others may run.
type yieldingMutex struct{ m sync.Mutex }

func (y *yieldingMutex) Lock() {
	yield()
	y.m.Lock()
}

func (y *yieldingMutex) Unlock() {
	y.m.Unlock()
	yield()
}
