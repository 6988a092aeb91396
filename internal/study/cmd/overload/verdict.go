package main

import (
	"fmt"
	"strings"
)

// doubts say which figures cannot be true, or must not be trusted, each in a
// line. A machine that has other things to do can be the reason.
type doubts []string

func (d doubts) Error() string { return strings.Join(d, "\n") }

// verdict returns the doubts about the points, if there are any.
func (s study) verdict(points []point) error {
	var all doubts
	for _, p := range points {
		doubt := func(is bool, format string, args ...any) {
			if is {
				all = append(all, fmt.Sprintf("%s at %g: ", p.guard, p.load.rate/s.perSecond())+fmt.Sprintf(format, args...))
			}
		}
		counts := p.counts
		doubt(counts[failed] > 0, "%d requests failed: %s", counts[failed], p.failure)
		doubt(p.offered() == 0, "no request was offered")
		doubt(p.load.rate <= 0.2*s.perSecond() && counts[isServed] < p.offered(),
			"%d of %d requests were served, although there was room for all", counts[isServed], p.offered())

		// In the window, the downstream can end what it has capacity for, and
		// what was under way when it began.
		most := s.perSecond() + float64(s.capacity)/p.load.window.Seconds()
		doubt(p.goodput > most, "a goodput of %.0f/s is above the %.0f/s that can be", p.goodput, most)

		doubt(p.guard != "none" && p.service.Downstream.Highest > s.capacity,
			"the downstream saw %d calls at once, more than the guard's %d", p.service.Downstream.Highest, s.capacity)
		doubt(p.cpu > 0.7, "the processors were in use for %.0f%%, so that they may be what was measured", 100*p.cpu)
		doubt(p.lateness > 0.1*ms(s.service), "requests were sent up to %.1f ms late", p.lateness)
	}
	if len(all) == 0 {
		return nil
	}
	return all
}
