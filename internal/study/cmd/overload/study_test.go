package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// simulate measures one point as study.measure does, but in fake time and within
// this process. So the figures are what the model says, whatever else the machine
// has to do.
func simulate(t *testing.T, guardName string, relative float64) point {
	var p point
	synctest.Test(t, func(t *testing.T) {
		s := full()
		guard, err := newGuard(guardName, s.capacity)
		if err != nil {
			t.Fatal(err)
		}
		srv := &service{guard, &downstream{capacity: s.capacity, service: s.service}, &meter{}}
		client := connect(t, srv.handler().ServeHTTP)
		l := s.load
		l.rate = relative * s.perSecond()
		l.warmUp, l.window = 700*time.Millisecond, 500*time.Millisecond
		p = newPoint(guardName, l, l.send(t.Context(), client, "http://service/"))
		p.service.Downstream = srv.down.log()

		due := 0
		for _, at := range l.arrivals() {
			if at >= l.warmUp && at < l.warmUp+l.window {
				due++
			}
		}
		if p.offered() != due {
			t.Errorf("%d requests are accounted for, want %d", p.offered(), due)
		}
		if err := s.verdict([]point{p}); err != nil {
			t.Errorf("doubts: %v", err)
		}
	})
	return p
}

func TestEverybodyIsServedFarBelowTheCapacity(t *testing.T) {
	for _, guard := range guards {
		p := simulate(t, guard, 0.2)
		if got := p.counts[isServed]; got != p.offered() {
			t.Errorf("%s: %d of %d served, want all", guard, got, p.offered())
		}
		if want := [2]float64{50, 50}; p.latency != want {
			t.Errorf("%s: p50 and p99 of %v ms, want %v", guard, p.latency, want)
		}
	}
}

func TestOverloadedServiceWithoutABoundServesAlmostNobody(t *testing.T) {
	for _, tc := range []struct {
		guard    string
		relative float64
		most     int // of 400 that could be
		highest  int // that the downstream sees
	}{
		// All share, so all are late.
		{"none", 2, 0, 400},
		// A permit comes when hardly any patience is left.
		{"semaphore", 2, 80, 20},
		{"semaphore", 4, 80, 20},
		{"bulkhead-forever", 2, 80, 20}, // what helps is the bound
	} {
		p := simulate(t, tc.guard, tc.relative)
		if got := p.counts[isServed]; got > tc.most {
			t.Errorf("%s at %g: %d served, want at most %d", tc.guard, tc.relative, got, tc.most)
		}
		if p.counts[isRefused] != 0 {
			t.Errorf("%s at %g: %d refused, want none", tc.guard, tc.relative, p.counts[isRefused])
		}
		if got := p.service.Downstream.Highest; got > tc.highest*11/10 || got < tc.highest*9/10 {
			t.Errorf("%s at %g: %d calls at once downstream, want about %d", tc.guard, tc.relative, got, tc.highest)
		}
	}
}

func TestOverloadedServiceWithABulkheadKeepsItsGoodput(t *testing.T) {
	for _, tc := range []struct {
		guard    string
		relative float64
		maxWait  float64 // ms
		least    int     // of 400 that could be
	}{
		{"bulkhead-0s", 2, 0, 350}, // idle at times, when nobody comes for a moment
		{"bulkhead-20ms", 2, 20, 395},
		{"bulkhead-20ms", 5, 20, 395},
		{"bulkhead-100ms", 2, 100, 395},
	} {
		p := simulate(t, tc.guard, tc.relative)
		if p.goodput < float64(tc.least) {
			t.Errorf("%s at %g: goodput %g, want at least %d", tc.guard, tc.relative, p.goodput, tc.least)
		}
		if p.counts[gaveUp] != 0 {
			t.Errorf("%s at %g: %d gave up, want none", tc.guard, tc.relative, p.counts[gaveUp])
		}
		if got, most := p.latency[1], tc.maxWait+50; got > most {
			t.Errorf("%s at %g: p99 of the served %g ms, want at most %g", tc.guard, tc.relative, got, most)
		}
		if want := [2]float64{tc.maxWait, tc.maxWait}; p.refusal != want {
			t.Errorf("%s at %g: refused after %v ms, want %v", tc.guard, tc.relative, p.refusal, want)
		}
	}
}
