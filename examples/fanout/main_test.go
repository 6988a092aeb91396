package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// small is the program with fewer pages.
func small() config {
	cfg := standard
	cfg.pages = 400
	return cfg
}

func TestCommandFetchesAllPages(t *testing.T) {
	var out, stderr bytes.Buffer
	if status := command(t.Context(), demo.Screen{Writer: &out}, &stderr, small()); status != 0 {
		t.Fatalf("exit status %d, want 0\n%s%s", status, &out, &stderr)
	}
	if stderr.Len() > 0 {
		t.Errorf("on stderr: %q, want nothing", &stderr)
	}
	want := regexp.MustCompile(`^A server on loopback, and 400 pages to fetch from it, 32 at once\.

  calls that wait        [1-3]\d\d, when all were made
  goroutines           +\d+ at that moment, client and server included
  pages fetched          400, in order, in \d+\.\d s
  requests at once        (2\d|3[0-2]) at most, by the server's count
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

func TestCommandShowsProgressOnATerminal(t *testing.T) {
	var out, stderr bytes.Buffer
	if status := command(t.Context(), demo.Screen{Writer: &out, Terminal: true}, &stderr, small()); status != 0 {
		t.Fatalf("exit status %d, want 0\n%s", status, &stderr)
	}
	for done := range small().pages + 1 {
		if want := fmt.Sprintf("] %d of 400 pages done", done); !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q: %q", want, &out)
		}
	}
}

func TestCommandFailsWhenSomethingIsWrong(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, tc := range []struct {
		reason string
		ctx    context.Context
		limit  int64
		want   string
	}{
		{"a bulkhead that permits more than the server may see", t.Context(), 64, `the server saw \d+ requests at once, more than 32`},
		{"a bulkhead that cannot be made", t.Context(), 0, `bulkhead "pages": Config\.MaxConcurrent is 0, want at least 1`},
		{"an interrupt", interrupted, 32, "context canceled"},
	} {
		cfg := small()
		cfg.bulkhead.MaxConcurrent = tc.limit
		var out, stderr bytes.Buffer
		if status := command(tc.ctx, demo.Screen{Writer: &out}, &stderr, cfg); status != 1 {
			t.Errorf("%s: exit status %d, want 1", tc.reason, status)
		}
		if !regexp.MustCompile(`^fanout: ` + tc.want + `\n$`).MatchString(stderr.String()) {
			t.Errorf("%s: on stderr: %q, want %q", tc.reason, &stderr, tc.want)
		}
	}
}

func TestVerdictNamesWhatIsWrong(t *testing.T) {
	cfg := config{pages: 3, limit: 2}
	for _, tc := range []struct {
		pages   []string
		highest int64
		want    string // empty: nothing is wrong
	}{
		{[]string{page(0), page(1), page(2)}, 2, ""},
		{[]string{page(0), page(1), page(2)}, 1, ""},
		{[]string{page(0), page(1), page(2)}, 3, "the server saw 3 requests at once, more than 2"},
		{[]string{page(0), page(1)}, 2, "2 pages, want 3"},
		{[]string{page(0), page(2), page(1)}, 2, `page 1 is "this is page 2", want "this is page 1"`},
		{[]string{page(0), page(1), ""}, 2, `page 2 is "", want "this is page 2"`},
	} {
		got := ""
		if err := verdict(cfg, tc.pages, tc.highest); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%q, highest %d: %q, want %q", tc.pages, tc.highest, got, tc.want)
		}
	}
}

// A page that cannot be had ends the job: calls that wait are canceled, and no
// permit is lost.
func TestJobEndsWithTheFirstError(t *testing.T) {
	var requests atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Path == "/7" {
			http.Error(w, "boom", http.StatusInternalServerError)
			return
		}
		new(server).ServeHTTP(w, r)
	}))
	defer srv.Close()
	b := bulkhead.MustNew[string](bulkhead.Config{Name: "pages", MaxConcurrent: 4})
	shown := 0
	job := startJob(t.Context(), b, srv.Client(), srv.URL, 5000)
	pages, err := job.collect(t.Context(), func(done, of int) { shown = done })
	if want := `page 7: 500 Internal Server Error: "boom\n"`; pages != nil || err == nil || err.Error() != want {
		t.Errorf("%d pages, error %v, want %s", len(pages), err, want)
	}
	if shown != 7 {
		t.Errorf("progress shows %d pages, want 7", shown)
	}
	for _, f := range job.pages {
		<-f.Done()
	}
	if n := requests.Load(); n > 1000 {
		t.Errorf("%d requests were made, want few after the error", n)
	}
	all, ok := b.Weighing(4).TryAcquire()
	if !ok {
		t.Errorf("a permit is lost: %+v", b.Stats())
	}
	all.Release()
}
