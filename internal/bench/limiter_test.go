package bench

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// A limiter is what every contender can do. The rows in which calls wait go
// through it: among hundreds of nanoseconds the indirect call is lost.
//
// n is always 1, for a channel knows no weights. It is in the signature so that
// semaphores with the signatures of x/sync stand here unwrapped.
type limiter interface {
	Acquire(ctx context.Context, n int64) error
	Release(n int64)
	TryAcquire(n int64) bool
	// AcquireWithin is the contender's cheapest way to wait at most maxWait.
	AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error
	loops
}

// loops are the bodies of the rows that cost a few nanoseconds, where a call
// through an interface, or through the dictionary of a generic function, would
// be a fifth of what is measured. Each contender writes them out over its own
// concrete type: the calls in the loop are then the direct calls, inlined where
// the compiler does so, that a program using that package would contain.
type loops interface {
	// serial acquires and releases one permit per iteration.
	serial(b *testing.B, ctx context.Context) error
	// parallel does the same on one of several goroutines.
	parallel(pb *testing.PB, ctx context.Context) error
	// reject tries in vain to acquire a permit per iteration.
	reject(b *testing.B) error
}

// errGranted is what reject returns when a full limiter grants a permit.
var errGranted = errors.New("permit granted above the limit")

// limiters in the order of benchstat's columns; the first is its base.
var limiters = slices.Concat(inOrder, []contender[limiterFunc]{
	{"unfair", newUnfair},
	{"marusama", newMarusama},
})

// inOrder are the limiters that serve callers in the order of their arrival. The
// others let newcomers in past those who wait, so that in a row in which every
// acquire shall wait most of theirs would not.
var inOrder = []contender[limiterFunc]{
	{"turnstile", newTurnstile},
	{"xsync", newXSync},
	{"crlib", newCRLib},
	{"failsafe", newFailsafe},
	{"channel", newChannel},
}

// withFloor adds what no limiter can beat, for rows in which nobody waits.
var withFloor = slices.Concat(limiters, []contender[limiterFunc]{{"floor", newFloor}})

type limiterFunc = func(limit int64) limiter

// TestLimiters is what every row takes for granted: a full limiter grants no
// permit, not even to who waits a little, and a permit that came back can be had.
func TestLimiters(t *testing.T) {
	for _, c := range withFloor {
		t.Run(c.name, func(t *testing.T) {
			l := c.new(2)
			for i := range 2 {
				if err := l.Acquire(t.Context(), 1); err != nil {
					t.Fatalf("Acquire %d of 2 permits: got %v, want nil", i+1, err)
				}
			}
			if l.TryAcquire(1) {
				t.Error("TryAcquire of a full limiter: got true, want false")
			}
			if err := l.AcquireWithin(t.Context(), 1, time.Millisecond); err == nil {
				t.Error("AcquireWithin of a full limiter: got nil, want an error")
			}
			l.Release(1)
			if err := l.AcquireWithin(t.Context(), 1, time.Millisecond); err != nil {
				t.Errorf("AcquireWithin after a Release: got %v, want nil", err)
			}
			if l.TryAcquire(1) {
				t.Error("TryAcquire of a limiter full again: got true, want false")
			}
			l.Release(1)
			l.Release(1)
			free := 0
			for free < 3 && l.TryAcquire(1) {
				free++
			}
			if free != 2 {
				t.Errorf("permits free at rest: got %d, want 2", free)
			}
		})
	}
}
