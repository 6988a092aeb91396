package proptest

import (
	"context"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// Semaphore is what is tested. Its methods do what those of the same names in
// package semaphore do. golang.org/x/sync/semaphore has them and needs no
// adapter, but it does not do all that: [Options] describe some of how it
// differs, and [Check] reports the rest. README.md lists both.
//
// If it also has any of
//
//	AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error
//	SetLimit(limit int64)
//	Close()
//	Drain(ctx context.Context) error
//
// then those are tested too. The errors of the caller's context must be
// returned as they are. Which other errors there are is looked at only in a
// semaphore with a method Stats() semaphore.Stats, and asynchronous requests
// only if they are of this library's type.
type Semaphore interface {
	Acquire(ctx context.Context, n int64) error
	TryAcquire(n int64) bool
	Release(n int64)
}

// Options describe how a semaphore differs from the contract of package
// semaphore. The zero value is that contract.
type Options struct {
	// MaxWaiters is the number of requests that may wait at once; one more
	// fails at once. 0 means no bound.
	MaxWaiters int

	// Unfair says that newcomers may overtake those who wait, until the first
	// of these has waited a millisecond, as with semaphore.Config.Unfair.
	Unfair bool

	// ParksOversized says that a request for more than the limit waits until
	// its context ends, in nobody's way, instead of failing at once.
	ParksOversized bool

	// LateWithdrawal says that a request whose context has ended can still be
	// granted, and its permits be in flight until it notices and gives them
	// back. By the contract such a request gets nothing any more.
	LateWithdrawal bool

	// Duration is how long Stress runs. 0 means a second, or a tenth of that
	// under -short. Check ignores it.
	Duration time.Duration

	// Seed makes Stress make the calls that it made when it named this seed. 0
	// means another one each time. Check is told by rapid's flags.
	Seed uint64
}

// What a semaphore may be able to do besides.
type (
	timed interface {
		AcquireWithin(context.Context, int64, time.Duration) error
	}
	resizable interface{ SetLimit(int64) }
	closable  interface{ Close() }
	drainable interface{ Drain(context.Context) error }
	statable  interface{ Stats() semaphore.Stats }

	asynchronous interface {
		AcquireAsync(context.Context, int64, time.Duration) *semaphore.Pending
		AcquireFunc(context.Context, int64, time.Duration, func(error)) *semaphore.Pending
	}
)

// abilities is a semaphore together with what it can do, nil for what it
// cannot.
type abilities struct {
	Semaphore
	timed     timed
	resizable resizable
	closable  closable
	drainable drainable
	statable  statable

	asynchronous asynchronous
}

func abilitiesOf(s Semaphore) abilities {
	a := abilities{Semaphore: s}
	a.timed, _ = s.(timed)
	a.resizable, _ = s.(resizable)
	a.closable, _ = s.(closable)
	a.drainable, _ = s.(drainable)
	a.statable, _ = s.(statable)
	a.asynchronous, _ = s.(asynchronous)
	return a
}
