package main

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// theme is the colors of a picture. Each picture is drawn in both themes, with a
// background of its own, so that either can be read wherever it comes to stand.
type theme struct {
	name       string
	background color.NRGBA
	ink        color.NRGBA // of text
	muted      color.NRGBA // of text that is less important
	grid       color.NRGBA
	series     [7]color.NRGBA
}

// The names of the colors of series, as indexes.
const (
	blue = iota
	green
	orange
	red
	purple
	pink
	gray
)

var themes = []theme{
	{
		name:       "light",
		background: rgb(0xffffff),
		ink:        rgb(0x1f2328),
		muted:      rgb(0x59636e),
		grid:       rgb(0xd8dee4),
		series: [7]color.NRGBA{
			blue: rgb(0x0969da), green: rgb(0x1a7f37), orange: rgb(0xbc4c00), red: rgb(0xcf222e),
			purple: rgb(0x8250df), pink: rgb(0xbf3989), gray: rgb(0x59636e),
		},
	},
	{
		name:       "dark",
		background: rgb(0x0d1117),
		ink:        rgb(0xe6edf3),
		muted:      rgb(0x9198a1),
		grid:       rgb(0x30363d),
		series: [7]color.NRGBA{
			blue: rgb(0x58a6ff), green: rgb(0x3fb950), orange: rgb(0xf0883e), red: rgb(0xff7b72),
			purple: rgb(0xbc8cff), pink: rgb(0xf778ba), gray: rgb(0x9198a1),
		},
	},
}

func rgb(hex uint32) color.NRGBA {
	return color.NRGBA{uint8(hex >> 16), uint8(hex >> 8), uint8(hex), 0xff}
}

// write returns the style of text of that size.
func write(c color.Color, size vg.Length, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{
		Color:   c,
		Font:    font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		XAlign:  x,
		YAlign:  y,
		Handler: text.Plain{Fonts: font.DefaultCache},
	}
}

// newPlot returns an empty plot in the colors of the theme.
func (th theme) newPlot(title string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.Title.Text = title
	p.Title.TextStyle = write(th.ink, 11, draw.XCenter, draw.YTop)
	p.Title.Padding = 6
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle = write(th.muted, 10, draw.XCenter, draw.YBottom)
		axis.Label.Padding = 4
		axis.Tick.Label = write(th.muted, 10, axis.Tick.Label.XAlign, axis.Tick.Label.YAlign)
		axis.Tick.LineStyle = draw.LineStyle{Color: th.muted, Width: 0.5}
		axis.Tick.Length = 4
		axis.LineStyle = draw.LineStyle{Color: th.muted, Width: 0.5}
		axis.Padding = 0
	}
	p.Y.Label.TextStyle.YAlign = draw.YBottom
	return p
}
