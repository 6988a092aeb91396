package about

import (
	"os"
	"os/exec"
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

func TestRevisionTellsWhetherCodeHasChanged(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git; it is in Debian's package of that name")
	}
	t.Chdir(t.TempDir())
	if got := revision(); got != "of an unknown commit" {
		t.Errorf("where there is no repository: %q", got)
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.go", "package a")
	write("a.tsv", "1")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "first")
	commit := git("rev-parse", "--short", "HEAD")
	if err := os.Mkdir("sub", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir("sub")
	if got := revision(); got != commit {
		t.Errorf("of a fresh commit: %q, want %q", got, commit)
	}
	write("../a.tsv", "2")
	if got := revision(); got != commit {
		t.Errorf("with other data: %q, want %q", got, commit)
	}
	write("../a.go", "package b")
	if got, want := revision(), commit+"-dirty"; got != want {
		t.Errorf("with other code: %q, want %q", got, want)
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
