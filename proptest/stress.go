package proptest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"time"
)

// Stress lets goroutines loose on semaphores made by newSemaphore, in short
// rounds, for as long as opts.Duration says. Whoever holds permits is counted
// inside the critical section, and the count compared with the limits that may
// have been in force at the grant. A round ends with a rest, at which every call
// must have returned and every permit be there. Other rounds see who gets past
// whom. Run it under the race detector, for which holders of all permits write
// what the others read.
//
// A failure names the invariant that is broken, and the seed. The seed makes the
// same calls, but their interleaving is another each time.
func Stress(t testing.TB, newSemaphore func(limit int64) Semaphore, opts Options) {
	t.Helper()
	s := newStress(newSemaphore, opts)
	start := time.Now()
	v := s.run()
	t.Logf("proptest: seed %#x, %s", s.opts.Seed, s.done(time.Since(start)))
	if v != nil {
		t.Error(v)
	}
}

// stress is one run of Stress.
type stress struct {
	newSemaphore func(limit int64) Semaphore
	opts         Options
	patience     time.Duration // how long calls that must return may take
	rounds       int
}

func newStress(newSemaphore func(limit int64) Semaphore, opts Options) *stress {
	if opts.Seed == 0 {
		opts.Seed = rand.Uint64()
	}
	if opts.Duration <= 0 {
		opts.Duration = time.Second
		if testing.Short() {
			opts.Duration /= 10
		}
	}
	return &stress{newSemaphore: newSemaphore, opts: opts, patience: 20 * time.Second}
}

// done says how much was done in the time taken.
func (s *stress) done(taken time.Duration) string {
	rounds := "rounds"
	if s.rounds == 1 {
		rounds = "round"
	}
	return fmt.Sprintf("%d %s in %v", s.rounds, rounds, taken.Round(time.Millisecond))
}

// crowd is a limit that makes a round a large one: of some hundred requests.
const crowd = 2000

// run plays rounds and returns the first violation.
func (s *stress) run() (v *violation) {
	name := fmt.Sprintf("stress %#x", s.opts.Seed)
	pprof.Do(context.Background(), pprof.Labels("proptest", name), func(context.Context) {
		rng := rand.New(rand.NewPCG(s.opts.Seed, 0))
		end := time.Now().Add(s.opts.Duration)
		var sem abilities
		var limit int64
		for v == nil && time.Now().Before(end) {
			s.rounds++
			if rng.IntN(100) == 0 {
				v = newRound(s, abilitiesOf(s.newSemaphore(crowd)), crowd, rng).gather()
				continue
			}
			if sem.Semaphore == nil || rng.IntN(20) == 0 {
				limit = 1 + rng.Int64N(6)
				sem = abilitiesOf(s.newSemaphore(limit))
			}
			r := newRound(s, sem, limit, rng)
			switch rng.IntN(10) {
			case 0:
				v = r.guard(r.overtake)
			case 1, 2:
				v = r.guard(r.gather)
			default:
				v = r.guard(r.run)
			}
			if r.closes {
				sem.Semaphore = nil
			}
		}
	})
	if v == nil {
		v = s.leftBehind(name)
	}
	return v
}

// leftBehind looks for goroutines that the rounds have started and that are
// still there: they have inherited the label.
func (s *stress) leftBehind(name string) *violation {
	label := []byte(fmt.Sprintf("%q", name))
	var stacks bytes.Buffer
	for end := time.Now().Add(s.patience); ; runtime.Gosched() {
		stacks.Reset()
		if err := pprof.Lookup("goroutine").WriteTo(&stacks, 1); err != nil {
			return violated(delivery, "no goroutine profile: %v", err)
		}
		var left [][]byte
		for stack := range bytes.SplitSeq(stacks.Bytes(), []byte("\n\n")) {
			if bytes.Contains(stack, label) {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return violated(delivery, "goroutines are left:\n%s", bytes.Join(left, []byte("\n\n")))
		}
	}
}

// oracle knows from outside how many permits may be in use, and how many are.
type oracle struct {
	inside atomic.Int64 // permits of those inside the critical section

	// limits are those the semaphore has had, in order; announced is the last
	// that may be in force, settled the last that is for certain.
	limits    [maxLimits]atomic.Int64
	announced atomic.Int64
	settled   atomic.Int64

	// plain is written by whoever holds all permits, in rounds in which the
	// limit stays, and read by the others. The race detector sees if a release
	// does not synchronize before the acquire that it enables.
	plain int
	fixed bool
}

// maxLimits is the most limits that a semaphore has in one round.
const maxLimits = 32

// enter is called by somebody who got n permits from a call that began when the
// settled limit was number since. What is in use at this moment was within the
// limit at the latest grant, which was after that.
func (o *oracle) enter(n int64, since int64) *violation {
	inside := o.inside.Add(n)
	highest := int64(0)
	for i := since; i <= o.announced.Load(); i++ {
		highest = max(highest, o.limits[i].Load())
	}
	if inside > highest {
		return violated(conservation, "%d permits are in use, and the limit was no higher than %d", inside, highest)
	}
	if o.fixed && n > 0 {
		if n == highest {
			o.plain++
		} else {
			_ = o.plain
		}
	}
	return nil
}

// leave is called before permits are released.
func (o *oracle) leave(n int64) { o.inside.Add(-n) }

// setLimit changes the limit with set.
func (o *oracle) setLimit(limit int64, set func(int64)) {
	i := o.announced.Load() + 1
	o.limits[i].Store(limit)
	o.announced.Store(i)
	set(limit)
	o.settled.Store(i)
}
