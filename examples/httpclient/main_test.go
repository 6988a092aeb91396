package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

func TestCommandKeepsTheQuickHostGoing(t *testing.T) {
	var out, stderr bytes.Buffer
	if status := command(t.Context(), &out, &stderr, standard); status != 0 || stderr.Len() > 0 {
		t.Fatalf("exit status %d, want 0\n%s%s", status, &out, &stderr)
	}
	const want = `Two hosts on loopback, one of them slow, and 20 callers for each.

Without a limit:
  slow host    20 callers held up,  0 refused at once
  quick host   20 answers meanwhile
  in the end   20 answers of the slow host, 20 requests at once at most

With 4 requests at once for each host:
  slow host     4 callers held up, 16 refused at once
  quick host   20 answers meanwhile
  in the end   20 answers of the slow host, 4 requests at once at most
`
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", &out, want)
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
		{"a limit above what a host may see", t.Context(), 5, "a host saw 5 requests at once, more than 4"},
		{"a limit below it", t.Context(), 3, "3 callers held up and 17 refused, want 4 and 16"},
		{"a limit that cannot be", t.Context(), 0, `bulkhead "hosts": Config\.MaxConcurrent is 0, want at least 1`},
		{"an interrupt", interrupted, 4, "(?s).*context canceled.*"},
	} {
		cfg := standard
		cfg.bulkhead.MaxConcurrent = tc.limit
		var out, stderr bytes.Buffer
		if status := command(tc.ctx, &out, &stderr, cfg); status != 1 {
			t.Errorf("%s: exit status %d, want 1", tc.reason, status)
		}
		if !regexp.MustCompile(`^httpclient: ` + tc.want + `\n$`).MatchString(stderr.String()) {
			t.Errorf("%s: on stderr: %q, want %q", tc.reason, &stderr, tc.want)
		}
	}
}

func TestVerdictNamesWhatIsWrong(t *testing.T) {
	cfg := config{callers: 5, limit: 2}
	for _, tc := range []struct {
		report report
		want   string
	}{
		{report{held: 2, refused: 3, quick: 5, slow: 5, highest: 2}, "<nil>"},
		{report{held: 2, refused: 3, quick: 5, slow: 5, highest: 3}, "a host saw 3 requests at once, more than 2"},
		{report{held: 2, refused: 2, quick: 5, slow: 5, highest: 2}, "2 callers held up and 2 refused, want 2 and 3"},
		{report{held: 1, refused: 4, quick: 5, slow: 5, highest: 2}, "1 callers held up and 4 refused, want 2 and 3"},
		{report{held: 2, refused: 3, quick: 4, slow: 5, highest: 2}, "4 answers of the quick host and 5 of the slow one, want 5 of each"},
		{report{held: 2, refused: 3, quick: 5, slow: 4, highest: 2}, "5 answers of the quick host and 4 of the slow one, want 5 of each"},
	} {
		if got := fmt.Sprint(tc.report.verdict(cfg)); got != tc.want {
			t.Errorf("%+v: %s, want %s", tc.report, got, tc.want)
		}
	}
}

// An answer that is not what it should be is an error, and its permit is back.
func TestWrongAnswerIsAnError(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	b := bulkhead.MustNew[any](bulkhead.Config{Name: "host", MaxConcurrent: 1})
	client := &http.Client{Transport: bulkheadhttp.NewTransport(b, nil, bulkheadhttp.TransportOptions{})}
	defer client.CloseIdleConnections()
	err := ask(t.Context(), client, srv.URL)
	if want := `404 Not Found with "404 page not found\n"`; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if n := b.Stats().Active; n != 0 {
		t.Errorf("%d permits in flight, want 0", n)
	}
}
