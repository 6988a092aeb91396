package semaphore_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/turnstile-go/turnstile/semaphore"
)

// Close lets go of the mutex now and then when many wait. Whoever is told first
// may release then, and those who are still in the queue get nothing of it: a
// newcomer has seen the semaphore closed before.
func TestReleaseInTheMidstOfCloseGrantsNobody(t *testing.T) {
	oneProc(t) // the told run before Close goes on
	synctest.Test(t, func(t *testing.T) {
		const held, waiters = 4 * semaphore.Chunk, 3*semaphore.Chunk + 1
		sem := semaphore.NewWeighted(held)
		sem.TryAcquire(held)
		var once sync.Once
		var granted atomic.Int64
		for range waiters {
			sem.AcquireFunc(t.Context(), 1, semaphore.Forever, func(err error) {
				if err == nil {
					granted.Add(1)
				}
				once.Do(func() { sem.Release(held) })
			})
		}
		sem.Close()
		synctest.Wait()
		if n := granted.Load(); n > 0 {
			t.Errorf("single outcome: %d requests were granted after others were told that the semaphore is closed", n)
		}
		if got := sem.Stats().Waiting; got != 0 {
			t.Errorf("%d wait, want none", got)
		}
	})
}
