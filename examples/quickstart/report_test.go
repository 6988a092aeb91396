package main

import (
	"testing"
	"time"
)

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1)*time.Millisecond)
	}
	for _, tc := range []struct {
		reason string
		sorted []time.Duration
		q      float64
		want   string
	}{
		{"nothing", nil, 0.5, "-"},
		{"one value", hundred[:1], 0.99, "1.0 ms"},
		{"the middle of three", hundred[:3], 0.5, "2.0 ms"},
		{"the lower middle of four", hundred[:4], 0.5, "2.0 ms"},
		{"half of a hundred", hundred, 0.5, "50 ms"},
		{"all but one of a hundred", hundred, 0.99, "99 ms"},
		{"below a millisecond", []time.Duration{640 * time.Microsecond}, 0.5, "0.6 ms"},
	} {
		if got := quantile(tc.sorted, tc.q); got != tc.want {
			t.Errorf("%s: quantile(%v) = %q, want %q", tc.reason, tc.q, got, tc.want)
		}
	}
}
