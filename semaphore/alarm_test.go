package semaphore

import (
	"testing"
	"testing/synctest"
	"time"
)

// A timer that has fired may come to call only when its semaphore has dropped it
// and made another, perhaps in a testing/synctest bubble, where the time is not
// that of the caller.
func TestLateAlarmOfAFormerTimerDoesNothing(t *testing.T) {
	s := NewWeighted(0)
	alarms := make(chan uint64)
	returned := make(chan any)
	go func() { // outside the bubble, years later by the clock
		defer func() { returned <- recover() }()
		s.expire(<-alarms)
	}()
	synctest.Test(t, func(t *testing.T) {
		s.AcquireAsync(t.Context(), 1, time.Hour).Cancel()
		former := s.alarm
		p := s.AcquireAsync(t.Context(), 1, time.Hour)
		alarms <- former
		if v := <-returned; v != nil {
			t.Errorf("the late call panicked: %v", v)
		}
		if err := p.Err(); err != ErrPending {
			t.Errorf("single outcome: after the late call Err() = %v, want %v", err, ErrPending)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := p.Err(); err != ErrTimeout {
			t.Errorf("after its maximum wait Err() = %v, want %v", err, ErrTimeout)
		}
	})
}
