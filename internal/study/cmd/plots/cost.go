package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/turnstile-go/turnstile/internal/study/table"
)

// contenders are those whose cost is drawn, by their names in the benchmarks.
var contenders = []struct {
	impl   string
	series series
	module string // whose version the data tell
}{
	{"turnstile", series{name: "turnstile", color: blue, glyph: draw.CircleGlyph{}}, ""},
	{"xsync", series{name: "x/sync", color: orange, glyph: draw.BoxGlyph{}}, "golang.org/x/sync"},
	{"crlib", series{name: "crlib/fifo", color: purple, glyph: draw.PyramidGlyph{}}, "github.com/cockroachdb/crlib"},
	{"marusama", series{name: "marusama", color: pink, glyph: draw.CrossGlyph{}}, "github.com/marusama/semaphore/v2"},
	{"failsafe", series{name: "failsafe-go", color: red, glyph: draw.PyramidGlyph{}}, "github.com/failsafe-go/failsafe-go"},
	{"channel", series{name: "channel", color: green, glyph: draw.BoxGlyph{}}, ""},
	{"floor", series{name: "floor (two bare CAS)", color: gray, glyph: draw.RingGlyph{}}, ""},
}

// rows are the benchmarks whose cost is drawn.
var rows = []struct{ bench, title string }{
	{"AcquireRelease", "Acquire and release, permits free"},
	{"Parallel/free=1", "The same, on all processors at once"},
	{"RejectFull", "Try to acquire, nothing free"},
	{"Waiting/workers=1024/ctx=own", "Wait in line and be served, 1024 goroutines for 4 permits"},
	{"Expire", "Wait in line and give up after 10 µs, 1024 goroutines"},
	{"Execute", "Guard a function, permits free"},
	{"ExecuteReject", "Refuse a function, nothing free"},
}

// costColumns are those of the table that cost draws.
var costColumns = []string{"bench", "impl", "ns_per_op", "least", "greatest", "allocs_per_op", "runs"}

// cost is the picture of what a call costs with each contender.
func cost(t *table.Table) ([]figure, error) {
	groups, err := readGroups(t)
	if err != nil {
		return nil, err
	}
	lines := dots{groups: groups}.lines()
	return []figure{{
		name:   "cost",
		title:  "Time per call",
		width:  600,
		height: 110 + 14*vg.Length(lines),
		notes:  append(notes(t), "Dot: median of the runs; line: fastest to slowest run. Logarithmic axis. Allocations per call where there are any."),
		plots: func(th theme) []*plot.Plot {
			p := th.newPlot("")
			p.X.Scale = plot.LogScale{}
			for _, g := range groups {
				for _, r := range g.rows {
					p.X.Min, p.X.Max = min(p.X.Min, r.least/1.6), max(p.X.Max, r.most*60) // with room for text
				}
			}
			p.X.Tick.Marker = decades{duration}
			p.Y.Min, p.Y.Max = 0.3, float64(lines)+0.7
			p.HideY()
			p.Add(grid{th}, dots{th, groups})
			return []*plot.Plot{p}
		},
	}}, nil
}

// readGroups returns a group for each benchmark that is there, the fastest
// contender first.
func readGroups(t *table.Table) ([]group, error) {
	found := map[[2]string]row{} // by benchmark and contender
	err := t.Each(func(r *table.Row) error {
		c := row{mid: r.Number("ns_per_op"), least: r.Number("least"), most: r.Number("greatest")}
		c.text = costText(c.mid, r.Number("allocs_per_op"))
		found[[2]string{r.Text("bench"), r.Text("impl")}] = c
		return positive(c.mid, c.least, c.most)
	})
	if err != nil {
		return nil, err
	}
	var groups []group
	for _, bench := range rows {
		g := group{title: bench.title}
		for i, c := range contenders {
			if r, ok := found[[2]string{bench.bench, c.impl}]; ok {
				r.series, r.emphatic = c.series, i == 0
				g.rows = append(g.rows, r)
			}
		}
		slices.SortStableFunc(g.rows, func(a, b row) int { return cmp.Compare(a.mid, b.mid) })
		if len(g.rows) > 0 {
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 {
		return nil, fmt.Errorf("none of the benchmarks that are drawn is there")
	}
	return groups, nil
}

// costText is what stands beside a dot.
func costText(ns, allocs float64) string {
	text := duration(ns)
	switch n := math.Round(allocs); {
	case n == 1:
		text += ", 1 alloc"
	case n > 1:
		text += fmt.Sprintf(", %.0f allocs", n)
	}
	return text
}

// duration writes nanoseconds with three digits at most.
func duration(ns float64) string {
	for _, unit := range []string{"ns", "µs", "ms"} {
		if ns < 999.5 {
			return fmt.Sprintf("%.3g %s", ns, unit)
		}
		ns /= 1000
	}
	return fmt.Sprintf("%.3g s", ns)
}
