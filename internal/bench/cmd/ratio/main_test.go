package main

import (
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

// Three runs on a machine that was four times slower in the second: the medians
// of the columns, 20 and 45, would give 0.444.
const threeRuns = `
pkg: example.org/x
BenchmarkWait/workers=16/impl=ours-2   	100	10 ns/op	0 B/op
BenchmarkWait/workers=16/impl=peer-2   	100	20 ns/op	8 B/op
BenchmarkWait/workers=16/impl=slow-2   	100	100 ns/op
BenchmarkAlone/impl=peer-2   	100	7 ns/op
pkg: example.org/x
BenchmarkWait/workers=16/impl=peer-2   	100	80 ns/op	8 B/op
BenchmarkWait/workers=16/impl=slow-2   	100	400 ns/op
BenchmarkWait/workers=16/impl=ours-2   	100	40 ns/op	0 B/op
BenchmarkAlone/impl=peer-2   	100	7 ns/op
pkg: example.org/x
BenchmarkWait/workers=16/impl=slow-2   	100	100 ns/op
BenchmarkWait/workers=16/impl=ours-2   	100	20 ns/op	0 B/op
BenchmarkWait/workers=16/impl=peer-2   	100	45 ns/op	8 B/op
BenchmarkAlone/impl=peer-2   	100	7 ns/op
`

const twoNames = `
BenchmarkTimed/impl=ours-2   	100	12 ns/op
BenchmarkWait/impl=ours-2   	100	10 ns/op
BenchmarkTimed/impl=ours-2   	100	24 ns/op
BenchmarkWait/impl=ours-2   	100	10 ns/op
`

func table(t *testing.T, in, col, base, unit string) string {
	t.Helper()
	ratios, err := compare(benchfmt.NewReader(strings.NewReader(in), "in"), col, base, unit)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := write(&out, base, ratios); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

func TestRatio(t *testing.T) {
	tests := []struct {
		reason          string
		in              string
		col, base, unit string
		want            string
	}{
		{
			reason: "pairs are made within a run, in whatever order its results stand; a row without base has none",
			in:     threeRuns, col: "/impl", base: "ours", unit: "sec/op",
			want: "row ours / median min max runs" +
				" Wait/workers=16-2 peer 0.500 0.444 0.500 3" +
				" Wait/workers=16-2 slow 0.100 0.100 0.200 3",
		},
		{
			reason: "a result without the unit has no part in it",
			in:     threeRuns, col: "/impl", base: "ours", unit: "B/op",
			want: "row ours / median min max runs Wait/workers=16-2 peer 0.000 0.000 0.000 3",
		},
		{
			reason: "the median of an even number of runs lies between the middle two; names can be columns",
			in:     twoNames, col: ".name", base: "Timed", unit: "sec/op",
			want: "row Timed / median min max runs */impl=ours-2 Wait 1.800 1.200 2.400 2",
		},
	}
	for _, tt := range tests {
		if got := table(t, tt.in, tt.col, tt.base, tt.unit); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.reason, got, tt.want)
		}
	}
}

func TestRatioRefuses(t *testing.T) {
	tests := []struct {
		reason, in, col, want string
	}{
		{
			reason: "a run that broke off leaves results without a partner",
			in:     threeRuns + "BenchmarkWait/workers=16/impl=ours-2 100 10 ns/op\n",
			col:    "/impl",
			want:   "4 runs of ours and 3 of peer",
		},
		{
			reason: "a line that is no result would shift the pairs",
			in:     "BenchmarkWait/impl=ours-2 100 ten ns/op\n",
			col:    "/impl",
			want:   "in:1",
		},
		{
			reason: "a key that is none",
			col:    "/impl@",
			want:   "/impl@",
		},
	}
	for _, tt := range tests {
		_, err := compare(benchfmt.NewReader(strings.NewReader(tt.in), "in"), tt.col, "ours", "sec/op")
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want one with %q", tt.reason, err, tt.want)
		}
	}
}
