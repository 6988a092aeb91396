package proptest

import (
	"container/list"
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// reference is a semaphore as one would write it first: one mutex, one list,
// and for each waiter a channel and perhaps a timer. It keeps the whole
// contract. The broken semaphores of faults_test.go are the reference with one
// fault switched on, each of which is a line or two here.
type reference struct {
	fault      fault
	unfair     bool
	maxWaiters int // 0 = no bound

	mu     sync.Mutex
	limit  int64
	inUse  int64
	closed bool
	queue  list.List       // of *queued
	drains []chan struct{} // closed when nothing is in use

	came time.Time // when a newcomer was last granted what was free
	wake bool      // somebody will call grant again (starves)
}

// queued is one waiter.
type queued struct {
	n       int64
	missing int64 // of n; less than n only with takesPiecemeal
	arrived time.Time
	ctx     context.Context
	told    chan struct{} // closed once decided
	err     error         // the decision, nil for a grant
	element *list.Element
}

func (s *reference) Acquire(ctx context.Context, n int64) error {
	return s.AcquireWithin(ctx, n, math.MaxInt64)
}

func (s *reference) AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error {
	mustNotBeNegative(n)
	s.mu.Lock()
	if decided, err := s.admit(ctx, n, maxWait); decided {
		s.mu.Unlock()
		return err
	}
	if s.fault == checksThenParks {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	w := s.enqueue(ctx, n)
	s.mu.Unlock()
	if s.fault == leavesGoroutine {
		go func() { <-w.told }()
	}
	if now := time.Now().UnixNano(); s.fault == overflowsDeadline && maxWait < math.MaxInt64 && now+int64(maxWait) < now {
		maxWait = 0
	}

	var expired <-chan time.Time
	if maxWait < math.MaxInt64 {
		timer := time.NewTimer(maxWait)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-w.told:
		return s.decision(w)
	case <-expired:
		return s.leave(w, s.errTimeout())
	case <-ctx.Done():
		if s.fault == wrapsContextError {
			return s.leave(w, fmt.Errorf("reference: %w", ctx.Err()))
		}
		return s.leave(w, ctx.Err())
	}
}

// admit decides a new request, unless it has to wait.
func (s *reference) admit(ctx context.Context, n int64, maxWait time.Duration) (decided bool, err error) {
	bound := s.maxWaiters
	if s.fault == countsBoundFromZero {
		bound++
	}
	switch {
	case ctx.Err() != nil && s.fault != ignoresEndedContext:
		return true, ctx.Err()
	case s.closed:
		return true, semaphore.ErrClosed
	case n > s.limit && s.limit > 0 && s.fault != parksOversized:
		return true, semaphore.ErrExceedsLimit
	case s.fault == refusesImpatient && maxWait <= 0:
		return true, s.errTimeout()
	case s.fits(n) && (s.open() || s.fault == acquireBarges):
		s.inUse += n
		s.came = time.Now()
		return true, nil
	case maxWait <= 0:
		return true, s.errTimeout()
	case s.maxWaiters > 0 && s.queue.Len() >= bound:
		if s.fault == forgetsUnlock {
			s.mu.Lock() // as if an early return had left it locked
		}
		return true, semaphore.ErrQueueFull
	}
	return false, nil
}

func (s *reference) errTimeout() error {
	if s.fault == mistakesTimeout {
		return context.DeadlineExceeded
	}
	return semaphore.ErrTimeout
}

func (s *reference) enqueue(ctx context.Context, n int64) *queued {
	w := &queued{n: n, missing: n, arrived: time.Now(), ctx: ctx, told: make(chan struct{})}
	if s.fault == servesLastFirst {
		w.element = s.queue.PushFront(w)
	} else {
		w.element = s.queue.PushBack(w)
	}
	return w
}

// decide ends w's wait.
func (s *reference) decide(w *queued, err error) {
	s.queue.Remove(w.element)
	w.err = err
	close(w.told)
}

// decision is what a decided request returns. The end of its context takes
// back a grant that was not collected.
func (s *reference) decision(w *queued) error {
	if w.err != nil || w.ctx.Err() == nil || s.fault == tossesCoin {
		return w.err
	}
	if s.fault != losesUncollectedGrant {
		s.Release(w.n)
	}
	return w.ctx.Err()
}

// leave withdraws w, because of err, unless it has been decided.
func (s *reference) leave(w *queued, err error) error {
	s.mu.Lock()
	if isClosed(w.told) {
		s.mu.Unlock()
		if s.fault == losesGrantOnExpiry {
			return err
		}
		return s.decision(w)
	}
	defer s.mu.Unlock()
	if s.fault == leavesBody {
		return err
	}
	s.queue.Remove(w.element)
	switch s.fault {
	case leavesSilently:
		return err
	case strandsZero:
		if s.inUse >= s.limit {
			return err
		}
	case givesBackUngranted:
		s.inUse = max(0, s.inUse-w.n)
	case resumesNext:
		if e := s.queue.Front(); e != nil {
			s.inUse += e.Value.(*queued).n
			s.decide(e.Value.(*queued), nil)
		}
	}
	s.grant()
	return err
}

func (s *reference) TryAcquire(n int64) bool {
	if s.fault != acceptsNegative {
		mustNotBeNegative(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == checksOldLimit {
		limit := s.limit
		s.mu.Unlock()
		for range 10 {
			runtime.Gosched()
		}
		s.mu.Lock()
		now := s.limit
		s.limit = limit
		defer func() { s.limit = now }()
	}
	if s.closed || !s.fits(n) || !s.open() && s.fault != tryBarges {
		return false
	}
	if s.fault == checksThenTakes {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	s.inUse += n
	s.came = time.Now()
	return true
}

func (s *reference) Release(n int64) {
	mustNotBeNegative(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.inUse {
		switch s.fault {
		case clampsOverRelease:
			n = s.inUse
		case countsOverRelease:
			s.inUse -= n
			panic("reference: released more than held")
		default:
			panic("reference: released more than held")
		}
	}
	if s.fault == holdersLoseOnClose && s.closed {
		panic("reference: closed")
	}
	if s.fault == losesConcurrentRelease {
		inUse := s.inUse
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
		s.inUse = inUse
	}
	s.inUse -= n
	s.grant()
}

// fits reports whether n more permits may be in use.
func (s *reference) fits(n int64) bool {
	switch s.fault {
	case overflows:
		return s.inUse+n <= s.limit
	case zeroFitsInDebt:
		if n == 0 {
			return true
		}
	}
	return n <= s.limit-s.inUse
}

// open reports whether a newcomer may have what fits.
func (s *reference) open() bool {
	front := s.queue.Front()
	if front == nil || !s.unfair {
		return front == nil
	}
	return time.Since(front.Value.(*queued).arrived) <= time.Millisecond || s.fault == starves
}

// starved reports whether w is passed over. With starves a heavy request is, for as
// long as newcomers keep coming: on some machines they leave all permits free for
// a moment now and then, and a semaphore that only lets them overtake would serve
// it.
func (s *reference) starved(w *queued) bool {
	if s.fault != starves || w.missing <= 1 || time.Since(s.came) > time.Millisecond {
		return false
	}
	if !s.wake {
		s.wake = true
		time.AfterFunc(2*time.Millisecond, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wake = false
			s.grant()
		})
	}
	return true
}

// grant serves the front of the queue.
func (s *reference) grant() {
	for e := s.queue.Front(); e != nil; {
		w := e.Value.(*queued)
		e = e.Next()
		switch {
		case w.ctx.Err() != nil && s.fault != tossesCoin && s.fault != withdrawsLate && s.fault != leavesBody:
			s.decide(w, w.ctx.Err())
		case s.starved(w):
		case s.fits(w.missing):
			if s.fault != wakesWithoutPermit {
				s.inUse += w.missing
			}
			s.decide(w, nil)
			if s.fault == wakesOne {
				e = nil
			}
		case s.fault == passesHeavyHead:
		case s.fault == takesPiecemeal && s.inUse < s.limit:
			w.missing -= s.limit - s.inUse
			s.inUse = s.limit
			e = nil
		default:
			e = nil
		}
	}
	if s.fault != drainsLate {
		s.settleDrains()
	}
}

func (s *reference) SetLimit(limit int64) {
	mustNotBeNegative(limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	if surplus := s.limit - limit; surplus > 0 && s.fault == acquiresSurplus {
		s.mu.Unlock()
		_ = s.Acquire(context.Background(), surplus)
		s.mu.Lock()
		s.inUse -= surplus
	}
	s.limit = limit
	if s.fault == forgetsDebt {
		s.inUse = min(s.inUse, limit)
	}
	if s.fault == reopens {
		s.closed = false
	}
	for e := s.queue.Front(); e != nil; {
		w := e.Value.(*queued)
		e = e.Next()
		if w.n > limit && (limit > 0 || s.fault == evictsOnPause) && s.fault != keepsImpossible {
			s.decide(w, semaphore.ErrExceedsLimit)
		}
	}
	if s.fault != growsSilently {
		s.grant()
	}
}

func (s *reference) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for e := s.queue.Front(); e != nil && s.fault != closesSilently; e = s.queue.Front() {
		s.decide(e.Value.(*queued), semaphore.ErrClosed)
	}
}

func (s *reference) Drain(ctx context.Context) error {
	if s.fault == drainsOnlyAlive && ctx.Err() != nil {
		return ctx.Err()
	}
	idle := make(chan struct{})
	s.mu.Lock()
	s.drains = append(s.drains, idle)
	s.settleDrains()
	s.mu.Unlock()
	if isClosed(idle) {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *reference) settleDrains() {
	if s.inUse > 0 && !(s.fault == drainsEarly && s.queue.Len() == 0) {
		return
	}
	for _, idle := range s.drains {
		close(idle)
	}
	s.drains = nil
}

func (s *reference) Stats() semaphore.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	available := s.limit - s.inUse
	if s.fault != showsDebtAsAvailable {
		available = max(0, available)
	}
	return semaphore.Stats{
		Limit: s.limit, InUse: s.inUse, Available: available,
		Waiting: s.queue.Len(), Closed: s.closed,
	}
}

func mustNotBeNegative(n int64) {
	if n < 0 {
		panic("reference: negative number")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
