package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunReturnsTheExitStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			reason  string
			program func(context.Context) error
			status  int
			stderr  string
			after   time.Duration
		}{
			{"done", func(context.Context) error { return nil }, 0, "", 0},
			{"failed", func(context.Context) error { return errors.New("boom") }, 1, "name: boom\n", 0},
			{
				"takes too long",
				func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
				1, "name: not done within 20s\n", 20 * time.Second,
			},
		} {
			var stderr bytes.Buffer
			start := time.Now()
			status := Run(t.Context(), "name", &stderr, tc.program)
			if got := time.Since(start); status != tc.status || stderr.String() != tc.stderr || got != tc.after {
				t.Errorf("%s: status %d, %q after %v; want %d, %q after %v",
					tc.reason, status, &stderr, got, tc.status, tc.stderr, tc.after)
			}
		}
	})
}

func TestScreenShowsProgressOnATerminalOnly(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if NewScreen(w).Terminal {
		t.Error("a pipe is taken for a terminal")
	}
	for _, terminal := range []bool{false, true} {
		var out bytes.Buffer
		progress := Screen{&out, terminal}.Task("fetching", "pages")
		for done := range 3 {
			progress(done, 2)
		}
		want := ""
		if terminal {
			want = "\rfetching: [                    ] 0 of 2 pages done" +
				"\rfetching: [##########          ] 1 of 2 pages done" +
				"\rfetching: [####################] 2 of 2 pages done\r\x1b[K"
		}
		if out.String() != want {
			t.Errorf("terminal %v: %q, want %q", terminal, &out, want)
		}
	}
}

func TestServeUntilStop(t *testing.T) {
	url, stop, err := Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.URL.Path)
	}))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(url + "/hello")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(body) != "/hello" || err != nil {
		t.Errorf("got %q, %v, want /hello", body, err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(url); err == nil {
		t.Error("it still answers")
	}
}

func TestGaugeKnowsTheHighest(t *testing.T) {
	var g Gauge
	var inside, leave sync.WaitGroup
	inside.Add(10)
	all := make(chan struct{})
	for range 10 {
		leave.Go(func() {
			g.Enter()
			inside.Done()
			<-all
			g.Leave()
		})
	}
	inside.Wait()
	if g.Inside() != 10 || g.Highest() != 10 {
		t.Errorf("%d inside, at most %d, want 10", g.Inside(), g.Highest())
	}
	close(all)
	leave.Wait()
	g.Enter()
	if g.Inside() != 1 || g.Highest() != 10 {
		t.Errorf("%d inside, at most %d, want 1 and 10", g.Inside(), g.Highest())
	}
}
