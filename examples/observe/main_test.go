package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// patience is for what the program does within a second, on a machine that has
// nothing else to do.
const patience = 20 * time.Second

// quick is the program with rushes that follow upon each other.
func quick() config {
	cfg := standard
	cfg.work = 5 * time.Millisecond
	cfg.rush = 50 * time.Millisecond
	return cfg
}

// TestMain also sees to it that the tests leave no goroutine behind.
func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	status := m.Run()
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			os.Stderr.Write(stacks[:runtime.Stack(stacks, true)])
			status = 1
			break
		}
	}
	os.Exit(status)
}

// until fails the test unless cond comes true. Of what goes on in a server, there
// is no signal to wait for.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to pass that %s", what)
		}
	}
}

func TestCommandIsObservedUnderLoad(t *testing.T) {
	out, printed := io.Pipe()
	defer out.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var log bytes.Buffer
	exit := make(chan int, 1)
	go func() {
		status := command(ctx, printed, &log, quick())
		printed.Close()
		exit <- status
	}()

	lines := bufio.NewScanner(out)
	var metrics, page string
	for metrics == "" && lines.Scan() {
		switch what, address, _ := strings.Cut(strings.TrimSpace(lines.Text()), "  "); what {
		case "status page":
			page = address
		case "metrics":
			metrics = strings.TrimSpace(address)
		}
	}
	until(t, "the metrics count what is permitted and rejected", func() bool {
		found, err := scrape(t.Context(), metrics)
		if err != nil {
			t.Fatal(err)
		}
		ok := true
		for _, name := range []string{"database", "payments"} {
			ok = ok && found.sum("turnstile_bulkhead_permitted_calls_total", name) > 0
			ok = ok && found.sum("turnstile_bulkhead_rejected_calls_total", name) > 0
		}
		return ok && found.sum("turnstile_bulkhead_limit_permits", "database") == 8
	})
	until(t, "the page shows permits in use, and rejections", func() bool {
		type calls struct{ Calls int }
		var status struct {
			Bulkheads []struct {
				Name   string
				Active int
				Counts struct{ Rejected map[string]calls }
			}
		}
		if err := json.Unmarshal(get(t, page+"?format=json"), &status); err != nil {
			t.Fatal(err)
		}
		b := status.Bulkheads
		return len(b) == 2 && b[1].Name == "payments" && b[1].Active > 0 && b[1].Counts.Rejected["full"].Calls > 0
	})
	if text := get(t, page); !bytes.Contains(text, []byte("<h1>Bulkheads</h1>")) {
		t.Errorf("the page is\n%s", text)
	}

	interrupt()
	var rest strings.Builder
	for lines.Scan() {
		rest.WriteString(lines.Text() + "\n")
	}
	if status := <-exit; status != 0 {
		t.Errorf("exit status %d, want 0\n%s", status, &log)
	}
	want := regexp.MustCompile(`^
and at the warnings in its log\. An interrupt ends it\.

by metrics    permitted   rejected
database     +[1-9]\d* +[1-9]\d*
payments     +[1-9]\d* +[1-9]\d*

The clients got as many answers, and every permit is back\.
$`)
	if !want.MatchString(rest.String()) {
		t.Errorf("it prints\n%s\nwant\n%s", rest.String(), want)
	}
	for _, name := range []string{"database", "payments"} {
		if !regexp.MustCompile(`level=WARN msg="bulkhead call rejected" bulkhead=` + name + " ").Match(log.Bytes()) {
			t.Errorf("no rejection of %s in the log:\n%s", name, &log)
		}
	}
}

func get(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	return body
}

func TestCommandFailsWhenABulkheadCannotBeMadeOrObserved(t *testing.T) {
	for want, change := range map[string]func(*config){
		`bulkhead "payments": Config.MaxConcurrent is 0, want at least 1`: func(cfg *config) { cfg.payments.MaxConcurrent = 0 },
		`bulkhead "database": another one of this name is registered`:     func(cfg *config) { cfg.payments.Name = "database" },
		`"db\xff"`: func(cfg *config) { cfg.database.Name = "db\xff" }, // which Prometheus refuses
	} {
		cfg := quick()
		change(&cfg)
		var stderr bytes.Buffer
		if status := command(t.Context(), io.Discard, &stderr, cfg); status != 1 || !strings.Contains(stderr.String(), want) {
			t.Errorf("exit status %d, %q, want 1, %s", status, &stderr, want)
		}
	}
}

// A report fails if anything is not as it should be.
func TestReportNamesWhatIsWrong(t *testing.T) {
	s, err := newService(slog.New(slog.DiscardHandler), quick())
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	for path, want := range map[string]int{"/database": http.StatusOK, "/payments": http.StatusOK} {
		if status, err := ask(srv.Client(), srv.URL+path); status != want || err != nil {
			t.Fatalf("%s: status %d, %v", path, status, err)
		}
	}
	once := answers{served: 1}
	got := func(database, payments answers) *tally {
		return &tally{byName: map[string]answers{"database": database, "payments": payments}}
	}
	check := func(reason string, ctx context.Context, url string, got *tally, want string) {
		t.Helper()
		text := "none"
		if err := report(ctx, io.Discard, url, s.registry, got); err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s: error %q, want in it %q", reason, text, want)
		}
	}
	ctx := t.Context()
	check("nothing", ctx, srv.URL, got(once, once), "none")
	check("one too many served", ctx, srv.URL, got(once, answers{served: 2}), "payments: 2 clients were served and 0 refused")
	check("one too many refused", ctx, srv.URL, got(answers{1, 1}, once), "database: 1 clients were served and 1 refused")
	check("no metrics", ctx, srv.URL+"/nowhere", got(once, once), "404")
	check("no server", ctx, "http://127.0.0.1:0", got(once, once), "connect")

	wrong := got(once, once)
	wrong.add("database", http.StatusTeapot, nil)
	wrong.add("payments", 0, errors.New("boom")) // is no longer the first
	check("a wrong answer", ctx, srv.URL, wrong, "a client of database got status 418, error <nil>")

	b, _ := s.registry.Get("database")
	kept, _ := b.TryAcquire()
	defer kept.Release()
	over, cancel := context.WithCancel(ctx)
	cancel()
	check("a permit that is not back", over, srv.URL, got(once, once), "database still has 1 permits in flight: context canceled")
}

func TestScrapeReadsCountsOfAnySize(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			io.WriteString(w, "calls_total none\n")
			return
		}
		io.WriteString(w, "# HELP calls_total How many.\ncalls_total{bulkhead=\"a b\",reason=\"x\"} 2.5e+06\n"+
			"\ncalls_total{bulkhead=\"a b\",reason=\"y\"} 3\ncalls_total{bulkhead=\"c\"} 5\nother{bulkhead=\"a b\"} 7\n")
	}))
	defer srv.Close()
	found, err := scrape(t.Context(), srv.URL)
	if got, want := found.sum("calls_total", "a b"), 2_500_003; got != want || err != nil {
		t.Errorf("sum %d, %v, want %d", got, err, want)
	}
	if _, err := scrape(t.Context(), srv.URL+"/bad"); err == nil || !strings.Contains(err.Error(), `"calls_total none" has no value`) {
		t.Errorf("error %v, want one that names the line", err)
	}
}
