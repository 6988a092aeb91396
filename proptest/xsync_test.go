package proptest

import (
	"testing"

	"github.com/turnstile-go/turnstile/semaphore"
	xsync "golang.org/x/sync/semaphore"
	"pgregory.net/rapid"
)

func newXSync(limit int64) Semaphore { return xsync.NewWeighted(limit) }

// xsyncOptions describe golang.org/x/sync/semaphore, as far as options can.
var xsyncOptions = Options{ParksOversized: true, LateWithdrawal: true}

// TestXSyncDifferences shows each known way in which x/sync is not what package
// semaphore promises, with the shortest script.
func TestXSyncDifferences(t *testing.T) {
	for _, test := range []struct {
		name      string
		script    script
		invariant string
		opts      Options
		reason    string
	}{
		{
			name: "a request for more than the limit waits",
			script: script{2, []action{
				{op: acquire, n: 3},
			}},
			invariant: delivery,
			reason:    "it waits for its context, which may be for ever; ours fails at once",
		},
		{
			name: "at limit 0 a request waits beside the queue",
			script: script{0, []action{
				{op: acquire, n: 1},
				{op: try, n: 0},
			}},
			invariant: noBarging,
			reason:    "to x/sync it is a request for more than the limit; ours is paused, and it is in the queue",
		},
		{
			name: "a request whose context has ended holds permits",
			script: script{1, []action{
				{op: try, n: 1},
				{op: acquire, n: 1},
				{op: cancel},
				{op: release, n: 1, joined: true},
				{op: try, n: 1, joined: true},
			}},
			invariant: conservation,
			opts:      Options{ParksOversized: true},
			reason:    "until its goroutine has run; in ours the Release does not go to it",
		},
		{
			name: "a request for nothing is stranded behind a head that left",
			script: script{1, []action{
				{op: try, n: 1},
				{op: acquire, n: 1},
				{op: acquire, n: 0},
				{op: cancel},
			}},
			invariant: delivery,
			opts:      xsyncOptions,
			reason:    "the one who leaves looks for free permits before it looks who waits",
		},
		{
			name: "releasing too much counts",
			script: script{1, []action{
				{op: overRelease},
			}},
			invariant: conservation,
			opts:      xsyncOptions,
			reason:    "it panics after the subtraction: whoever recovers has a semaphore that is off by that",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			// More than once, as it may depend on who is first at one instant.
			c := newProperty(t, newXSync, test.opts)
			if c.only = test.invariant; !c.fails(test.script, 1000) {
				t.Errorf("x/sync: no violation of %q: %s", test.invariant, test.reason)
			}
			ours := func(limit int64) Semaphore { return semaphore.NewWeighted(limit) }
			if v := newProperty(t, ours, Options{}).play(test.script); v != nil {
				t.Errorf("ours: %v\n%s", v, v.code)
			}
		})
	}
}

// TestCheckXSync shows that there are no others: scripts that steer clear of
// what no option describes find nothing.
func TestCheckXSync(t *testing.T) {
	c := newProperty(t, newXSync, xsyncOptions)
	c.scripts = rapid.Map(c.scripts, func(s script) script {
		for i := range s.actions {
			switch a := &s.actions[i]; {
			case a.op == overRelease:
				a.op = try
			case a.n == 0 || a.n == 5: // which may mean a weight of 0
				a.n = 1
			}
		}
		return s
	})
	defer c.report()
	rapid.Check(t, c.check)
}

// TestStressXSync shows that x/sync keeps what it promises when calls overlap.
func TestStressXSync(t *testing.T) {
	Stress(t, newXSync, xsyncOptions)
}
