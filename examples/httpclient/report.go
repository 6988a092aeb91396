package main

import (
	"fmt"
	"io"
)

// report is what came of the callers.
type report struct {
	held    int   // those whom the slow host held up
	refused int   // those that were not sent to it at first
	quick   int   // answers of the quick host in the meantime
	slow    int   // answers of the slow host in the end
	highest int64 // most requests at once that a host saw
}

func (r report) print(out io.Writer) {
	fmt.Fprintf(out, "  slow host    %2d callers held up, %2d refused at once\n", r.held, r.refused)
	fmt.Fprintf(out, "  quick host   %2d answers meanwhile\n", r.quick)
	fmt.Fprintf(out, "  in the end   %2d answers of the slow host, %d requests at once at most\n", r.slow, r.highest)
}

// verdict returns an error if it is not as the limit would have it.
func (r report) verdict(cfg config) error {
	switch {
	case r.highest > int64(cfg.limit):
		return fmt.Errorf("a host saw %d requests at once, more than %d", r.highest, cfg.limit)
	case r.held != cfg.limit || r.held+r.refused != cfg.callers:
		return fmt.Errorf("%d callers held up and %d refused, want %d and %d", r.held, r.refused, cfg.limit, cfg.callers-cfg.limit)
	case r.quick != cfg.callers || r.slow != cfg.callers:
		return fmt.Errorf("%d answers of the quick host and %d of the slow one, want %d of each", r.quick, r.slow, cfg.callers)
	}
	return nil
}
