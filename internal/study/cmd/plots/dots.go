package main

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// dots is a plotter of groups of figures, each in a line of its own: a dot at the
// median, on a line from the least to the greatest, with its name and the figure
// beside it, to the right, where text in a wider font does no harm.
// Bars would not do on a logarithmic axis, which has no zero for them to stand on.
type dots struct {
	theme  theme
	groups []group
}

// group is figures that can be compared.
type group struct {
	title string
	rows  []row
}

type row struct {
	series           // whose it is
	least, mid, most float64
	text             string // for mid
	emphatic         bool
}

// lines returns how many lines the groups take: a title and the rows of each, and
// one that is empty between two.
func (d dots) lines() int {
	n := len(d.groups) - 1
	for _, g := range d.groups {
		n += 1 + len(g.rows)
	}
	return n
}

// each calls f with every group's title and every row, and the y of its line, from
// the top down. Exactly one of title and r is there.
func (d dots) each(f func(y float64, title string, r *row)) {
	y := float64(d.lines())
	for _, g := range d.groups {
		f(y, g.title, nil)
		y--
		for i := range g.rows {
			f(y, "", &g.rows[i])
			y--
		}
		y--
	}
}

// Plot implements plot.Plotter.
func (d dots) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	d.each(func(at float64, title string, r *row) {
		if r == nil {
			c.FillText(write(d.theme.ink, 10.5, draw.XLeft, draw.YCenter), vg.Point{X: c.Min.X + 4, Y: y(at)}, title)
			return
		}
		color := d.theme.series[r.color]
		c.StrokeLine2(draw.LineStyle{Color: d.theme.grid, Width: 0.5}, c.Min.X, y(at), x(r.least), y(at))
		c.StrokeLine2(draw.LineStyle{Color: color, Width: 1.5}, x(r.least), y(at), x(r.most), y(at))
		c.DrawGlyphNoClip(r.dot(d.theme), vg.Point{X: x(r.mid), Y: y(at)})
		ink := d.theme.muted
		if r.emphatic {
			ink = d.theme.ink
		}
		c.FillText(write(ink, 9.5, draw.XLeft, draw.YCenter), vg.Point{X: x(r.most) + 8, Y: y(at)}, r.name+": "+r.text)
	})
}
