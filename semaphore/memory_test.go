package semaphore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// spike has thousands of requests come at once and give up, half of them by
// their maximum wait and half by their context, several times over, and returns
// how many bytes the semaphore keeps for each of them afterwards. If one stays,
// it waits all the time, so that the queue is never empty.
func spike(t *testing.T, stays bool) (kept uint64) {
	const times = 5
	crowd := 20_000
	if raceEnabled {
		crowd = 2_000
	}
	synctest.Test(t, func(t *testing.T) {
		sem := semaphore.NewWeighted(1)
		sem.TryAcquire(1)
		last := &call{done: make(chan error, 1)}
		if stays {
			last = acquire(t.Context(), sem, 1)
		}
		before := sem.Stats().Waiting
		for range times {
			ctx, cancel := context.WithCancel(t.Context())
			for i := range crowd / 2 {
				go sem.AcquireWithin(ctx, 1, time.Duration(1+i%1000))
				go sem.Acquire(ctx, 1)
			}
			synctest.Wait()
			if got := sem.Stats().Waiting; got != before+crowd {
				t.Errorf("%d wait, want %d", got, before+crowd)
			}
			elapse(time.Second)
			cancel()
			synctest.Wait()
			if got := sem.Stats().Waiting; got != before {
				t.Errorf("%d wait when all have given up, want %d", got, before)
			}
		}
		with := heapInUse()
		sem.Close()
		last.outcome()
		sem = nil
		// Whatever the runtime keeps of so many goroutines is in both.
		if without := heapInUse(); with > without {
			kept = (with - without) / uint64(times*crowd)
		}
	})
	return kept
}

// Those who had given up stayed in the queue until a holder released, and a
// storm of requests kept minutes of dead ones.
// https://github.com/thomhurst/AsyncSemaphore/issues/566
func TestSpikeLeavesNoMemoryBehind(t *testing.T) {
	if kept := spike(t, false); kept > 8 {
		t.Errorf("the semaphore keeps %d B of each waiter of a spike", kept)
	}
}
