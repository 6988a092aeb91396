package proptest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReportNamesTheOption(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  fault
		script script
		want   []string
	}{
		{
			"a request for more than the limit waits", parksOversized,
			script{1, []action{{op: acquire, n: 3}}},
			[]string{"ParksOversized"},
		},
		{
			"an ended context holds permits", withdrawsLate,
			script{1, []action{
				{op: try, n: 1}, {op: acquire, n: 1}, {op: cancel},
				{op: release, n: 1, joined: true}, {op: try, n: 1, joined: true},
			}},
			[]string{"LateWithdrawal"},
		},
		{
			"somebody is passed", tryBarges,
			script{2, []action{{op: try, n: 1}, {op: acquire, n: 2}, {op: try, n: 1}}},
			[]string{"Unfair"},
		},
		{
			"a request for nothing is stranded", strandsZero,
			script{1, []action{{op: try, n: 1}, {op: acquire, n: 1}, {op: acquire, n: 0}, {op: cancel}}},
			nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newProperty(t, broken{fault: test.fault}.new, Options{})
			if !c.fails(test.script, 1000) {
				t.Fatal("no violation")
			}
			c.shorten()
			if diff := cmp.Diff(test.want, c.shortest.excuses); diff != "" {
				t.Errorf("%v (-want +got):\n%s", c.shortest, diff)
			}
			for _, option := range test.want {
				if !strings.Contains(c.shortest.report(), "With Options."+option+" ") {
					t.Errorf("the report does not name %s:\n%s", option, c.shortest.report())
				}
			}
		})
	}
}

// TestGrantOfOneParked has a semaphore that can grow grant a request that, by
// ParksOversized, waits for nothing but its context.
func TestGrantOfOneParked(t *testing.T) {
	opts := Options{ParksOversized: true}
	v := newProperty(t, broken{}.new, opts).play(script{0, []action{{op: acquire, n: 1}, {op: setLimit, n: 2}}})
	if v == nil || v.invariant != singleOutcome {
		t.Errorf("play() = %v, want a violation of %q", v, singleOutcome)
	}
}
