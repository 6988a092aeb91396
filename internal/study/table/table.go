// Package table keeps what a study measured as tab-separated values, under a
// header that says how the figures came about.
package table

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Table is rows of cells under named columns. It is read by people, by the
// programs that draw, and by whatever reads tab-separated values and passes over
// lines that begin with #.
type Table struct {
	// About says where the figures come from. Each line of the header is one.
	About []Fact

	// Columns are the names of the columns, and each row has a cell for each.
	Columns []string
	Rows    [][]string
}

// A Fact is one line of a table's header.
type Fact struct{ Key, Value string }

// Fact returns the value of the first fact of that key, or "" if there is none.
func (t *Table) Fact(key string) string {
	for _, f := range t.About {
		if f.Key == key {
			return f.Value
		}
	}
	return ""
}

// Add adds a row. A float64 is written with four significant digits, NaN, which
// stands for "there is none", as "-", everything else as fmt.Sprint has it. Add
// panics if the cells are not as many as the columns, or one of them would not be
// read back as it is.
func (t *Table) Add(cells ...any) {
	if len(cells) != len(t.Columns) {
		panic(fmt.Sprintf("table: %d cells for %d columns", len(cells), len(t.Columns)))
	}
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = format(cell)
		if row[i] == "" || strings.ContainsAny(row[i], "\t\r\n") || i == 0 && row[i][0] == '#' {
			panic(fmt.Sprintf("table: column %q cannot hold %q", t.Columns[i], row[i]))
		}
	}
	t.Rows = append(t.Rows, row)
}

func format(cell any) string {
	x, ok := cell.(float64)
	switch {
	case !ok:
		return fmt.Sprint(cell)
	case math.IsNaN(x):
		return "-"
	}
	// Not %g alone, which would write 1e+04.
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		panic("table: " + err.Error())
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// Each calls f for each row until it returns an error, or asks a row for what it
// does not have, and returns that error with the row's number.
func (t *Table) Each(f func(r *Row) error) error {
	for i, cells := range t.Rows {
		r := &Row{columns: t.Columns, cells: cells}
		err := f(r)
		if r.err != nil {
			err = r.err
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
	}
	return nil
}

// A Row is one row of a table, good for the call of f that it is given to.
type Row struct {
	columns, cells []string
	err            error // the first cell that was asked for in vain
}

// Text returns the cell in the column of that name. If there is none it returns
// "", and Each the error.
func (r *Row) Text(column string) string {
	i := slices.Index(r.columns, column)
	if i < 0 {
		r.fail(fmt.Errorf("there is no column %q", column))
		return ""
	}
	return r.cells[i]
}

// Number is Text as a number. It returns NaN for "-", and if the cell is no
// number, which is an error of Each.
func (r *Row) Number(column string) float64 {
	cell := r.Text(column)
	if cell == "" || cell == "-" {
		return math.NaN()
	}
	x, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		r.fail(fmt.Errorf("column %q holds %q, want a number", column, cell))
		return math.NaN()
	}
	return x
}

func (r *Row) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Write writes the table.
func (t *Table) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, f := range t.About {
		fmt.Fprintf(b, "# %s: %s\n", f.Key, strings.ReplaceAll(f.Value, "\n", " "))
	}
	fmt.Fprintln(b, strings.Join(t.Columns, "\t"))
	for _, row := range t.Rows {
		fmt.Fprintln(b, strings.Join(row, "\t"))
	}
	return b.Flush()
}

// Create returns a function that writes a table to a file, or to stdout if the
// file's name is "". That it can be written to is found out at once, and not when
// a study of minutes is over; what it held before, it holds until then.
func Create(file string, stdout io.Writer) (write func(*Table) error, err error) {
	if file == "" {
		return func(t *Table) error { return t.Write(stdout) }, nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	return func(t *Table) error {
		return errors.Join(f.Truncate(0), t.Write(f), f.Close())
	}, nil
}

// Read reads what Write has written. The error says which line is at fault.
func Read(r io.Reader) (*Table, error) {
	t := &Table{}
	in := bufio.NewScanner(r)
	for line := 1; in.Scan(); line++ {
		text := in.Text()
		if fact, ok := strings.CutPrefix(text, "#"); ok {
			key, value, ok := strings.Cut(fact, ":")
			if !ok {
				return nil, fmt.Errorf("table: line %d: %q is not \"# key: value\"", line, text)
			}
			t.About = append(t.About, Fact{strings.TrimSpace(key), strings.TrimSpace(value)})
			continue
		}
		cells := strings.Split(text, "\t")
		if t.Columns == nil {
			t.Columns = cells
			continue
		}
		if len(cells) != len(t.Columns) {
			return nil, fmt.Errorf("table: line %d: %d cells for %d columns", line, len(cells), len(t.Columns))
		}
		t.Rows = append(t.Rows, cells)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	if t.Columns == nil {
		return nil, fmt.Errorf("table: it has no line of columns")
	}
	return t, nil
}
