package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// small is the story with fewer clients. They are patient, since the machine
// may be slow and the race detector on.
func small() config {
	cfg := standard
	cfg.bulkhead.MaxWait = 50 * time.Millisecond
	cfg.bulkhead.MaxQueue = 20
	cfg.burst = load{clients: 120, spread: 20 * time.Millisecond, patience: 5 * time.Second}
	cfg.waiters = load{clients: 20, patience: 10 * time.Second}
	return cfg
}

func TestCommandTellsTheStory(t *testing.T) {
	var out, stderr bytes.Buffer
	if status := command(t.Context(), demo.Screen{Writer: &out}, &stderr, small()); status != 0 {
		t.Fatalf("exit status %d, want 0\n%s%s", status, &out, &stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("on stderr: %q, want nothing", &stderr)
	}
	if strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("escape sequences although it is no terminal: %q", &out)
	}
	for line := range strings.Lines(out.String()) {
		if len(line) > 80 {
			t.Errorf("%d characters wide, want at most 79: %s", len(line)-1, line)
		}
	}
	const left = "permits left                   8     8     8     8     8\n"
	if !strings.Contains(out.String(), left) {
		t.Errorf("the output lacks %q:\n%s", left, &out)
	}

	// What the README shows is what the program prints, but for the numbers.
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, excerpt, _ := strings.Cut(string(readme), "```text\nA service on loopback")
	excerpt, _, _ = strings.Cut("A service on loopback"+excerpt, "```")
	if got, want := withoutNumbers(excerpt), withoutNumbers(out.String()); got != want {
		t.Errorf("the README shows\n%s\nthe program prints\n%s", got, want)
	}
}

// withoutNumbers replaces what differs from run to run.
func withoutNumbers(text string) string {
	text = regexp.MustCompile(`\d[\d.]*( ?ms|s\b)?| -(\s)`).ReplaceAllString(text, " #$2")
	return regexp.MustCompile(` +`).ReplaceAllString(text, " ")
}

func TestCommandShowsProgressOnATerminal(t *testing.T) {
	cfg := small()
	cfg.timeouts = 1
	var out, stderr bytes.Buffer
	if status := command(t.Context(), demo.Screen{Writer: &out, Terminal: true}, &stderr, cfg); status != 0 {
		t.Fatalf("exit status %d, want 0\n%s", status, &stderr)
	}
	for _, want := range []string{
		"\rwithout a bulkhead: [                    ] 0 of 120 requests done\r",
		"\rwith a bulkhead: [##########          ] 60 of 120 requests done\r",
		"\rtiming out, 1 of 1: [####################] 20 of 20 requests done\r\x1b[K",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q: %q", want, &out)
		}
	}
}

func TestCommandFailsWhenSomethingIsWrong(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	tests := []struct {
		reason string
		ctx    context.Context
		change func(*config)
		want   string
	}{
		{
			reason: "a bulkhead that permits more than the downstream can take",
			ctx:    t.Context(),
			change: func(cfg *config) { cfg.bulkhead.MaxConcurrent = 16 },
			want:   "quickstart: broken promise: with a bulkhead: the downstream saw 16 calls at once, more than 8\n",
		},
		{
			reason: "a bulkhead that cannot be made",
			ctx:    t.Context(),
			change: func(cfg *config) { cfg.bulkhead.MaxConcurrent = 0 },
			want:   "quickstart: bulkhead \"downstream\": Config.MaxConcurrent is 0, want at least 1\n",
		},
		{
			reason: "an interrupt",
			ctx:    interrupted,
			change: func(*config) {},
			want:   "quickstart: context canceled\n",
		},
	}
	for _, tc := range tests {
		cfg := small()
		cfg.timeouts = 1
		tc.change(&cfg)
		var out, stderr bytes.Buffer
		if status := command(tc.ctx, demo.Screen{Writer: &out}, &stderr, cfg); status != 1 {
			t.Errorf("%s: exit status %d, want 1", tc.reason, status)
		}
		if stderr.String() != tc.want {
			t.Errorf("%s: on stderr: %q, want %q", tc.reason, &stderr, tc.want)
		}
		if strings.Contains(out.String(), "Every promise was kept") {
			t.Errorf("%s: and yet it says that every promise was kept", tc.reason)
		}
	}
}

func TestPermitsLeftAreTakenNotRead(t *testing.T) {
	for _, tc := range []struct{ limit, held, want int64 }{
		{limit: 8, held: 0, want: 8},
		{limit: 8, held: 1, want: 7},
		{limit: 8, held: 8, want: 0},
		{limit: 9, held: 0, want: 9}, // one too many
	} {
		b := bulkhead.MustNew[int](bulkhead.Config{Name: "b", MaxConcurrent: tc.limit})
		if tc.held > 0 {
			if _, ok := b.Weighing(tc.held).TryAcquire(); !ok {
				t.Fatalf("%d of %d permits cannot be acquired", tc.held, tc.limit)
			}
		}
		for range 2 { // asking changes nothing
			if got := permitsLeft(b, 8); got != tc.want {
				t.Errorf("limit %d, %d held: permitsLeft = %d, want %d", tc.limit, tc.held, got, tc.want)
			}
		}
	}
}
