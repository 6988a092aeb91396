package main

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// lines is a plotter of series, each a line with a dot at every point. A point
// whose Y is NaN is not there, and interrupts its line.
type lines struct {
	theme  theme
	series []series
	points []plotter.XYs // of each
}

// Plot implements plot.Plotter.
func (l lines) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for i, s := range l.series {
		var stretch []vg.Point
		end := func() {
			c.StrokeLines(s.line(l.theme), c.ClipLinesXY(stretch)...)
			for _, at := range stretch {
				c.DrawGlyphNoClip(s.dot(l.theme), at)
			}
			stretch = nil
		}
		for _, xy := range l.points[i] {
			if math.IsNaN(xy.Y) {
				end()
				continue
			}
			stretch = append(stretch, vg.Point{X: x(xy.X), Y: y(xy.Y)})
		}
		end()
	}
}

// grid draws a line across the plot at each labeled tick of both axes.
type grid struct{ theme theme }

// Plot implements plot.Plotter.
func (g grid) Plot(c draw.Canvas, p *plot.Plot) {
	sty := draw.LineStyle{Color: g.theme.grid, Width: 0.5}
	x, y := p.Transforms(&c)
	for _, tick := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if !tick.IsMinor() && c.ContainsX(x(tick.Value)) {
			c.StrokeLine2(sty, x(tick.Value), c.Min.Y, x(tick.Value), c.Max.Y)
		}
	}
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if !tick.IsMinor() && c.ContainsY(y(tick.Value)) {
			c.StrokeLine2(sty, c.Min.X, y(tick.Value), c.Max.X, y(tick.Value))
		}
	}
}

// bound draws a broad line that is no series, such as what would be possible,
// with a word above its end.
type bound struct {
	theme  theme
	points plotter.XYs
	word   string
}

// Plot implements plot.Plotter.
func (b bound) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var at []vg.Point
	for _, xy := range b.points {
		at = append(at, vg.Point{X: x(xy.X), Y: y(xy.Y)})
	}
	c.StrokeLines(draw.LineStyle{Color: b.theme.grid, Width: 6}, c.ClipLinesXY(at)...)
	end := at[len(at)-1]
	c.FillText(write(b.theme.muted, 9.5, draw.XRight, draw.YBottom), vg.Point{X: end.X, Y: end.Y + 5}, b.word)
}

// decades are ticks on a logarithmic axis: labeled at powers of ten.
type decades struct{ label func(x float64) string }

// Ticks implements plot.Ticker.
func (d decades) Ticks(least, greatest float64) []plot.Tick {
	var ticks []plot.Tick
	for power := math.Floor(math.Log10(least)); ; power++ {
		for digit := 1.0; digit < 10; digit++ {
			x := digit * math.Pow(10, power)
			switch {
			case x > greatest*(1+1e-9):
				return ticks
			case x < least*(1-1e-9):
			case digit == 1:
				ticks = append(ticks, plot.Tick{Value: x, Label: d.label(x)})
			default:
				ticks = append(ticks, plot.Tick{Value: x})
			}
		}
	}
}

// every are ticks at the multiples of a number.
type every struct {
	step  float64
	label func(x float64) string
}

// Ticks implements plot.Ticker.
func (e every) Ticks(least, greatest float64) []plot.Tick {
	var ticks []plot.Tick
	for n := int(math.Ceil(least/e.step - 1e-9)); float64(n)*e.step <= greatest*(1+1e-9); n++ {
		x := float64(n) * e.step
		ticks = append(ticks, plot.Tick{Value: x, Label: e.label(x)})
	}
	return ticks
}
