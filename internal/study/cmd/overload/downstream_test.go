package main

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestDownstreamIsShared(t *testing.T) {
	const service = 50 * time.Millisecond
	for _, tc := range []struct {
		reason  string
		arrive  []time.Duration
		end     []time.Duration // of each
		highest int
	}{
		{
			reason:  "up to the capacity calls do not feel each other",
			arrive:  []time.Duration{0, 0, 20 * time.Millisecond, 60 * time.Millisecond},
			end:     []time.Duration{service, service, 70 * time.Millisecond, 110 * time.Millisecond},
			highest: 3,
		},
		{
			reason:  "twice as many go half as fast",
			arrive:  make([]time.Duration, 8),
			end:     slices.Repeat([]time.Duration{2 * service}, 8),
			highest: 8,
		},
		{
			// From 40 ms on eight share. The first four have 10 ms of work
			// left then, which takes them 20 ms. The others have 40 ms left.
			reason:  "who comes later slows those who are there, until they end",
			arrive:  append(make([]time.Duration, 4), slices.Repeat([]time.Duration{40 * time.Millisecond}, 4)...),
			end:     append(slices.Repeat([]time.Duration{60 * time.Millisecond}, 4), slices.Repeat([]time.Duration{100 * time.Millisecond}, 4)...),
			highest: 8,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &downstream{capacity: 4, service: service}
			end := make([]time.Duration, len(tc.arrive))
			start := time.Now()
			var calls sync.WaitGroup
			for i, at := range tc.arrive {
				calls.Go(func() {
					time.Sleep(at)
					if err := d.call(t.Context()); err != nil {
						t.Errorf("%s: %v", tc.reason, err)
					}
					end[i] = time.Since(start)
				})
			}
			calls.Wait()
			if !slices.Equal(end, tc.end) {
				t.Errorf("%s: ended at %v, want %v", tc.reason, end, tc.end)
			}
			want := downstreamLog{Calls: len(end), Finished: len(end), Highest: tc.highest}
			if got := d.log(); got != want {
				t.Errorf("%s: log %+v, want %+v", tc.reason, got, want)
			}
		})
	}
}

func TestDownstreamIsFasterForTheOthersWhenACallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &downstream{capacity: 1, service: 50 * time.Millisecond}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
		defer cancel()
		start := time.Now()
		var left sync.WaitGroup
		left.Go(func() {
			if err := d.call(ctx); err != context.DeadlineExceeded {
				t.Errorf("the caller who left got %v, want %v", err, context.DeadlineExceeded)
			}
			if took := time.Since(start); took != 40*time.Millisecond {
				t.Errorf("the caller who left waited for %v, want 40ms", took)
			}
		})
		if err := d.call(t.Context()); err != nil {
			t.Error(err)
		}
		// 40 ms at half the pace, and the 30 ms of work that were left then.
		if took := time.Since(start); took != 70*time.Millisecond {
			t.Errorf("the other took %v, want 70ms", took)
		}
		left.Wait()
		if got, want := d.log(), (downstreamLog{Calls: 2, Finished: 1, Highest: 2}); got != want {
			t.Errorf("log %+v, want %+v", got, want)
		}
	})
}

// On a real machine alarms are late. The first call here ends at 15 ms, and the
// alarm for that never rings; by the time the third call comes the second has
// been alone for 2 ms all the same.
func TestDownstreamIsNoSlowerIfItsAlarmIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &downstream{capacity: 1, service: 10 * time.Millisecond}
		start := time.Now()
		d.enter()
		time.Sleep(5 * time.Millisecond)
		second, _ := d.enter()
		d.alarm.Stop()
		time.Sleep(12 * time.Millisecond)
		third, _ := d.enter() // at 17 ms; 3 ms of work are left of the second
		<-second.done
		if took := time.Since(start); took != 23*time.Millisecond {
			t.Errorf("the second ended at %v, want 23ms", took)
		}
		<-third.done
		if took := time.Since(start); took != 30*time.Millisecond {
			t.Errorf("the third ended at %v, want 30ms: 30 ms of work, and never idle", took)
		}
	})
}
