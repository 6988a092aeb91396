package main

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/turnstile-go/turnstile/internal/study/table"
)

// waysToQueue are the series of the table that cmd/queued makes.
var waysToQueue = []struct {
	how    string
	series series
}{
	{"AcquireAsync", series{name: "AcquireAsync", color: blue, glyph: draw.CircleGlyph{}}},
	{"ExecuteAsync", series{name: "ExecuteAsync", color: green, glyph: draw.BoxGlyph{}}},
	{"goroutine", series{name: "goroutine parked in Acquire", color: purple, dashes: dashed, glyph: draw.PyramidGlyph{}}},
	{"xsync-goroutine", series{name: "goroutine parked in x/sync", color: orange, dashes: dotted, glyph: draw.CrossGlyph{}}},
}

var (
	dashed = []vg.Length{7, 3}
	dotted = []vg.Length{2, 2.5}
)

// queued is the picture of what a call costs that waits.
func queued(t *table.Table) ([]figure, error) {
	f := figure{
		name:   "queued",
		title:  "What a call costs that waits in the queue",
		width:  600,
		height: 300,
		notes:  append(notes(t), "Logarithmic axes. Each figure: "+t.Fact("runs")+"."),
	}
	for _, way := range waysToQueue {
		f.series = append(f.series, way.series)
	}
	memory, err := perCall(t, "bytes_per_call")
	if err != nil {
		return nil, err
	}
	drain, err := perCall(t, "drain_ns_per_call")
	if err != nil {
		return nil, err
	}
	f.plots = func(th theme) []*plot.Plot {
		bytes := func(x float64) string { return count(x) + " B" }
		return []*plot.Plot{
			f.bySize(th, "memory per waiting call", memory, bytes),
			f.bySize(th, "time per call to serve them all", drain, duration),
		}
	}
	return []figure{f}, nil
}

// perCall returns a column against the number of calls, for each way to queue.
func perCall(t *table.Table, column string) ([]plotter.XYs, error) {
	points := make([]plotter.XYs, len(waysToQueue))
	err := t.Each(func(r *table.Row) error {
		for i, way := range waysToQueue {
			if r.Text("how") == way.how {
				xy := plotter.XY{X: r.Number("calls"), Y: r.Number(column)}
				points[i] = append(points[i], xy)
				return positive(xy.X, xy.Y)
			}
		}
		return fmt.Errorf("no series is called %q", r.Text("how"))
	})
	return points, err
}

// bySize returns a plot of the points, whose vertical axis has such labels and at
// least three decades, so that a small difference does not look like a large one.
func (f figure) bySize(th theme, title string, points []plotter.XYs, label func(float64) string) *plot.Plot {
	p := th.newPlot(title)
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Y.Min, p.Y.Max = 10, 10_000
	for _, xys := range points {
		for _, xy := range xys {
			p.X.Min, p.X.Max = min(p.X.Min, xy.X/1.25), max(p.X.Max, xy.X*1.25)
			p.Y.Min, p.Y.Max = min(p.Y.Min, xy.Y/1.2), max(p.Y.Max, xy.Y*1.2)
		}
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = decades{count}, decades{label}
	p.X.Label.Text = "calls in the queue"
	p.Add(grid{th}, lines{th, f.series, points})
	return p
}

// count writes how many in few characters: 100k.
func count(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%gM", x/1e6)
	case x >= 10e3:
		return fmt.Sprintf("%gk", x/1e3)
	}
	return fmt.Sprintf("%g", x)
}

// positive returns an error unless all are, as a logarithmic axis needs them.
func positive(all ...float64) error {
	for _, x := range all {
		if !(x > 0) {
			return fmt.Errorf("%v is not above 0", x)
		}
	}
	return nil
}
