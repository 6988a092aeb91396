// Ratio prints how one column of benchmark results compares with each other
// column, row by row, as the median over the runs of the ratio within a run.
//
// Usage:
//
//	ratio [-col key] [-base value] [-unit unit] [file ...]
//
// Benchstat takes the median of each column first, over all runs, so that a
// machine that was slow for one run widens both columns. Within a run the two
// were measured side by side, and what slowed both cancels in their ratio.
//
// The input is the output of several runs of "go test -bench", one after another
// in standard input or the files. Columns are told apart by -col, a key of a
// benchmark's name in the notation of benchstat: /impl, or .name for the name
// itself.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchproc"
)

func main() {
	col := flag.String("col", "/impl", "compare results that differ in this `key`")
	base := flag.String("base", "turnstile", "the `value` of the key that is divided by each of the others")
	unit := flag.String("unit", "sec/op", "the `unit` to compare, as benchstat names it")
	flag.Parse()
	files := &benchfmt.Files{Paths: flag.Args(), AllowStdin: true}
	ratios, err := compare(files, *col, *base, *unit)
	if err == nil {
		err = write(os.Stdout, *base, ratios)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ratio:", err)
		os.Exit(1)
	}
}

// records is what compare reads: benchfmt.Files, or a benchfmt.Reader.
type records interface {
	Scan() bool
	Result() benchfmt.Record
	Err() error
}

// A ratio is one line of the output: base divided by peer in each run.
type ratio struct {
	row, peer string
	perRun    []float64
}

// compare returns the ratios in order of the rows' appearance. Rows without a
// base, and results without that unit, are left out.
func compare(in records, col, base, unit string) ([]ratio, error) {
	filter, err := benchproc.NewFilter("*")
	if err != nil {
		return nil, err
	}
	var parser benchproc.ProjectionParser
	byCol, err := parser.Parse(col, filter)
	if err != nil {
		return nil, err
	}
	byRow, err := parser.Parse(".fullname", filter)
	if err != nil {
		return nil, err
	}
	type cell struct{ row, col string }
	var cells []cell
	runs := map[cell][]float64{}
	for in.Scan() {
		switch r := in.Result().(type) {
		case *benchfmt.Result:
			value, ok := r.Value(unit)
			if !ok {
				continue
			}
			c := cell{byRow.Project(r).StringValues(), byCol.Project(r).StringValues()}
			if runs[c] == nil {
				cells = append(cells, c)
			}
			runs[c] = append(runs[c], value)
		case *benchfmt.SyntaxError:
			return nil, r
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	var ratios []ratio
	for _, c := range cells {
		own, peer := runs[cell{c.row, base}], runs[c]
		if own == nil || c.col == base {
			continue
		}
		if len(own) != len(peer) {
			return nil, fmt.Errorf("%s: %d runs of %s and %d of %s make no pairs", c.row, len(own), base, len(peer), c.col)
		}
		r := ratio{row: c.row, peer: c.col}
		for i := range own {
			r.perRun = append(r.perRun, own[i]/peer[i])
		}
		ratios = append(ratios, r)
	}
	return ratios, nil
}

// write prints one line per ratio: median, least and greatest over the runs.
func write(w io.Writer, base string, ratios []ratio) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "row\t%s /\tmedian\tmin\tmax\truns\n", base)
	for _, r := range ratios {
		fmt.Fprintf(tw, "%s\t%s\t%.3f\t%.3f\t%.3f\t%d\n",
			r.row, r.peer, median(r.perRun), slices.Min(r.perRun), slices.Max(r.perRun), len(r.perRun))
	}
	return tw.Flush()
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}
