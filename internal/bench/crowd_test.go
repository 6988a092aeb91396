package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// batch is how many turns a worker takes at a time. Equal shares of all turns
// would leave whoever lost its processor for a while to take the rest of its own
// when everybody else is through, alone, and so without ever waiting: up to a
// tenth of all turns where other programs run. Single turns would have the
// workers compete for the counter.
const batch = 16

// crowd takes n turns on so many workers, each with a ctx of its making, and
// returns an error of a turn if there is one, which ends that worker. It calls
// ready when every worker is about to begin its first turn.
func crowd(n, workers int, ctx func() context.Context, ready func(), turn func(ctx context.Context) error) error {
	var begun, done sync.WaitGroup
	begun.Add(workers)
	failed := make(chan error, workers)
	var left atomic.Int64
	left.Store(int64(n))
	for range workers {
		ctx := ctx()
		done.Go(func() {
			begun.Done()
			for {
				share := min(batch, left.Add(-batch)+batch)
				if share <= 0 {
					return
				}
				for range share {
					if err := turn(ctx); err != nil {
						failed <- err
						return
					}
				}
			}
		})
	}
	begun.Wait()
	ready()
	done.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// A holder has the permits that queue holds back. n is 1.
type holder interface {
	TryAcquire(n int64) bool
	Release(n int64)
}

// queue is crowd in front of a limit all of whose permits are out until every
// worker is there, for workers who form the queue by themselves may be through
// before the others come. So it is long when the first permit comes back, and it
// stays, since a release grants the permit to a waiter and a worker that comes
// again finds none free: every acquire waits. started is called just before the
// permits come back.
func queue(n, workers int, h holder, limit int, ctx func() context.Context, started func(), turn func(ctx context.Context) error) error {
	for range limit {
		if !h.TryAcquire(1) {
			return fmt.Errorf("fewer than %d permits in circulation", limit)
		}
	}
	return crowd(n, workers, ctx, func() {
		started()
		for range limit {
			h.Release(1)
		}
	}, turn)
}

// TestQueueStays is what the rows in which calls wait rest on: an acquire finds
// a permit free only by way of exception. How many do is up to the scheduler, of
// a busy machine above all, so the best of some tries counts; a crowd that does
// not queue has none.
func TestQueueStays(t *testing.T) {
	if underRace {
		t.Skip("no benchmark is run under the race detector, and the queue is another there")
	}
	const workers, turns, tries = 16, 1000, 20
	for _, c := range inOrder {
		t.Run(c.name, func(t *testing.T) {
			least := int64(workers * turns)
			for try := 0; try < tries && least > workers*turns/50; try++ {
				least = min(least, foundFree(t, c.new(busyLimit), workers, turns))
			}
			if least > workers*turns/50 {
				t.Errorf("got %d acquires of %d that found a permit free, want at most 2%%", least, workers*turns)
			}
		})
	}
}

// foundFree returns how many acquires of a crowd found a permit free.
func foundFree(t *testing.T, l limiter, workers, turns int) int64 {
	var free atomic.Int64
	err := queue(workers*turns, workers, l, busyLimit, t.Context, func() {}, func(ctx context.Context) error {
		if l.TryAcquire(1) {
			free.Add(1)
		} else if err := l.Acquire(ctx, 1); err != nil {
			return err
		}
		runtime.Gosched()
		l.Release(1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return free.Load()
}
