package proptest

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fault is a mistake that the reference can be made to make. Each has been made
// in public: most are retold from a fault report of another library.
type fault string

// Faults that Check finds.
const (
	leavesBody            fault = "a waiter that gives up stays queued, and is granted"
	losesUncollectedGrant fault = "a grant whose taker was canceled meanwhile is lost"
	losesGrantOnExpiry    fault = "a grant that meets the maximum wait is lost"
	leavesSilently        fault = "the head leaves, and nobody behind it is granted"
	strandsZero           fault = "the head leaves, and a request for nothing behind it waits on"
	resumesNext           fault = "whoever leaves wakes the next, permits or not"
	givesBackUngranted    fault = "whoever leaves gives back what it never had"
	wakesWithoutPermit    fault = "a waiter is woken, and its permits are not counted"
	wakesOne              fault = "a release wakes one waiter, however many fit"
	takesPiecemeal        fault = "a heavy request takes permits one by one, and keeps them when it leaves"
	tryBarges             fault = "TryAcquire takes what a waiter is waiting for"
	acquireBarges         fault = "Acquire takes what a waiter is waiting for"
	passesHeavyHead       fault = "a light request passes a heavy head"
	servesLastFirst       fault = "the last to come is served first"
	starves               fault = "newcomers overtake for ever"
	ignoresEndedContext   fault = "a context that has ended is granted what is free"
	tossesCoin            fault = "of the end of the context and a later grant, either wins"
	withdrawsLate         fault = "permits are held by a request whose context has ended"
	wrapsContextError     fault = "the context's error comes wrapped"
	mistakesTimeout       fault = "the maximum wait passes for the context's deadline"
	overflowsDeadline     fault = "a huge maximum wait overflows"
	refusesImpatient      fault = "no patience, no permits, though they are free"
	countsBoundFromZero   fault = "one more waits than may"
	parksOversized        fault = "a request for more than the limit waits"
	overflows             fault = "in use + n overflows"
	acceptsNegative       fault = "a negative weight is accepted"
	clampsOverRelease     fault = "releasing too much is overlooked"
	countsOverRelease     fault = "releasing too much panics, and counts"
	acquiresSurplus       fault = "shrinking waits for the surplus"
	forgetsDebt           fault = "shrinking forgets what is in flight"
	zeroFitsInDebt        fault = "a request for nothing is granted in debt"
	growsSilently         fault = "growing wakes nobody"
	keepsImpossible       fault = "shrinking leaves impossible requests in the queue"
	evictsOnPause         fault = "a limit of 0 fails all who wait"
	reopens               fault = "SetLimit opens what is closed"
	closesSilently        fault = "closing leaves waiters waiting"
	holdersLoseOnClose    fault = "after Close nobody can release"
	drainsEarly           fault = "Drain returns when nobody waits"
	drainsLate            fault = "Drain sleeps through the last release"
	drainsOnlyAlive       fault = "an ended context fails a Drain that had nothing to wait for"
	showsDebtAsAvailable  fault = "Stats shows less than nothing available"
	leavesGoroutine       fault = "a waiter that gives up leaves a goroutine"
)

// Faults for which calls must overlap, or which hang: Stress finds them.
const (
	checksThenParks        fault = "a waiter checks, and then parks"
	checksThenTakes        fault = "TryAcquire checks, and then takes"
	checksOldLimit         fault = "TryAcquire checks against a limit that has changed since"
	losesConcurrentRelease fault = "of two concurrent releases one is lost"
	forgetsUnlock          fault = "a full queue leaves the mutex locked"
)

// broken is a reference with a fault, and the invariant that must be found
// broken.
type broken struct {
	fault     fault
	invariant string
	opts      Options
	stats     bool // with its Stats, as the fault is in what that says
}

// new returns one of the limit. What only this library's semaphores show is
// hidden, unless stats are wanted, so that the fault has to be found from its
// consequences.
func (b broken) new(limit int64) Semaphore {
	s := &reference{fault: b.fault, limit: limit, maxWaiters: b.opts.MaxWaiters, unfair: b.opts.Unfair}
	if b.stats {
		return s
	}
	return struct {
		Semaphore
		timed
		resizable
		closable
		drainable
	}{s, s, s, s, s}
}

// checkTable says which invariant a fault breaks under Check: one of them, as some
// break several.
var checkTable = []broken{
	{fault: leavesBody, invariant: conservation},
	{fault: leavesBody, invariant: layout, stats: true},
	{fault: losesUncollectedGrant, invariant: conservation},
	{fault: losesGrantOnExpiry, invariant: conservation},
	{fault: leavesSilently, invariant: delivery},
	{fault: strandsZero, invariant: delivery},
	{fault: resumesNext, invariant: conservation},
	{fault: givesBackUngranted, invariant: conservation},
	{fault: wakesWithoutPermit, invariant: conservation},
	{fault: wakesOne, invariant: delivery},
	{fault: takesPiecemeal, invariant: conservation},
	{fault: tryBarges, invariant: noBarging},
	{fault: acquireBarges, invariant: noBarging},
	{fault: passesHeavyHead, invariant: noBarging},
	{fault: servesLastFirst, invariant: noBarging},
	{fault: starves, invariant: noBarging, opts: Options{Unfair: true}},
	{fault: ignoresEndedContext, invariant: singleOutcome},
	{fault: tossesCoin, invariant: singleOutcome},
	{fault: withdrawsLate, invariant: conservation},
	{fault: wrapsContextError, invariant: singleOutcome},
	{fault: mistakesTimeout, invariant: singleOutcome},
	{fault: overflowsDeadline, invariant: singleOutcome},
	{fault: refusesImpatient, invariant: singleOutcome},
	{fault: countsBoundFromZero, invariant: delivery, opts: Options{MaxWaiters: 1}},
	{fault: leavesBody, invariant: singleOutcome, opts: Options{MaxWaiters: 1}},
	{fault: parksOversized, invariant: delivery},
	{fault: overflows, invariant: conservation},
	{fault: acceptsNegative, invariant: conservation},
	{fault: clampsOverRelease, invariant: releaseOnce},
	{fault: countsOverRelease, invariant: conservation},
	{fault: acquiresSurplus, invariant: shrinkDebt},
	{fault: forgetsDebt, invariant: conservation},
	{fault: zeroFitsInDebt, invariant: shrinkDebt},
	{fault: growsSilently, invariant: delivery},
	{fault: keepsImpossible, invariant: delivery},
	{fault: evictsOnPause, invariant: singleOutcome},
	{fault: reopens, invariant: singleOutcome},
	{fault: closesSilently, invariant: delivery},
	{fault: holdersLoseOnClose, invariant: conservation},
	{fault: drainsEarly, invariant: conservation},
	{fault: drainsLate, invariant: delivery},
	{fault: drainsOnlyAlive, invariant: singleOutcome},
	{fault: showsDebtAsAvailable, invariant: conservation, stats: true},
	{fault: leavesGoroutine, invariant: delivery},
}

// TestCheckReference shows that the reference has none of the faults before one
// is switched on.
func TestCheckReference(t *testing.T) {
	for _, opts := range []Options{{}, {MaxWaiters: 2}, {Unfair: true}} {
		Check(t, broken{opts: opts, stats: true}.new, opts)
	}
	Check(t, plain, Options{})
}

func TestCheckFindsFaults(t *testing.T) {
	for _, test := range checkTable {
		t.Run(string(test.fault)+"/"+test.invariant, func(t *testing.T) {
			// What happens at one instant happens in any order, so now and then a
			// script cannot be shortened. Then another seed finds one that can.
			var v *violation
			for seed := 1; seed <= 5 && (v == nil || v.steps > 8); seed++ {
				c := newProperty(t, test.new, test.opts)
				c.hang = 10 * time.Minute // none hangs, and a busy machine may shorten slowly
				c.find(test.invariant, seed)
				v = c.shortest
			}
			switch {
			case v == nil:
				t.Errorf("no violation of %q found", test.invariant)
			case v.steps > 8:
				t.Errorf("the shortest script has %d steps, want at most 8:\n%s", v.steps, v.code)
			case testing.Verbose():
				t.Logf("%v\n%s", v, v.code)
			}
		})
	}
}

// TestStressReference shows that Stress finds no fault before one is switched on.
func TestStressReference(t *testing.T) {
	for _, opts := range []Options{{}, {MaxWaiters: 2}, {Unfair: true}} {
		Stress(t, broken{opts: opts, stats: true}.new, opts)
	}
}

// stressTable says which invariant a fault breaks under Stress.
var stressTable = []broken{
	{fault: checksThenParks, invariant: delivery},
	{fault: checksThenTakes, invariant: conservation},
	{fault: checksOldLimit, invariant: conservation},
	{fault: losesConcurrentRelease, invariant: conservation, stats: true},
	{fault: forgetsUnlock, invariant: lockOrder, opts: Options{MaxWaiters: 1}},
	// Check finds these too. A permit lost looks like a grant lost to all
	// who only see that they wait; Stats tells.
	{fault: losesUncollectedGrant, invariant: delivery},
	{fault: losesUncollectedGrant, invariant: conservation, stats: true},
	{fault: losesGrantOnExpiry, invariant: conservation, stats: true},
	{fault: leavesSilently, invariant: delivery},
	{fault: wakesWithoutPermit, invariant: conservation},
	{fault: wakesOne, invariant: delivery},
	{fault: tryBarges, invariant: noBarging},
	{fault: acquireBarges, invariant: noBarging},
	{fault: passesHeavyHead, invariant: noBarging},
	{fault: starves, invariant: noBarging, opts: Options{Unfair: true}},
	{fault: ignoresEndedContext, invariant: singleOutcome},
	{fault: growsSilently, invariant: delivery},
	{fault: drainsEarly, invariant: conservation},
	{fault: leavesGoroutine, invariant: delivery, opts: Options{Duration: time.Millisecond}},
}

func TestStressFindsFaults(t *testing.T) {
	for _, test := range stressTable {
		t.Run(string(test.fault), func(t *testing.T) {
			opts := test.opts
			if opts.Duration == 0 {
				opts.Duration = 5 * time.Second // or until found
			}
			// Which invariant a fault breaks first depends on who comes first.
			var seen []string
			for range 20 {
				s := newStress(test.new, opts)
				s.patience = 500 * time.Millisecond
				v := s.run()
				if v == nil {
					seen = append(seen, "nothing")
					continue
				}
				if v.invariant == test.invariant {
					return
				}
				seen = append(seen, v.Error())
			}
			t.Errorf("got %q, want a violation of %q", seen, test.invariant)
		})
	}
}

// TestCheckFindsHangs shows that a semaphore that waits for its own mutex, which
// a bubble does not notice, does not stop Check. Shortening its script would
// take long.
func TestCheckFindsHangs(t *testing.T) {
	opts := Options{MaxWaiters: 1}
	c := newProperty(t, broken{fault: forgetsUnlock, opts: opts}.new, opts)
	c.hang = time.Second
	c.find(lockOrder, 1)
	if c.shortest == nil {
		t.Errorf("no violation of %q found", lockOrder)
	}
}

// find checks like Check, for violations of one invariant, with the same scripts
// each time and without failing the test.
func (c *property) find(invariant string, seed int) {
	for name, value := range map[string]string{
		"rapid.checks": "200000", "rapid.seed": strconv.Itoa(seed), "rapid.nofailfile": "true", "rapid.shrinktime": "0s",
	} {
		old := flag.Lookup(name).Value.String()
		if err := flag.Set(name, value); err != nil {
			c.t.Fatal(err)
		}
		defer flag.Set(name, old)
	}
	c.only = invariant
	over := make(chan struct{})
	go func() { // which rapid ends with FailNow
		defer close(over)
		rapid.Check(&silent{name: c.t.Name()}, c.check)
	}()
	<-over
}

// silent is a rapid.TB that fails without failing anybody's test.
type silent struct {
	rapid.TB
	name   string
	failed bool
}

func (s *silent) Helper()               {}
func (s *silent) Name() string          { return s.name }
func (s *silent) Log(...any)            {}
func (s *silent) Logf(string, ...any)   {}
func (s *silent) Errorf(string, ...any) { s.failed = true }
func (s *silent) Failed() bool          { return s.failed }
func (s *silent) FailNow()              { runtime.Goexit() }
