package main

import (
	"slices"
	"testing"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

func TestDotsSpanTheirRange(t *testing.T) {
	one := series{name: "one", glyph: draw.CircleGlyph{}}
	d := dots{theme: themes[0], groups: []group{
		{title: "first", rows: []row{{series: one, least: 2, mid: 3, most: 5}, {series: one, least: 1, mid: 1, most: 1}}},
		{title: "second", rows: []row{{series: one, least: 4, mid: 6, most: 9}}},
	}}
	if got := d.lines(); got != 6 {
		t.Errorf("%d lines, want 6: two titles, three rows, and one between", got)
	}
	// Of the six lines, from the bottom up, rows are on 1, 4 and 5. Each begins
	// with a line of the grid.
	want := [][]vg.Point{
		{{X: 0, Y: 50}, {X: 20, Y: 50}}, {{X: 20, Y: 50}, {X: 50, Y: 50}},
		{{X: 0, Y: 40}, {X: 10, Y: 40}}, {{X: 10, Y: 40}, {X: 10, Y: 40}},
		{{X: 0, Y: 10}, {X: 40, Y: 10}}, {{X: 40, Y: 10}, {X: 90, Y: 10}},
	}
	if got := strokes(t, d); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("drew %v, want %v", got, want)
	}
}
