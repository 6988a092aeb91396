package main

import (
	"image/color"
	"math"
	"testing"
)

// What the Web Content Accessibility Guidelines 2.2 ask for at level AA: 4.5 for
// text, 3 for what else one must see. Names and figures stand in ink and muted.
func TestInkStandsOutFromItsBackground(t *testing.T) {
	for _, th := range themes {
		for name, c := range map[string]color.NRGBA{"ink": th.ink, "muted": th.muted} {
			if got := contrast(c, th.background); got < 4.5 {
				t.Errorf("%s: the contrast of %s is %.2f, want at least 4.5", th.name, name, got)
			}
		}
		for i, c := range th.series {
			if got := contrast(c, th.background); got < 3 {
				t.Errorf("%s: the contrast of color %d is %.2f, want at least 3", th.name, i, got)
			}
		}
	}
	if got := contrast(rgb(0xffffff), rgb(0)); got != 21 {
		t.Errorf("the contrast of white and black is %v, want 21", got)
	}
}

// contrast returns the ratio that the guidelines define.
func contrast(a, b color.NRGBA) float64 {
	x, y := luminance(a)+0.05, luminance(b)+0.05
	return math.Max(x, y) / math.Min(x, y)
}

func luminance(c color.NRGBA) float64 {
	linear := func(channel uint8) float64 {
		x := float64(channel) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.R) + 0.7152*linear(c.G) + 0.0722*linear(c.B)
}
