package main

import (
	"fmt"
	"math"

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

// curves is what the table says, by guard.
type curves struct {
	goodput, latency []plotter.XYs
	capacity         float64 // calls that the downstream can do in a second
	most             float64 // load
	longest          float64 // latency
}

// overload is the pictures of a service that is asked for more than it can do.
func overload(t *table.Table) ([]figure, error) {
	c, err := readCurves(t)
	if err != nil {
		return nil, err
	}
	goodput := c.figure(t, "goodput", "Goodput of an overloaded service: right answers in time, per second")
	goodput.plots = func(th theme) []*plot.Plot {
		p := c.plot(th, "goodput, per second", c.capacity*1.15, c.capacity/4)
		p.Add(bound{th, plotter.XYs{{X: 0, Y: 0}, {X: 1, Y: c.capacity}, {X: c.most, Y: c.capacity}}, "what can be done"})
		p.Add(lines{th, goodput.series, c.goodput})
		return []*plot.Plot{p}
	}
	latency := c.figure(t, "latency", "Latency of those served: 99 of 100 waited at most so long")
	latency.notes = append(latency.notes, "Where nobody was served, no point is drawn.")
	latency.plots = func(th theme) []*plot.Plot {
		p := c.plot(th, "p99 of the served, ms", c.longest*1.08+1, 100)
		p.Add(lines{th, latency.series, c.latency})
		return []*plot.Plot{p}
	}
	return []figure{goodput, latency}, nil
}

func readCurves(t *table.Table) (curves, error) {
	c := curves{goodput: make([]plotter.XYs, len(guards)), latency: make([]plotter.XYs, len(guards))}
	err := t.Each(func(r *table.Row) error {
		for i, g := range guards {
			if r.Text("guard") != g.guard {
				continue
			}
			load, p99 := r.Number("load"), r.Number("served_p99_ms")
			c.capacity, c.most = r.Number("offered_per_s")/load, max(c.most, load)
			c.goodput[i] = append(c.goodput[i], plotter.XY{X: load, Y: r.Number("goodput_per_s")})
			c.latency[i] = append(c.latency[i], plotter.XY{X: load, Y: p99})
			if !math.IsNaN(p99) {
				c.longest = max(c.longest, p99)
			}
			return positive(load, r.Number("offered_per_s"))
		}
		return fmt.Errorf("no series is called %q", r.Text("guard"))
	})
	return c, err
}

// figure returns what both pictures have in common, without a plot.
func (c curves) figure(t *table.Table, name, title string) figure {
	f := figure{name: name, title: title, width: 600, height: 340}
	for _, g := range guards {
		f.series = append(f.series, g.series)
	}
	f.notes = append(notes(t), "Downstream: "+t.Fact("downstream")+".", "Clients: "+t.Fact("clients")+".")
	return f
}

// plot returns a plot against the load, without lines. Its vertical axis ends at
// top and has a tick at each step.
func (c curves) plot(th theme, axis string, top, step float64) *plot.Plot {
	p := th.newPlot("")
	p.X.Min, p.X.Max = 0, c.most
	p.X.Tick.Marker = every{1, func(x float64) string { return fmt.Sprintf("%g×", x) }}
	p.X.Label.Text = "offered load, as a multiple of what the downstream can do"
	p.Y.Min, p.Y.Max = 0, top
	p.Y.Tick.Marker = every{step, func(x float64) string { return fmt.Sprintf("%g", x) }}
	p.Y.Label.Text = axis
	p.Add(grid{th})
	return p
}
