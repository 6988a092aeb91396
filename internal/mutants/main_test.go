package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fixture is a module with two packages, of which the upper one's tests know
// more about the lower one than its own.
var fixture = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.26\n",
	"low/low.go": `package low

func Double(n int) int {
	return n + n
}

func Sum(n int) (sum int) {
	for n > 0 {
		sum += n
		n--
	}
	return sum
}

func Later(f func()) {
	done := make(chan bool)
	go func() {
		defer close(done)
		f()
	}()
	<-done
}
`,
	"low/low_test.go": `package low

import "testing"

func TestDouble(t *testing.T) {
	if Double(0) != 0 {
		t.Error("Double(0)")
	}
}

func TestSum(t *testing.T) {
	t.Run("of three", func(t *testing.T) {
		if Sum(3) != 6 {
			t.Error("Sum(3)")
		}
	})
}

func TestLater(t *testing.T) {
	Later(func() {})
}
`,
	"high/high.go": `package high

import "example.com/m/low"

func Quadruple(n int) int {
	return low.Double(low.Double(n))
}
`,
	"high/high_test.go": `package high

import "testing"

func TestQuadruple(t *testing.T) {
	if Quadruple(2) != 8 {
		t.Error("Quadruple(2)")
	}
}
`,
}

// write makes a directory with the given files.
func write(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// load returns the suite of a module.
func load(t *testing.T, dir string) *suite {
	t.Helper()
	m, err := findModule(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{module: m}
	if err := s.load(t.Context(), io.Discard, []selection{{packages: "./..."}}); err != nil {
		t.Fatal(err)
	}
	s.patience = 5 * time.Second
	return s
}

// mutation is a patch that replaces a line of low.go, the same as number n of
// fixture's, by another.
func mutation(t *testing.T, name string, n int, line, by string) patch {
	t.Helper()
	lines := strings.Split(fixture["low/low.go"], "\n")
	diff := fmt.Sprintf("somehow: something breaks\n\ndiff --git a/low/low.go b/low/low.go\n--- a/low/low.go\n+++ b/low/low.go\n@@ -%d,3 +%d,3 @@\n %s\n-%s\n+%s\n %s\n",
		n-1, n-1, lines[n-2], line, by, lines[n])
	file := name + ".patch"
	patches, err := readPatches([]string{filepath.Join(write(t, map[string]string{file: diff}), file)})
	if err != nil {
		t.Fatal(err)
	}
	return patches[0]
}

func TestJudge(t *testing.T) {
	s := load(t, write(t, fixture))
	tests := []struct {
		name     string
		n        int
		line, by string
		want     string // a regular expression
	}{
		{"noticed at home", 9, "\t\tsum += n", "\t\tsum -= n", `^low TestSum/of_three$`},
		{"noticed at both", 4, "\treturn n + n", "\treturn n + n + 1", `^low TestDouble$`},
		{"noticed above", 4, "\treturn n + n", "\treturn n * n * n", `^high TestQuadruple$`},
		{"not noticed", 4, "\treturn n + n", "\treturn n * 2", `^SURVIVED$`},
		{"hangs", 10, "\t\tn--", "\t\tn -= 0", `^low TestSum/of_three \(timed out\)$`},
		{"ends the process", 18, "\t\tdefer close(done)", "\t\tpanic(done)", `^low TestLater \(crashed\)$`},
		{"does not compile", 9, "\t\tsum += n", "\t\tsum += m", `^INVALID: it does not compile:\n(.*\n)*.*undefined: m`},
		{"no longer applies", 4, "\treturn n - n", "\treturn n", `^INVALID: the patch does not apply: error: .*low.go`},
		{"changes nothing", 4, "\treturn n + n", "\treturn n + n", `^INVALID: the patch leaves low.go as it was`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := judge(context.Background(), s, mutation(t, test.name, test.n, test.line, test.by))
			if !regexp.MustCompile(test.want).MatchString(j.String()) {
				t.Errorf("got %q, want %q", j, test.want)
			}
			if want := !strings.Contains(test.want, "SURVIVED") && !strings.Contains(test.want, "INVALID"); j.caught != want {
				t.Errorf("caught: got %t, want %t", j.caught, want)
			}
		})
	}
}

func TestOneSurvivorFailsTheRun(t *testing.T) {
	s := load(t, write(t, fixture))
	caught := mutation(t, "caught", 9, "\t\tsum += n", "\t\tsum -= n")
	survivor := mutation(t, "survivor", 4, "\treturn n + n", "\treturn n * 2")
	tests := []struct {
		name    string
		patches []patch
		want    string
		wantErr string
	}{
		{
			name:    "all are caught",
			patches: []patch{caught},
			want:    "caught Ts  low TestSum/of_three\n1 mutants in Ts, 1 of them caught\n",
		},
		{
			name:    "one is not",
			patches: []patch{survivor, caught},
			want: "survivor Ts  SURVIVED\n\tsomehow: something breaks\n" +
				"caught Ts  low TestSum/of_three\n2 mutants in Ts, 1 of them caught\n",
			wantErr: "1 of 2 mutants were not caught",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			err := judgeAll(t.Context(), &out, s, test.patches, 2)
			if got := regexp.MustCompile(` +[\d.]+s`).ReplaceAllString(out.String(), " Ts"); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			if got := errorText(err); got != test.wantErr {
				t.Errorf("error: got %q, want %q", got, test.wantErr)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTestsMustPassOnTheCodeAsItIs(t *testing.T) {
	broken := map[string]string{}
	for name, text := range fixture {
		broken[name] = strings.Replace(text, "sum += n", "sum -= n", 1)
	}
	m, err := findModule(t.Context(), write(t, broken))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ run, want string }{
		{"", "the tests of low fail on the code as it is: TestSum/of_three"},
		{"Double$", ""},
		{"Treble", "the tests of low fail on the code as it is: no test matches Treble"},
	} {
		s := &suite{module: m}
		err := s.load(t.Context(), io.Discard, []selection{{packages: "./low", run: test.run}})
		if got := errorText(err); got != test.want {
			t.Errorf("-run=%s: got %q, want %q", test.run, got, test.want)
		}
	}
}

// TestPatchAppliesInsideARepository is for a temporary directory that lies in a
// working tree, where git apply skips files that are not that repository's.
func TestPatchAppliesInsideARepository(t *testing.T) {
	repository := t.TempDir()
	if out, err := exec.Command("git", "init", repository).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dir := filepath.Join(repository, "tmp")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	p := mutation(t, "inside", 4, "\treturn n + n", "\treturn n")
	if _, err := p.apply(t.Context(), write(t, fixture), dir); err != nil {
		t.Error(err)
	}
}

func TestNoPatchesAreAnError(t *testing.T) {
	if _, err := readPatches(nil); err == nil {
		t.Error("got nil, want an error: a run that judges nothing must not pass")
	}
}
