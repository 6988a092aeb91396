package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
)

func TestCommandServesWhatFitsAndRefusesTheRest(t *testing.T) {
	var out, stderr bytes.Buffer
	if status := command(t.Context(), &out, &stderr, standard); status != 0 {
		t.Fatalf("exit status %d, want 0\n%s%s", status, &out, &stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("on stderr: %q, want nothing", &stderr)
	}
	want := regexp.MustCompile(`^A service on loopback, limit 8: an item weighs 1, a report 4, a health check nothing\.
All requests come at once\.

                 sent   served   refused
  items           400     +[1-9]\d*     +[1-9]\d*
  reports          40     +\d+     +\d+
  health checks    20       20         0

At most [1-8] permits' worth of work was done at once\.
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("it prints\n%s\nwant\n%s", &out, want)
	}
}

func TestCommandFailsWhenSomethingIsWrong(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, tc := range []struct {
		reason string
		ctx    context.Context
		change func(*config)
		want   string
	}{
		{
			"a bulkhead that permits more than the service can do", t.Context(),
			func(c *config) { c.bulkhead.MaxConcurrent = 400 }, `\d+ permits' worth of work was done at once, more than 8`,
		},
		{
			"a bulkhead that cannot be made", t.Context(),
			func(c *config) { c.bulkhead.MaxConcurrent = 0 }, `bulkhead "service": Config\.MaxConcurrent is 0, want at least 1`,
		},
		{
			"requests that the service does not know", t.Context(),
			func(c *config) { c.burst = []kind{{"others", "/other", 1}} }, `others: unexpected answer 404 Not Found, Retry-After ""`,
		},
		{"an interrupt", interrupted, func(*config) {}, "(.|\n)*context canceled"},
	} {
		cfg := standard
		tc.change(&cfg)
		var out, stderr bytes.Buffer
		if status := command(tc.ctx, &out, &stderr, cfg); status != 1 {
			t.Errorf("%s: exit status %d, want 1", tc.reason, status)
		}
		if !regexp.MustCompile(`^httpservice: ` + tc.want + `\n$`).MatchString(stderr.String()) {
			t.Errorf("%s: on stderr: %q, want %q", tc.reason, &stderr, tc.want)
		}
	}
}

func TestVerdictNamesWhatIsWrong(t *testing.T) {
	cfg := config{capacity: 2, burst: []kind{{"items", "/items/1", 3}, {"checks", healthPath, 1}}}
	good := []tally{{2, 1}, {1, 0}}
	for _, tc := range []struct {
		tallies []tally
		highest int64
		stats   bulkhead.Stats
		want    string // empty: nothing is wrong
	}{
		{good, 2, bulkhead.Stats{}, ""},
		{good, 3, bulkhead.Stats{}, "3 permits' worth of work was done at once, more than 2"},
		{[]tally{{1, 1}, {1, 0}}, 2, bulkhead.Stats{}, "items: 2 answers, want 3"},
		{[]tally{{2, 1}, {0, 1}}, 2, bulkhead.Stats{}, "1 health checks were refused"},
		{good, 2, bulkhead.Stats{Active: 1}, "in the end 1 permits are in flight and 0 requests wait"},
		{good, 2, bulkhead.Stats{Waiting: 2}, "in the end 0 permits are in flight and 2 requests wait"},
	} {
		got := ""
		if err := verdict(cfg, tc.tallies, tc.highest, tc.stats); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%v, highest %d, %+v: %q, want %q", tc.tallies, tc.highest, tc.stats, got, tc.want)
		}
	}
}

// What a request holds while it is served, and whether it is served when all
// permits are taken.
func TestRoutesWeighWhatTheyCost(t *testing.T) {
	b := bulkhead.MustNew[struct{}](standard.bulkhead)
	h := new(service).handler(b.Waiting(0))
	for _, tc := range []struct {
		path   string
		weight int64
		body   string
	}{
		{"/items/7", 1, "item 7"},
		{"/reports/7", 4, "report 7"},
		{"/healthz", 0, "fine"},
	} {
		for taken := range standard.bulkhead.MaxConcurrent + 1 {
			var permit *bulkhead.Permit
			if taken > 0 {
				permit, _ = b.Weighing(taken).TryAcquire()
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.path, nil))
			permit.Release()
			fits := tc.weight <= standard.bulkhead.MaxConcurrent-taken
			if served := w.Code == http.StatusOK && strings.TrimSpace(w.Body.String()) == tc.body; served != fits {
				t.Errorf("%s while %d permits are taken: %d %q, want it served: %v", tc.path, taken, w.Code, w.Body, fits)
			}
		}
	}
}
