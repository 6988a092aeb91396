// Package examples_test keeps the README true.
package examples_test

import (
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	// The README's programs import these. So does the test, or go test would
	// repeat its cached result when they change.
	_ "github.com/turnstile-go/turnstile/bulkhead"
	_ "github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	_ "github.com/turnstile-go/turnstile/semaphore"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadmeProgramsRun vets and runs every Go program in the README, and
// compares what it prints with the block that follows.
func TestReadmeProgramsRun(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```\n+It prints\n+```text\n(.*?)```").FindAllStringSubmatch(readme(t), -1)
	if want := strings.Count(readme(t), "```go\n"); len(blocks) != want || want == 0 {
		t.Fatalf("%d programs with their output, want %d", len(blocks), want)
	}
	for _, block := range blocks {
		program, want := block[1], block[2]
		path := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(path, []byte(program), 0o666); err != nil {
			t.Fatal(err)
		}
		if out, err := format.Source([]byte(program)); err != nil || string(out) != program {
			t.Errorf("gofmt: %v\n%s", err, out)
		}
		if out, err := exec.Command("go", "vet", path).CombinedOutput(); err != nil {
			t.Errorf("go vet: %v\n%s", err, out)
		}
		out, err := exec.Command("go", "run", path).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("go run: %v\nit prints\n%s\nthe README says\n%s", err, out, want)
		}
	}
}

func TestReadmeLinksLeadSomewhere(t *testing.T) {
	links := regexp.MustCompile(`\[[^]]*\]\(([^)\s]+)\)`).FindAllStringSubmatch(readme(t), -1)
	pictures := regexp.MustCompile(`\b(?:src|srcset)="([^"]*)"`).FindAllStringSubmatch(readme(t), -1)
	if len(links) == 0 || len(pictures) == 0 {
		t.Fatalf("found %d links and %d pictures, want some of both", len(links), len(pictures))
	}
	for _, link := range append(links, pictures...) {
		path := strings.TrimPrefix(link[1], "https://pkg.go.dev/github.com/turnstile-go/turnstile/")
		if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(path))); err != nil {
			t.Errorf("link to %s: %v", link[1], err)
		}
	}
}
