package main

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// strokes returns the lines that a plotter draws on a canvas of 100 by 100 whose
// axes go from 0 to 10.
func strokes(t *testing.T, p plot.Plotter) [][]vg.Point {
	t.Helper()
	var r recorder.Canvas
	axes := plot.New()
	axes.X.Max, axes.X.Min, axes.Y.Min, axes.Y.Max = 10, 0, 0, 10
	p.Plot(draw.NewCanvas(&r, 100, 100), axes)
	var all [][]vg.Point
	for _, action := range r.Actions {
		stroke, ok := action.(*recorder.Stroke)
		if !ok {
			continue
		}
		var points []vg.Point
		for _, c := range stroke.Path {
			points = append(points, c.Pos)
		}
		all = append(all, points)
	}
	return all
}

func TestLinesGoThroughTheirPoints(t *testing.T) {
	p := lines{
		theme:  themes[0],
		series: []series{{glyph: draw.CircleGlyph{}}, {glyph: draw.CircleGlyph{}}},
		points: []plotter.XYs{
			{{X: 0, Y: 0}, {X: 1, Y: 5}, {X: 2, Y: math.NaN()}, {X: 5, Y: 10}, {X: 10, Y: 2.5}},
			{{X: 0, Y: 7}, {X: 10, Y: 7}},
		},
	}
	want := [][]vg.Point{
		{{X: 0, Y: 0}, {X: 10, Y: 50}}, // and nothing where there is no figure
		{{X: 50, Y: 100}, {X: 100, Y: 25}},
		{{X: 0, Y: 70}, {X: 100, Y: 70}},
	}
	if got := strokes(t, p); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("drew %v, want %v", got, want)
	}
}

func TestTicks(t *testing.T) {
	label := func(x float64) string { return fmt.Sprint(x) }
	for _, tc := range []struct {
		ticker          plot.Ticker
		least, greatest float64
		want            string // labeled in <>
	}{
		{every{2, label}, 0, 5, "<0> <2> <4>"},
		{every{0.1, label}, 0.2, 0.4, "<0.2> <0.30000000000000004> <0.4>"},
		{decades{label}, 10, 100, "<10> 20 30 40 50 60 70 80 90 <100>"},
		{decades{label}, 8, 25, "8 9 <10> 20"},
	} {
		got := ""
		for _, tick := range tc.ticker.Ticks(tc.least, tc.greatest) {
			if tick.IsMinor() {
				got += fmt.Sprintf(" %v", tick.Value)
			} else {
				got += " <" + tick.Label + ">"
			}
		}
		if got != " "+tc.want {
			t.Errorf("ticks%v, want %s", got, tc.want)
		}
	}
}

func TestFiguresAreWrittenShort(t *testing.T) {
	for want, got := range map[string]string{
		"0.77 ns":          duration(0.77),
		"14.2 ns":          duration(14.15),
		"999 ns":           duration(999.4),
		"1 µs":             duration(999.6),
		"12.3 ms":          duration(12.34e6),
		"2 s":              duration(2e9),
		"100":              count(100),
		"10k":              count(10_000),
		"1M":               count(1e6),
		"21 ns":            costText(21, 0.2),
		"21 ns, 1 alloc":   costText(21, 1),
		"21 ns, 13 allocs": costText(21, 13),
	} {
		if got != want {
			t.Errorf("wrote %q, want %q", got, want)
		}
	}
}

func TestWrapKeepsWithinTheWidth(t *testing.T) {
	sty := write(themes[0].ink, 10, draw.XLeft, draw.YBottom)
	most := width(sty, "one two")
	got := wrap(sty, "one two three-is-long  four", most)
	if want := []string{"one two", "three-is-long", "four"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}
