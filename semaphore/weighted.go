package semaphore

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// Forever as a maximum wait means: as long as the context allows.
const Forever time.Duration = math.MaxInt64

// Config says what semaphore [New] makes.
type Config struct {
	// Limit is the number of permits in circulation, from 0, which pauses the
	// semaphore until SetLimit raises it, to math.MaxInt64.
	Limit int64

	// MaxWaiters is the number of requests that may wait at once; a request
	// that finds so many waiting fails with ErrQueueFull. 0 means no bound.
	MaxWaiters int

	// Unfair lets newcomers overtake waiters, for a throughput several times as
	// high when holds are short and the semaphore is saturated. Nobody starves,
	// but order is not strict, and waits vary more. See the package comment.
	Unfair bool
}

// Weighted is a semaphore whose requests each ask for a number of permits,
// their weight, and are served in the order of their arrival.
//
// The zero value is open with a limit of 0: [Weighted.SetLimit] starts it. A
// Weighted must not be copied after first use. It is safe for concurrent use.
//
// Memory ordering: in the terminology of the Go memory model, a Release
// synchronizes before the return of an acquire that it enables.
type Weighted struct {
	// state is the word that fast paths work on; see state.go.
	state atomic.Int64

	// limit is written under mu. A fast Release reads it without, as one that
	// it then refuses is looked at again under mu.
	limit atomic.Int64

	// mu guards everything below. Lock order: it is a leaf. Nothing under it
	// blocks or calls user code (methods of a context are user code), so those
	// may call back into the semaphore, and nothing durable in the sense of
	// testing/synctest waits while holding it.
	mu sync.Mutex

	// avail is limit minus the permits in flight, negative in debt: the truth
	// while state is negative, and of no meaning otherwise. Conservation is
	// this: a grant takes its weight from avail (or from state), a release
	// adds it, SetLimit moves avail with the limit, and nothing else touches
	// either. Leaving the queue ungranted touches neither.
	avail int64

	maxWaiters int
	unfair     bool
	closed     bool
	queue      waiters

	// spare keeps former waiters, with their channels, for the next ones. They
	// stay within one busy spell, the time that somebody waits: pooling them
	// for longer would carry a channel from one testing/synctest bubble into
	// another, which ends the process. spell numbers the spells; it is written
	// under mu.
	spare waitq.Spare[request]
	spell atomic.Uint64
	busy  bool

	// timer runs expire at the earliest deadline in queue. It exists while the
	// queue has deadlines, for the same reason. alarm counts the timers made,
	// so that a late call of a former one is known.
	timer *time.Timer
	alarm uint64

	// groups are the asynchronous requests that wait with a context, by its
	// Done channel; nil if there are none.
	groups map[<-chan struct{}]*group

	// idle is closed at the first moment nothing is in flight. It exists while
	// any of drainers waits for that.
	idle     chan struct{}
	drainers int
}

// NewWeighted returns a semaphore of the given limit, with no bound on the
// number of waiters. It panics if limit < 0. For a bound, or for an error
// instead of the panic, use [New].
func NewWeighted(limit int64) *Weighted {
	s, err := New(Config{Limit: limit})
	if err != nil {
		panic(err.Error())
	}
	return s
}

// New returns a semaphore as cfg describes. The error names the field that is
// out of range and its value.
func New(cfg Config) (*Weighted, error) {
	if cfg.Limit < 0 {
		return nil, fmt.Errorf("semaphore: Config.Limit is %d, must not be negative", cfg.Limit)
	}
	if cfg.MaxWaiters < 0 {
		return nil, fmt.Errorf("semaphore: Config.MaxWaiters is %d, must not be negative", cfg.MaxWaiters)
	}
	s := &Weighted{maxWaiters: cfg.MaxWaiters, unfair: cfg.Unfair}
	s.limit.Store(cfg.Limit)
	s.state.Store(cfg.Limit)
	return s, nil
}

// Acquire obtains n permits, waiting in arrival order until they are
// available. A request at the front holds up everyone behind it, so that heavy
// requests are not starved by light ones.
//
// If ctx is done first, Acquire holds nothing and returns ctx.Err(); a waiter
// whose context ended before a Release never gets that Release's permits, and
// if its end coincides with a grant, they go to the next waiter. It also
// returns [ErrClosed], [ErrExceedsLimit] if 0 < limit < n, and [ErrQueueFull].
//
// It panics if n < 0 or ctx is nil. On success the caller owns the permits and
// returns them with [Weighted.Release], at once or in parts, from any
// goroutine. To bound the wait, use [Weighted.AcquireWithin]; not to wait,
// [Weighted.TryAcquire].
func (s *Weighted) Acquire(ctx context.Context, n int64) error {
	return s.AcquireWithin(ctx, n, Forever)
}

// AcquireWithin is [Weighted.Acquire] with a wait of at most maxWait, which
// costs much less than a context with a timeout made for the purpose. When
// maxWait has passed, or the request would have to wait and maxWait is 0 or
// less, it holds nothing and returns [ErrTimeout]. Permits that are free are
// taken however short maxWait is. [Forever] leaves ctx alone to end the wait.
func (s *Weighted) AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error {
	if n < 0 {
		panic(negativeWeight)
	}
	for {
		// The word is loaded before ctx is looked at, so that permits released
		// after ctx ended make the swap fail (if the count changed, and nobody
		// changed it back in these few nanoseconds). And it is Err, not Done:
		// Err makes no channel, and costs an atomic load in the contexts of
		// package context. Looking again after the swap would be stricter, and
		// lose the permits if that call, of the user's code, panics.
		free := s.state.Load()
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case free >= n:
			if s.state.CompareAndSwap(free, free-n) {
				return nil
			}
		case free == 0 && n == 1 && maxWait <= 0:
			// The answer of an overloaded bulkhead, so it takes no lock. A word
			// of 0 rules out closed, and a weight of 1 exceeds no limit.
			return ErrTimeout
		default:
			return s.acquireSlow(ctx, n, maxWait)
		}
	}
}

// TryAcquire obtains n permits if it can do so at once, and reports whether it
// did. While anybody waits it does not, unless the semaphore is Unfair: free
// permits are then on their way to the front of the queue. It panics if n < 0.
func (s *Weighted) TryAcquire(n int64) bool {
	if n < 0 {
		panic(negativeWeight)
	}
	for {
		switch free := s.state.Load(); {
		case free >= n:
			if s.state.CompareAndSwap(free, free-n) {
				return true
			}
		case free != slow:
			return false
		default:
			return s.tryAcquireSlow(n)
		}
	}
}

// Release returns n permits, which go to the waiters in front, as far as they
// suffice. Release(0) does nothing. It never waits for a waiter.
//
// Release once: it panics, and changes nothing, if n < 0 or if n is more than is
// in flight, a caller's bug that would raise the limit for good. (One that races a
// SetLimit may pass unnoticed until the next.)
func (s *Weighted) Release(n int64) {
	if n <= 0 {
		if n < 0 {
			panic(negativeWeight)
		}
		return
	}
	for {
		free := s.state.Load()
		if free < 0 || n > s.limit.Load()-free {
			s.releaseSlow(n)
			return
		}
		if s.state.CompareAndSwap(free, free+n) {
			return
		}
	}
}

const (
	negativeWeight = "semaphore: negative weight"
	overRelease    = "semaphore: released more than held"
)
