package main

import (
	"bytes"
	"fmt"
	"html"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// figure is a picture: a title, a key to the series, one or more plots side by
// side, and lines that say where the figures come from.
type figure struct {
	name          string // of its files
	title         string
	width, height vg.Length
	series        []series
	plots         func(theme) []*plot.Plot
	notes         []string
}

// series is what tells one line of a plot from the others: its name, its color
// and, for those who cannot tell colors, its dashes and the shape of its dots.
type series struct {
	name   string
	color  int
	dashes []vg.Length
	glyph  draw.GlyphDrawer
}

func (s series) line(th theme) draw.LineStyle {
	return draw.LineStyle{Color: th.series[s.color], Width: 1.75, Dashes: s.dashes}
}

func (s series) dot(th theme) draw.GlyphStyle {
	return draw.GlyphStyle{Color: th.series[s.color], Radius: 3, Shape: s.glyph}
}

// svg draws the figure. The same figure gives the same bytes.
func (f figure) svg(th theme) ([]byte, error) {
	canvas := vgsvg.New(f.width, f.height)
	c := draw.New(canvas)
	c.SetColor(th.background)
	c.Fill(c.Rectangle.Path())

	const margin = 12
	c = draw.Crop(c, margin, -margin, margin, -margin)
	c = f.heading(th, c)
	c = f.footing(th, c)
	plots := f.plots(th)
	each := (c.Max.X - c.Min.X) / vg.Length(len(plots))
	for i, p := range plots {
		left, right := vg.Length(i)*each, vg.Length(len(plots)-1-i)*each
		if i > 0 {
			left += 2 * margin
		}
		p.Draw(draw.Crop(c, left, -right, 0, 0))
	}

	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("drawing %s: %w", f.name, err)
	}
	return f.finish(out.Bytes()), nil
}

// finish gives the SVG a title, for those who listen to it, and names fonts of
// the same widths to those who do not have Liberation Sans, which are most.
func (f figure) finish(svg []byte) []byte {
	svg = bytes.Replace(svg, []byte("<g "), []byte("<title>"+html.EscapeString(f.title)+"</title>\n<g "), 1)
	return bytes.ReplaceAll(svg,
		[]byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arimo,Arial,Helvetica,sans-serif;"))
}

// heading draws the title and the key, and returns what is left below.
func (f figure) heading(th theme, c draw.Canvas) draw.Canvas {
	title := write(th.ink, 13, draw.XLeft, draw.YTop)
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, f.title)
	c.Max.Y -= 24

	const swatch, gap, line = 24, 5, 16
	name := write(th.ink, 10.5, draw.XLeft, draw.YCenter)
	at := vg.Point{X: c.Min.X, Y: c.Max.Y - line/2}
	for _, s := range f.series {
		needs := swatch + gap + width(name, s.name)
		if at.X > c.Min.X && at.X+needs > c.Max.X {
			at = vg.Point{X: c.Min.X, Y: at.Y - line}
		}
		c.StrokeLine2(s.line(th), at.X, at.Y, at.X+swatch, at.Y)
		if s.glyph != nil {
			c.DrawGlyphNoClip(s.dot(th), vg.Point{X: at.X + swatch/2, Y: at.Y})
		}
		c.FillText(name, vg.Point{X: at.X + swatch + gap, Y: at.Y}, s.name)
		at.X += needs + 8
	}
	if len(f.series) > 0 {
		c.Max.Y = at.Y - line/2 - 8
	}
	return c
}

// footing draws the notes, and returns what is left above.
func (f figure) footing(th theme, c draw.Canvas) draw.Canvas {
	note := write(th.muted, 8.5, draw.XLeft, draw.YBottom)
	var all []string
	for _, text := range f.notes {
		all = append(all, wrap(note, text, c.Max.X-c.Min.X)...)
	}
	for _, line := range slices.Backward(all) {
		c.FillText(note, c.Min, line)
		c.Min.Y += 12
	}
	c.Min.Y += 6
	return c
}

// width returns how wide the text may be. The fonts that come in for Liberation
// Sans are as wide, but the last resort of some systems is a fifth wider.
func width(sty text.Style, txt string) vg.Length { return 1.2 * sty.Width(txt) }

// wrap breaks a text into lines of at most that width.
func wrap(sty text.Style, txt string, most vg.Length) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(txt) {
		switch {
		case line == "":
			line = word
		case width(sty, line+" "+word) <= most:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
