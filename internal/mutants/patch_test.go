package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPatchesFitTheCode shows at each change of the library which patches have
// to follow it.
func TestPatchesFitTheCode(t *testing.T) {
	files, err := filepath.Glob("testdata/*.patch")
	if err != nil {
		t.Fatal(err)
	}
	patches, err := readPatches(files)
	if err != nil {
		t.Fatal(err)
	}
	m, err := findModule(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	title := regexp.MustCompile(`^(layout|conservation|no barging|single outcome|lock order|release once|shrink debt|delivery|memory ordering): \S`)
	shipped := regexp.MustCompile(`^(internal/waitq|semaphore|bulkhead|event)/`)
	for _, p := range patches {
		t.Run(p.name, func(t *testing.T) {
			if !title.MatchString(p.title) {
				t.Errorf("the first line is %q, want an invariant and how it is broken", p.title)
			}
			for _, file := range p.files {
				if !shipped.MatchString(file) || strings.HasSuffix(file, "_test.go") {
					t.Errorf("it changes %s, want code of the library", file)
				}
			}
			if _, err := p.apply(t.Context(), m.dir, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			wantOnePlace(t, m.dir, p.file)
		})
	}
}

// wantOnePlace fails the test if the code that a patch changes occurs twice: git
// would take the nearest, and that may come to be the wrong one.
func wantOnePlace(t *testing.T, root, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	var hunk strings.Builder
	end := func() {
		if hunk.Len() > 0 && strings.Count(string(code), hunk.String()) != 1 {
			t.Errorf("want this code once:\n%s", hunk.String())
		}
		hunk.Reset()
	}
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "--- a/"):
			end()
			if code, err = os.ReadFile(filepath.Join(root, strings.TrimSpace(line[len("--- a/"):]))); err != nil {
				t.Fatal(err)
			}
		case strings.HasPrefix(line, "@@"):
			end()
		case strings.HasPrefix(line, " "), strings.HasPrefix(line, "-"):
			hunk.WriteString(line[1:])
		}
	}
	end()
}
