package main

import (
	"runtime/metrics"
	"sync"
	"syscall"
	"time"
)

// usage is what a process takes up.
type usage struct {
	Bytes      uint64 // objects on the heap, garbage that is not collected yet included, and stacks
	Goroutines uint64
}

// meter keeps the peak of a process's usage, by looking every so often.
type meter struct {
	mu      sync.Mutex
	highest usage
}

// watch looks every period until stop is closed.
func (m *meter) watch(period time.Duration, stop <-chan struct{}) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		m.look()
		select {
		case <-tick.C:
		case <-stop:
			return
		}
	}
}

func (m *meter) look() {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/sched/goroutines:goroutines"},
	}
	metrics.Read(samples)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.highest.Bytes = max(m.highest.Bytes, samples[0].Value.Uint64()+samples[1].Value.Uint64())
	m.highest.Goroutines = max(m.highest.Goroutines, samples[2].Value.Uint64())
}

func (m *meter) peak() usage {
	m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highest
}

// cpuTime returns what the process has used of the processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it knows no error but wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
