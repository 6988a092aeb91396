package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// drawTestdata draws the pictures of testdata and returns them by the names of
// their files.
func drawTestdata(t *testing.T) map[string]string {
	t.Helper()
	data, out := t.TempDir(), t.TempDir()
	for _, name := range []string{"queued.tsv", "overload.tsv"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-bench", "testdata/bench.txt", "-peers", "../../../bench", "-data", data, "-o", out}
	if err := command(args, io.Discard, os.Stderr); err != nil {
		t.Fatal(err)
	}
	return readAll(t, out)
}

func readAll(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = string(text)
	}
	return all
}

// words returns what stands in a picture, and fails the test if it is not XML.
func words(t *testing.T, name, svg string) string {
	t.Helper()
	var all strings.Builder
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, ok := token.(xml.CharData); ok {
			all.WriteString(string(text) + "\n")
		}
	}
}

func TestPicturesSayWhatTheyShow(t *testing.T) {
	about := []string{"go1.26.0, turnstile 0123456.", "Some <CPU> & more, 2 cores, 2026-01-02 03:04 UTC: go run ./cmd/"}
	want := map[string][]string{
		"cost": {
			"Time per call", "turnstile: 22 ns", "failsafe-go: 430 ns, 13 allocs", "turnstile: 1.4 µs", "x/sync: 2.6 µs, 3 allocs",
			"Guard a function, permits free", "Wait in line and be served", "golang.org/x/sync v0.", "Some CPU, 2 cores", ": make bench", "100 ns",
		},
		"queued":  append(about, "What a call costs", "memory per waiting call", "time per call to serve", "10k", "100k", "1000 B", "1 µs", "median of 5"),
		"goodput": append(about, "Goodput of an overloaded", "what can be done", "0×", "2×", "serves 20 calls at once", "give up after 500ms"),
		"latency": append(about, "Latency of those served", "p99 of the served, ms", "0×", "2×", "500", "Where nobody was served, no point is drawn"),
	}
	for _, way := range waysToQueue {
		want["queued"] = append(want["queued"], way.series.name)
	}
	for _, g := range guards {
		want["goodput"] = append(want["goodput"], g.series.name)
		want["latency"] = append(want["latency"], g.series.name)
	}

	pictures := drawTestdata(t)
	if len(pictures) != len(want)*len(themes) {
		t.Errorf("%d pictures, want %d", len(pictures), len(want)*len(themes))
	}
	for name, texts := range want {
		for _, th := range themes {
			file := name + "-" + th.name + ".svg"
			svg := pictures[file]
			got := words(t, file, svg)
			for _, text := range texts {
				if !strings.Contains(got, text) {
					t.Errorf("%s lacks %q", file, text)
				}
			}
			// Numbers and colors that are none.
			if bad := regexp.MustCompile(`NaN|Inf|#-`).FindString(svg); bad != "" {
				t.Errorf("%s has %q in it", file, bad)
			}
			if !strings.Contains(svg, "sans-serif;") || regexp.MustCompile(`font-family:[^;]*[^f];`).MatchString(svg) {
				t.Errorf("%s names fonts that not everybody has, and none instead", file)
			}
		}
	}
}

func TestSameDataGivesTheSamePictures(t *testing.T) {
	first, second := drawTestdata(t), drawTestdata(t)
	// The date of cost.tsv is that of the file it was made of, so it is the same.
	for name := range first {
		if first[name] != second[name] {
			t.Errorf("%s differs from itself", name)
		}
	}
}

func TestCommittedPicturesAreOfTheCommittedData(t *testing.T) {
	const docs = "../../../../docs/"
	out := t.TempDir()
	if err := command([]string{"-data", docs + "data", "-o", out}, io.Discard, os.Stderr); err != nil {
		t.Fatal(err)
	}
	committed := readAll(t, docs+"plots")
	for name, drawn := range readAll(t, out) {
		if committed[name] != drawn {
			t.Errorf("docs/plots/%s is not what docs/data gives: run make plots", name)
		}
		delete(committed, name)
	}
	for name := range committed {
		t.Errorf("docs/plots/%s is nothing that is drawn", name)
	}
}

func TestCommandFails(t *testing.T) {
	broken := t.TempDir()
	for name, text := range map[string]string{
		"cost.tsv":     "bench\timpl\tns_per_op\tleast\tgreatest\tallocs_per_op\nExecute\tturnstile\t0\t1\t1\t1\n",
		"queued.tsv":   "how\tcalls\tbytes_per_call\tdrain_ns_per_call\nluck\t1\t1\t1\n",
		"overload.tsv": "guard\tload\tgoodput_per_s\tserved_p99_ms\nnone\t1\t1\t1\n",
	} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	empty := t.TempDir()
	for _, name := range []string{"cost.tsv", "queued.tsv", "overload.tsv"} {
		if err := os.WriteFile(filepath.Join(empty, name), []byte("a\tb\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{[]string{"-x"}, []string{"-x"}},
		{[]string{"-data", t.TempDir()}, []string{"cost.tsv", "queued.tsv", "overload.tsv"}},
		{[]string{"-data", empty}, []string{"cost.tsv: it has no rows", "queued.tsv: it has no rows", "overload.tsv: it has no rows"}},
		{[]string{"-bench", "testdata/none.txt"}, []string{"none.txt"}},
		{[]string{"-bench", "testdata/queued.tsv", "-data", broken}, []string{"none of the benchmarks"}},
		{[]string{"-data", broken}, []string{
			"cost.tsv: row 1: 0 is not above 0", `queued.tsv: row 1: no series is called "luck"`,
			`overload.tsv: row 1: there is no column "offered_per_s"`,
		}},
	} {
		err := command(append([]string{"-o", t.TempDir()}, tc.args...), io.Discard, &bytes.Buffer{})
		for _, want := range tc.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want one with %q", tc.args, err, want)
			}
		}
	}
}
