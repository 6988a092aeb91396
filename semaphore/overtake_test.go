package semaphore_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// Unfair: newcomers may pass a waiter for a millisecond, and not one nanosecond
// longer.
func TestUnfairNewcomersPassOnlyTheYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sem, err := semaphore.New(semaphore.Config{Limit: 2, Unfair: true})
		if err != nil {
			t.Fatal(err)
		}
		sem.TryAcquire(1)
		heavy := acquire(t.Context(), sem, 2) // one permit stays free meanwhile
		pass := func(when string, want bool) {
			t.Helper()
			got := sem.TryAcquire(1)
			if got != want {
				t.Errorf("%s: TryAcquire = %t, want %t", when, got, want)
			}
			if got {
				sem.Release(1)
			}
			heavy.want(t, when, errWaiting)
		}
		pass("at once", true)
		elapse(time.Millisecond)
		pass("after a millisecond", true)
		elapse(time.Nanosecond)
		pass("no barging: after more than a millisecond", false)
		light := acquire(t.Context(), sem, 1)
		light.want(t, "a light newcomer", errWaiting)
		sem.Release(1)
		heavy.want(t, "the waiter", nil)
		sem.Release(2)
		light.want(t, "the light one, in its turn", nil)
		sem.Release(1)
		wantIdle(t, sem, 2)
	})
}
