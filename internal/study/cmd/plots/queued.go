package main

import (
	"fmt"
	"math"

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
	all := make([]series, len(waysToQueue))
	memory := make([]plotter.XYs, len(waysToQueue))
	drain := make([]plotter.XYs, len(waysToQueue))
	for i, way := range waysToQueue {
		all[i] = way.series
	}
	least, most := math.Inf(1), 0.0
	err := t.Each(func(r *table.Row) error {
		for i, way := range waysToQueue {
			if r.Text("how") != way.how {
				continue
			}
			calls := r.Number("calls")
			least, most = min(least, calls), max(most, calls)
			memory[i] = append(memory[i], plotter.XY{X: calls, Y: r.Number("bytes_per_call")})
			drain[i] = append(drain[i], plotter.XY{X: calls, Y: r.Number("drain_ns_per_call")})
			return positive(calls, r.Number("bytes_per_call"), r.Number("drain_ns_per_call"))
		}
		return fmt.Errorf("no series is called %q", r.Text("how"))
	})
	if err != nil {
		return nil, err
	}
	return []figure{{
		name:   "queued",
		title:  "What a call costs that waits in the queue",
		width:  600,
		height: 300,
		series: all,
		notes:  append(notes(t), "Logarithmic axes. Each figure: "+t.Fact("runs")+"."),
		plots: func(th theme) []*plot.Plot {
			panel := func(title string, points []plotter.XYs, label func(float64) string) *plot.Plot {
				p := th.newPlot(title)
				p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
				p.X.Min, p.X.Max = least/1.25, most*1.25
				p.X.Tick.Marker = decades{count}
				p.X.Label.Text = "calls in the queue"
				p.Y.Min, p.Y.Max = 10, 10_000
				for _, xys := range points {
					for _, xy := range xys {
						p.Y.Min, p.Y.Max = min(p.Y.Min, xy.Y), max(p.Y.Max, xy.Y*1.2)
					}
				}
				p.Y.Tick.Marker = decades{label}
				p.Add(grid{th}, lines{th, all, points})
				return p
			}
			return []*plot.Plot{
				panel("memory per waiting call", memory, func(x float64) string { return count(x) + " B" }),
				panel("time per call to serve them all", drain, duration),
			}
		},
	}}, nil
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
