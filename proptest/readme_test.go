package proptest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocNamesEveryInvariant keeps the package documentation in step with the
// table of the page.
func TestDocNamesEveryInvariant(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(readme), "| invariant | argued at | shown by | proven by |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if table == "" {
		t.Fatal("README.md has no table of invariants")
	}
	for line := range strings.Lines(table) {
		invariant, _, _ := strings.Cut(strings.Trim(line, "| \n"), " | ")
		if !strings.Contains(string(doc), "//   - "+invariant+": ") {
			t.Errorf("doc.go does not list %q", invariant)
		}
	}
}

// TestReadmeShowsAReport keeps the failure that the page shows as it would be.
func TestReadmeShowsAReport(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	c := newProperty(t, broken{fault: strandsZero}.new, Options{})
	v := c.play(script{0, []action{
		{op: acquire, n: 1},
		{op: acquire, n: 0, context: slices.Index(contexts[:], background)},
		{op: cancel},
	}})
	if v == nil {
		t.Fatal("no violation")
	}
	if report := v.report(); !strings.Contains(string(readme), "```text\n"+report+"```") {
		t.Errorf("README.md does not show:\n%s", report)
	}
}

// TestDrawnScriptIsNotTheShortened keeps apart what rapid shows and what Check does.
func TestDrawnScriptIsNotTheShortened(t *testing.T) {
	want := "limit 2, actions: 1, before it is shortened"
	if got := fmt.Sprintf("%#v", script{2, make([]action, 1)}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReadmeNamesEveryFault keeps the page that says which broken version proves
// which test in step with the tests.
func TestReadmeNamesEveryFault(t *testing.T) {
	want := map[string][]string{}
	for _, b := range slices.Concat(checkTable, stressTable) {
		if !slices.Contains(want[b.invariant], string(b.fault)) {
			want[b.invariant] = append(want[b.invariant], string(b.fault))
		}
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(readme)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		faults, found := want[cells[0]]
		if !found || len(cells) != 4 {
			continue
		}
		if diff := cmp.Diff(faults, strings.Split(cells[3], " · ")); diff != "" {
			t.Errorf("%s (-tests +README.md):\n%s", cells[0], diff)
		}
		delete(want, cells[0])
	}
	for invariant := range want {
		t.Errorf("README.md has no row for %q", invariant)
	}
}
