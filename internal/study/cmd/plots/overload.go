package main

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"github.com/turnstile-go/turnstile/internal/study/table"
)

// guards are the series of the table that cmd/overload makes.
var guards = []struct {
	guard  string
	series series
}{
	{"none", series{name: "no guard", color: red, dashes: dotted, glyph: draw.CrossGlyph{}}},
	{"semaphore", series{name: "x/sync semaphore, unbounded wait", color: orange, dashes: dashed, glyph: draw.PyramidGlyph{}}},
	{"bulkhead-0s", series{name: "bulkhead, MaxWait 0", color: green, glyph: draw.BoxGlyph{}}},
	{"bulkhead-20ms", series{name: "bulkhead, MaxWait 20 ms", color: blue, glyph: draw.CircleGlyph{}}},
	{"bulkhead-100ms", series{name: "bulkhead, MaxWait 100 ms", color: purple, glyph: draw.RingGlyph{}}},
}

// overload is the pictures of a service that is asked for more than it can do.
func overload(t *table.Table) ([]figure, error) {
	var all []series
	for _, g := range guards {
		all = append(all, g.series)
	}
	goodput := make([]plotter.XYs, len(guards))
	latency := make([]plotter.XYs, len(guards))
	var capacity, most float64
	err := t.Each(func(r *table.Row) error {
		for i, g := range guards {
			if r.Text("guard") != g.guard {
				continue
			}
			load := r.Number("load")
			capacity, most = r.Number("offered_per_s")/load, max(most, load)
			goodput[i] = append(goodput[i], plotter.XY{X: load, Y: r.Number("goodput_per_s")})
			latency[i] = append(latency[i], plotter.XY{X: load, Y: r.Number("served_p99_ms")})
			return positive(load, r.Number("offered_per_s"))
		}
		return fmt.Errorf("no series is called %q", r.Text("guard"))
	})
	if err != nil {
		return nil, err
	}
	times := func(x float64) string { return fmt.Sprintf("%g×", x) }
	about := append(notes(t), "Downstream: "+t.Fact("downstream")+".", "Clients: "+t.Fact("clients")+".")
	draft := func(name, title, axis string, points []plotter.XYs, step, top float64, more ...func(theme) plot.Plotter) figure {
		return figure{
			name: name, title: title, width: 600, height: 340, series: all, notes: about,
			plots: func(th theme) []*plot.Plot {
				p := th.newPlot("")
				p.X.Min, p.X.Max = 0, most
				p.X.Tick.Marker = every{1, times}
				p.X.Label.Text = "offered load, as a multiple of what the downstream can do"
				p.Y.Min, p.Y.Max = 0, top
				p.Y.Tick.Marker = every{step, func(x float64) string { return fmt.Sprintf("%g", x) }}
				p.Y.Label.Text = axis
				p.Add(grid{th})
				for _, m := range more {
					p.Add(m(th))
				}
				p.Add(lines{th, all, points})
				return []*plot.Plot{p}
			},
		}
	}
	possible := func(th theme) plot.Plotter {
		return bound{th, plotter.XYs{{X: 0, Y: 0}, {X: 1, Y: capacity}, {X: most, Y: capacity}}, "what can be done"}
	}
	longest := 0.0
	for _, xys := range latency {
		for _, xy := range xys {
			if !math.IsNaN(xy.Y) {
				longest = max(longest, xy.Y)
			}
		}
	}
	answers := draft("goodput", "Goodput of an overloaded service: right answers in time, per second",
		"goodput, per second", goodput, capacity/4, capacity*1.15, possible)
	waits := draft("latency", "Latency of those served: 99 of 100 waited at most so long",
		"p99 of the served, ms", latency, 100, longest*1.08+1)
	waits.notes = append(slices.Clip(about), "There is no point where nobody was served.")
	return []figure{answers, waits}, nil
}
