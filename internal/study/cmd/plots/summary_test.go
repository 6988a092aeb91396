package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"
)

func bench(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/bench.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSummaryIsTheMedianOfTheRuns(t *testing.T) {
	table, err := summarize(benchfmt.NewReader(strings.NewReader(bench(t)), "bench.txt"), "")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := table.Write(&got); err != nil {
		t.Fatal(err)
	}
	const want = `# hardware: Some CPU, 2 cores, linux/amd64
bench	impl	ns_per_op	least	greatest	allocs_per_op	runs
Waiting/workers=1024/ctx=own	turnstile	1400	1300	1500	0	2
Waiting/workers=1024/ctx=own	xsync	2600	2500	2700	3	2
Execute	turnstile	22	21	25	0	3
Execute	failsafe	430	410	500	13	3
`
	if got.String() != want {
		t.Errorf("summary\n%s\nwant\n%s", &got, want)
	}
}

func TestSummaryTakesOneValueOfGOMAXPROCS(t *testing.T) {
	in := bench(t) + "BenchmarkExecute/impl=turnstile-8 1 50 ns/op\nBenchmarkExecute/impl=turnstile 1 70 ns/op\n"
	for procs, want := range map[string]string{"8": "50", "1": "70"} {
		table, err := summarize(benchfmt.NewReader(strings.NewReader(in), "bench.txt"), procs)
		if err != nil {
			t.Fatal(err)
		}
		if len(table.Rows) != 1 || table.Rows[0][2] != want {
			t.Errorf("-procs %s: rows %q, want one with %s ns", procs, table.Rows, want)
		}
		if got := table.Fact("hardware"); !strings.Contains(got, procs+" cores") {
			t.Errorf("-procs %s: hardware %q", procs, got)
		}
	}
}

func TestSummaryRefuses(t *testing.T) {
	for in, want := range map[string]string{
		bench(t) + "BenchmarkExecute/impl=turnstile-8 1 50 ns/op\n": "several values of GOMAXPROCS",
		"BenchmarkExecute/impl=turnstile-8 1 fifty ns/op\n":         "bench.txt:1",
		"BenchmarkOther/impl=turnstile-8 1 50 ns/op\n":              "none of the benchmarks",
	} {
		_, err := summarize(benchfmt.NewReader(strings.NewReader(in), "bench.txt"), "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

func TestBenchFactsTellThePeersVersions(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	facts, err := benchFacts("make bench", at, "../../../bench")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range facts {
		want := map[string]string{"command": "make bench", "date": "2026-01-02 03:04 UTC", "versions": "golang.org/x/sync v0."}[f.Key]
		if want == "" || !strings.Contains(f.Value, want) {
			t.Errorf("%s: %q, want something with %q", f.Key, f.Value, want)
		}
	}
	if _, err := benchFacts("", at, t.TempDir()); err == nil || !strings.Contains(err.Error(), "the peers' versions") {
		t.Errorf("error %v for a directory without a module", err)
	}
}
