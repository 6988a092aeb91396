package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
)

func TestCommandShowsWhatEachPoolCosts(t *testing.T) {
	var out, stderr bytes.Buffer
	if status := command(t.Context(), &out, &stderr, standard); status != 0 {
		t.Fatalf("exit status %d, want 0\n%s%s", status, &out, &stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("on stderr: %q, want nothing", &stderr)
	}
	want := regexp.MustCompile(`^A ledger in SQLite: 8 reads and 1 transfer at once, others wait up to 100ms\.
400 reads and 60 transfers come at once\.

           reads            transfers        connections
  pool   served refused   served refused   opened waited for
     3  ( +\d+){4}        3 +[1-9]\d*
     9  ( +\d+){4} +[1-9]          0
    40  ( +\d+){4} +[1-9]          0

Calls that waited for a connection had a permit already: the pool is too small\.
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("it prints\n%s\nwant\n%s", &out, want)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 80 {
			t.Errorf("%d characters wide, want at most 79: %s", len(line)-1, line)
		}
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
			"a bulkhead that permits more than the ledger may see", t.Context(),
			func(c *config) { c.reads.MaxConcurrent = 100 }, `\d+ reads were made at once, more than 8`,
		},
		{
			"a bulkhead that cannot be made", t.Context(),
			func(c *config) { c.writes.MaxConcurrent = 0 }, `bulkhead "writes": Config\.MaxConcurrent is 0, want at least 1`,
		},
		{
			"transfers of money that is not there", t.Context(),
			func(c *config) { c.burst.amount = 5000 }, `no such account, or not enough money in it`,
		},
		{"an interrupt", interrupted, func(*config) {}, "context canceled"},
	} {
		cfg := standard
		cfg.pools = []int{40}
		tc.change(&cfg)
		var out, stderr bytes.Buffer
		if status := command(tc.ctx, &out, &stderr, cfg); status != 1 {
			t.Errorf("%s: exit status %d, want 1", tc.reason, status)
		}
		if !regexp.MustCompile(`^sqlite: ` + tc.want + `\n$`).MatchString(stderr.String()) {
			t.Errorf("%s: on stderr: %q, want %q", tc.reason, &stderr, tc.want)
		}
	}
}

func TestVerdictNamesWhatIsWrong(t *testing.T) {
	cfg := config{maxRead: 8, maxWrite: 1}
	for _, tc := range []struct {
		pool   int
		result result
		want   string // empty: nothing is wrong
	}{
		{9, result{mostRead: 8, mostWrite: 1}, ""},
		{8, result{waited: 5}, ""},
		{9, result{waited: 5}, "with 9 connections, 5 calls waited for one"},
		{9, result{mostRead: 9}, "9 reads were made at once, more than 8"},
		{9, result{mostWrite: 2}, "2 transfers were made at once, more than 1"},
		{9, result{money: -10}, "there is -10 money"},
		{9, result{reading: bulkhead.Stats{Name: "reads", Active: 1}}, "in the end 1 permits for reads are in flight and 0 calls wait"},
		{9, result{writing: bulkhead.Stats{Name: "writes", Waiting: 2}}, "in the end 0 permits for writes are in flight and 2 calls wait"},
	} {
		got := ""
		if err := verdict(cfg, tc.pool, tc.result); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%d connections, %+v: %q, want %q", tc.pool, tc.result, got, tc.want)
		}
	}
}
