package linearize

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/turnstile-go/turnstile/semaphore"
)

// fault is a mistake that plain can be made to make.
type fault string

const (
	overGrants      fault = "a woken waiter takes its permits without looking"
	takerIsLast     fault = "a waiter that takes its permits does not wake the next"
	leaverIsLast    fault = "a woken waiter that leaves does not wake the next"
	losesWhatLeaves fault = "a woken waiter that leaves takes its permits along"
	wakesAsync      fault = "an asynchronous request is woken"
	growsSilently   fault = "SetLimit grants nobody"
	withdrawalWakes fault = "a withdrawal wakes the next"
	starves         fault = "newcomers overtake for ever"
	keepsImpossible fault = "SetLimit leaves impossible requests in the queue"
	servesLastFirst fault = "the last to come is served first"
)

// TestPlain runs histories on another Unfair semaphore than ours: as
// it should be, the checker accepts them all; with a mistake, it objects to one.
func TestPlain(t *testing.T) {
	t.Run("without fault", func(t *testing.T) {
		for seed := range uint64(100) {
			sc := scriptFor(seed, unfair)
			sc.maxWaiters = 0
			ops := sc.run(&plain{limit: sc.limit})
			if got := sc.check(ops); got != porcupine.Ok {
				t.Fatalf("history of %+v: got %s, want %s\n%s", sc, got, porcupine.Ok, describe(ops))
			}
		}
	})
	for _, f := range []fault{
		overGrants, takerIsLast, leaverIsLast, losesWhatLeaves, wakesAsync, growsSilently, withdrawalWakes, starves,
		keepsImpossible, servesLastFirst,
	} {
		t.Run(string(f), func(t *testing.T) {
			findBroken(t, unfair, func(sc script) limiter { return &plain{limit: sc.limit, fault: f} })
		})
	}
}

// plain is an Unfair semaphore as plain as can be: everything under one mutex,
// and a timer for each wait.
type plain struct {
	fault fault

	mu           sync.Mutex
	limit, inUse int64
	closed       bool
	queue        []*turn
	drains       []chan struct{}
}

// turn is a request, and after a wait its outcome.
type turn struct {
	s       *plain
	n       int64
	async   bool
	since   time.Time
	decided bool
	err     error
	look    chan struct{} // has a token once it is decided, or woken
}

// always is a time at which nobody is young.
var always = time.Unix(1<<40, 0)

func (s *plain) TryAcquire(n int64) bool { return s.AcquireWithin(context.Background(), n, 0) == nil }

func (s *plain) AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error {
	w := s.ask(n, maxWait, false)
	var expired <-chan time.Time
	if maxWait < semaphore.Forever {
		expired = time.After(maxWait)
	}
	for {
		var end error
		select {
		case <-w.look:
		case <-ctx.Done():
			end = ctx.Err()
		case <-expired:
			end = semaphore.ErrTimeout
		}
		if w.lookAgain(end) {
			return w.err
		}
	}
}

func (s *plain) AcquireAsync(ctx context.Context, n int64, maxWait time.Duration) undecided {
	w := s.ask(n, maxWait, true)
	context.AfterFunc(ctx, func() { w.leave(ctx.Err()) })
	if maxWait < semaphore.Forever {
		time.AfterFunc(maxWait, func() { w.leave(semaphore.ErrTimeout) })
	}
	return w
}

func (s *plain) Release(n int64) {
	s.mu.Lock()
	defer s.unlock()
	s.inUse -= n
	s.grant(time.Now())
}

func (s *plain) SetLimit(limit int64) {
	s.mu.Lock()
	defer s.unlock()
	if limit == s.limit {
		return
	}
	s.limit = limit
	for _, w := range slices.Clone(s.queue) {
		if 0 < limit && limit < w.n && s.fault != keepsImpossible {
			s.decide(w, semaphore.ErrExceedsLimit)
		}
	}
	if s.fault != growsSilently {
		s.grant(always)
	}
}

func (s *plain) Close() {
	s.mu.Lock()
	defer s.unlock()
	s.closed = true
	for len(s.queue) > 0 {
		s.decide(s.queue[0], semaphore.ErrClosed)
	}
}

func (s *plain) Drain(ctx context.Context) error {
	s.mu.Lock()
	idle := make(chan struct{})
	s.drains = append(s.drains, idle)
	s.unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.unlock()
	select {
	case <-idle:
		return nil
	default:
		return ctx.Err()
	}
}

func (s *plain) Stats() semaphore.Stats {
	s.mu.Lock()
	defer s.unlock()
	return semaphore.Stats{
		Limit: s.limit, InUse: s.inUse, Available: max(0, s.limit-s.inUse), Waiting: len(s.queue), Closed: s.closed,
	}
}

// unlock is s.mu.Unlock, before which Drain sees whether anything is in flight.
func (s *plain) unlock() {
	if s.inUse == 0 {
		for _, idle := range s.drains {
			close(idle)
		}
		s.drains = nil
	}
	s.mu.Unlock()
}

func (s *plain) fits(n int64) bool { return s.inUse+n <= s.limit }

// ask decides a request, or queues it.
func (s *plain) ask(n int64, maxWait time.Duration, async bool) *turn {
	s.mu.Lock()
	defer s.unlock()
	w := &turn{s: s, n: n, async: async, since: time.Now(), look: make(chan struct{}, 1)}
	s.grant(w.since)
	s.queue = append(s.queue, w)
	switch {
	case s.closed:
		s.decide(w, semaphore.ErrClosed)
	case 0 < s.limit && s.limit < n:
		s.decide(w, semaphore.ErrExceedsLimit)
	case s.fits(n) && (s.queue[0] == w || s.isYoung(s.queue[0], w.since)):
		s.inUse += n
		s.decide(w, nil)
	case maxWait <= 0:
		s.decide(w, semaphore.ErrTimeout)
	case s.fault == servesLastFirst:
		slices.Reverse(s.queue)
	}
	return w
}

func (s *plain) isYoung(w *turn, now time.Time) bool {
	return now.Sub(w.since) <= *young || s.fault == starves && now != always
}

// grant serves the front of the queue, up to a waiter that needs only be woken.
func (s *plain) grant(now time.Time) {
	for len(s.queue) > 0 && s.fits(s.queue[0].n) {
		w := s.queue[0]
		if s.isYoung(w, now) && (!w.async || s.fault == wakesAsync) {
			w.wake()
			return
		}
		s.inUse += w.n
		s.decide(w, nil)
	}
}

func (s *plain) decide(w *turn, err error) {
	k := slices.Index(s.queue, w)
	s.queue = slices.Delete(s.queue, k, k+1)
	w.decided, w.err = true, err
	w.wake()
}

func (w *turn) wake() {
	select {
	case w.look <- struct{}{}:
	default: // it has been told already, and will look
	}
}

// lookAgain has w, which was woken or whose wait is to end, see what there is to
// do, and reports whether it is decided.
func (w *turn) lookAgain(end error) bool {
	s := w.s
	s.mu.Lock()
	defer s.unlock()
	switch {
	case w.decided:
	case end != nil:
		woken := len(w.look) > 0
		s.decide(w, end)
		switch {
		case woken && s.fault == losesWhatLeaves && s.fits(w.n):
			s.inUse += w.n
		case woken && s.fault == leaverIsLast:
		default:
			s.grant(always)
		}
	case s.fits(w.n) || s.fault == overGrants:
		s.inUse += w.n
		s.decide(w, nil)
		if s.fault != takerIsLast {
			s.grant(time.Now())
		}
	}
	return w.decided
}

// leave ends the wait of w, and reports whether it did.
func (w *turn) leave(end error) bool {
	s := w.s
	s.mu.Lock()
	defer s.unlock()
	if w.decided {
		return false
	}
	s.decide(w, end)
	if s.fault == withdrawalWakes {
		s.grant(time.Now())
	} else {
		s.grant(always)
	}
	return true
}

func (w *turn) Cancel() bool { return w.leave(context.Canceled) }

func (w *turn) Err() error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if !w.decided {
		return semaphore.ErrPending
	}
	return w.err
}
