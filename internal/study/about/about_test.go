package about

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestFactsTellWhatAReaderNeedsToRepeatIt(t *testing.T) {
	now := time.Date(2026, 1, 2, 4, 4, 5, 0, time.FixedZone("", 3600))
	facts := Facts("overload", []string{"-o", "x.tsv"}, now)
	want := map[string]string{
		"command":  "go run ./cmd/overload -o x.tsv",
		"date":     "2026-01-02 03:04 UTC",
		"versions": runtime.Version() + ", turnstile ",
		"hardware": " cores, " + runtime.GOOS + "/" + runtime.GOARCH,
	}
	for _, f := range facts {
		if w, ok := want[f.Key]; !ok || !strings.Contains(f.Value, w) {
			t.Errorf("%s: %q, want something with %q", f.Key, f.Value, w)
		}
		delete(want, f.Key)
	}
	for key := range want {
		t.Errorf("nothing about the %s", key)
	}
}

func TestField(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpuinfo")
	if err := os.WriteFile(file, []byte("processor\t: 0\nmodel name\t: Some: CPU\nmodel name\t: Other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := field(file, "model name"), "Some: CPU"; got != want {
		t.Errorf("field = %q, want %q", got, want)
	}
	if got := field(file, "stepping") + field(file+"x", "stepping"); got != "" {
		t.Errorf("fields that are not there = %q, want none", got)
	}
}
