package main

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestQuantileIsOneOfTheNumbers(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, tc := range []struct {
		x    []float64
		q    float64
		want float64
	}{
		{hundred, 0.50, 50},
		{hundred, 0.99, 99},
		{hundred, 1, 100},
		{[]float64{3, 1, 2}, 0.50, 2},
		{[]float64{3, 1, 2}, 0.99, 3},
		{[]float64{7}, 0, 7},
	} {
		if got := quantile(tc.x, tc.q); got != tc.want {
			t.Errorf("quantile(%v, %v) = %v, want %v", tc.x, tc.q, got, tc.want)
		}
	}
	if got := quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("quantile of nothing = %v, want NaN", got)
	}
}

// answers are five in the window, which is from 10 to 20 ms, and some around it.
func answers() (load, []answer) {
	const ms = time.Millisecond
	return load{rate: 500, patience: 9 * ms, warmUp: 10 * ms, window: 10 * ms}, []answer{
		{due: 1 * ms, took: 4 * ms, kind: isServed},            // does not count
		{due: 9 * ms, took: 4 * ms, kind: isServed},            // due before the window, but goodput within
		{due: 10 * ms, took: 2 * ms, kind: isServed, late: 1},  // counts
		{due: 12 * ms, took: 1 * ms, kind: isRefused, late: 1}, // counts
		{due: 13 * ms, took: 6 * ms, kind: isServed, late: ms}, // counts
		{due: 14 * ms, took: 9 * ms, kind: gaveUp, late: 1},    // counts
		{due: 19 * ms, took: 5 * ms, kind: isServed},           // counts, but is no goodput of the window's
		{due: 20 * ms, took: 1 * ms, kind: failed, detail: "x"},
	}
}

func TestPointCountsWhatWasDueInTheWindow(t *testing.T) {
	l, all := answers()
	p := newPoint("none", l, all)
	p.service = figures{Downstream: downstreamLog{Highest: 3}, Peak: usage{Bytes: 2_500_000, Goroutines: 7}}
	p.cpu = 0.25
	if want := (map[kind]int{isServed: 3, isRefused: 1, gaveUp: 1}); !reflect.DeepEqual(p.counts, want) {
		t.Errorf("counts %v, want %v", p.counts, want)
	}
	want := map[string]any{
		"guard": "none", "load": 0.5, "offered_per_s": 500.0, "offered": 5, "served": 3, "refused": 1, "gave_up": 1, "failed": 0,
		"goodput_per_s": 300.0, "served_p50_ms": 5.0, "served_p99_ms": 6.0, "refused_p50_ms": 1.0, "refused_p99_ms": 1.0,
		"sent_late_p99_ms": 1.0, "highest_downstream": 3, "peak_MB": 2.5, "peak_goroutines": uint64(7), "cpu_share": 0.25,
	}
	cells := p.cells(1000)
	if len(cells) != len(columns) || len(columns) != len(want) {
		t.Fatalf("%d cells for %d columns, want %d", len(cells), len(columns), len(want))
	}
	for i, column := range columns {
		if cells[i] != want[column] {
			t.Errorf("%s: %v, want %v", column, cells[i], want[column])
		}
	}
}

func TestVerdictDoubtsWhatCannotBe(t *testing.T) {
	s := full() // at most 400 a second
	good := func() point {
		return point{
			guard:   "bulkhead-0s",
			load:    load{rate: 80, window: time.Second},
			counts:  map[kind]int{isServed: 80},
			goodput: 80,
			service: figures{Downstream: downstreamLog{Highest: 20}},
		}
	}
	if err := s.verdict([]point{good(), good()}); err != nil {
		t.Errorf("doubts where there should be none: %v", err)
	}
	for want, change := range map[string]func(p *point){
		"3 requests failed: boom":      func(p *point) { p.load.rate, p.counts[failed], p.failure = 500, 3, "boom" },
		"no request was offered":       func(p *point) { p.counts = nil },
		"79 of 80 requests were":       func(p *point) { p.counts[isServed], p.counts[isRefused] = 79, 1 },
		"goodput of 421/s is above":    func(p *point) { p.load.rate, p.goodput = 500, 421 },
		"downstream saw 21 calls":      func(p *point) { p.service.Downstream.Highest = 21 },
		"processors were in use":       func(p *point) { p.cpu = 0.8 },
		"requests were sent up to 5.1": func(p *point) { p.lateness = 5.1 },
	} {
		p := good()
		change(&p)
		err := s.verdict([]point{good(), p})
		if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("doubts %v, want one with %q", err, want)
		}
	}
	unguarded := good()
	unguarded.guard, unguarded.service.Downstream.Highest = "none", 500
	if err := s.verdict([]point{unguarded}); err != nil {
		t.Errorf("doubts whether calls that nothing holds back can be many: %v", err)
	}
}
