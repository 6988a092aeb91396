package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// report prints what the metrics of the service at url say, and returns an error
// if that is not what the clients got, or if a permit is not back.
func report(ctx context.Context, out io.Writer, url string, registry *bulkhead.Registry, got *tally) error {
	if got.wrong != nil {
		return got.wrong
	}
	for _, b := range registry.All() { // the last answers may be ahead of their handlers
		if err := b.Drain(ctx); err != nil {
			return fmt.Errorf("%s still has %d permits in flight: %w", b.Name(), b.Stats().Active, err)
		}
	}
	series, err := scrape(ctx, url+metricsPath)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-12s  %9s  %9s\n", "by metrics", "permitted", "rejected")
	for _, b := range registry.All() {
		permitted := series.sum("turnstile_bulkhead_permitted_calls_total", b.Name())
		rejected := series.sum("turnstile_bulkhead_rejected_calls_total", b.Name())
		fmt.Fprintf(out, "%-12s  %9d  %9d\n", b.Name(), permitted, rejected)
		if want := got.byName[b.Name()]; permitted != want.served || rejected != want.refused {
			return fmt.Errorf("%s: %d clients were served and %d refused", b.Name(), want.served, want.refused)
		}
	}
	fmt.Fprintln(out, "\nThe clients got as many answers, and every permit is back.")
	return nil
}

// series are the values that a scrape has found, by name and labels as they are
// in its text.
type series map[string]int

// scrape returns the values at url, in whole numbers, as counts are.
func scrape(ctx context.Context, url string) (series, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	found := make(series)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		if i := strings.LastIndexByte(line, ' '); i >= 0 && line[0] != '#' {
			value, err := strconv.ParseFloat(line[i+1:], 64) // large ones are like 1e+06
			if err != nil {
				return nil, fmt.Errorf("%s: %q has no value", url, line)
			}
			found[line[:i]] = int(value)
		}
	}
	return found, lines.Err()
}

// sum returns the sum of a metric of a bulkhead over its other labels.
func (s series) sum(metric, bulkhead string) int {
	sum := 0
	for name, n := range s {
		if strings.HasPrefix(name, fmt.Sprintf("%s{bulkhead=%q", metric, bulkhead)) {
			sum += n
		}
	}
	return sum
}
