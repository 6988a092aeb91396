package table_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/turnstile-go/turnstile/internal/study/table"
)

func example() *table.Table {
	t := &table.Table{
		About:   []table.Fact{{"date", "2026-11-30"}, {"command", "go run ./cmd/x -a: b"}},
		Columns: []string{"who", "how many", "how long"},
	}
	t.Add("no guard", 20000, 12.34567)
	t.Add("a bulkhead", 0, math.NaN())
	t.Add("x", 1, 123456.7)
	return t
}

const written = `# date: 2026-11-30
# command: go run ./cmd/x -a: b
who	how many	how long
no guard	20000	12.35
a bulkhead	0	-
x	1	123500
`

func TestWriteThenRead(t *testing.T) {
	want := example()
	var out bytes.Buffer
	if err := want.Write(&out); err != nil {
		t.Fatal(err)
	}
	if out.String() != written {
		t.Errorf("wrote\n%s\nwant\n%s", &out, written)
	}
	got, err := table.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
	if got, want := got.Fact("command"), "go run ./cmd/x -a: b"; got != want {
		t.Errorf("command: %q, want %q", got, want)
	}
	if got := got.Fact("hardware"); got != "" {
		t.Errorf("a fact that is not there: %q, want none", got)
	}
}

func TestFileKeepsWhatItHeldUntilThereIsMore(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.tsv")
	before := strings.Repeat("old\n", 100)
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	write, err := table.Create(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); string(got) != before {
		t.Errorf("before there is a table: %q, %v, want what it held", got, err)
	}
	if err := write(example()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); string(got) != written {
		t.Errorf("afterwards: %q, %v, want the table", got, err)
	}
	if _, err := table.Create(filepath.Join(file, "y.tsv"), nil); err == nil {
		t.Error("no error for a file that cannot be")
	}
	var out bytes.Buffer
	if write, err = table.Create("", &out); err != nil {
		t.Fatal(err)
	}
	if err := write(example()); err != nil || out.String() != written {
		t.Errorf("without a file: %q, %v, want the table on standard output", &out, err)
	}
}

func TestEachGivesCells(t *testing.T) {
	var who []string
	var long []float64
	err := example().Each(func(r *table.Row) error {
		who = append(who, r.Text("who"))
		long = append(long, r.Number("how long"))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"no guard", "a bulkhead", "x"}; !reflect.DeepEqual(who, want) {
		t.Errorf("text: %q, want %q", who, want)
	}
	if long[0] != 12.35 || !math.IsNaN(long[1]) || long[2] != 123500 {
		t.Errorf("numbers: %v, want [12.35 NaN 123500]", long)
	}
}

func TestEachRefusesWhatIsNotThere(t *testing.T) {
	for column, want := range map[string]string{
		"who":  `row 1: column "who" holds "no guard", want a number`,
		"when": `row 1: there is no column "when"`,
	} {
		err := example().Each(func(r *table.Row) error {
			r.Number(column)
			return nil
		})
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                    "no line of columns",
		"# date\na\tb\n":      "line 1",
		"a\tb\n1\t2\n1\t2\t3": "line 3: 3 cells for 2 columns",
	} {
		if _, err := table.Read(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", in, err, want)
		}
	}
}

func TestAddRefusesWhatWouldNotBeReadBack(t *testing.T) {
	for _, cells := range [][]any{{"x"}, {"x", ""}, {"a\tb", 1}, {"a\nb", 1}, {"# a", 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Add(%q) did not panic", cells)
				}
			}()
			(&table.Table{Columns: []string{"a", "b"}}).Add(cells...)
		}()
	}
}
