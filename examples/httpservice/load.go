package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
)

// tally is what became of the requests of a kind.
type tally struct{ served, refused int }

// load sends all requests at once, and returns what became of each kind, or the
// first thing that went wrong.
func load(ctx context.Context, client *http.Client, url string, burst []kind) ([]tally, error) {
	var (
		mu      sync.Mutex
		tallies = make([]tally, len(burst))
		failed  error
		all     sync.WaitGroup
	)
	send := func(i int) {
		served, err := ask(ctx, client, url+burst[i].path)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil && failed == nil:
			failed = fmt.Errorf("%s: %w", burst[i].name, err)
		case err != nil:
		case served:
			tallies[i].served++
		default:
			tallies[i].refused++
		}
	}
	most := slices.MaxFunc(burst, func(a, b kind) int { return a.requests - b.requests }).requests
	for n := range most { // the kinds mixed
		for i, k := range burst {
			for range (n+1)*k.requests/most - n*k.requests/most {
				all.Go(func() { send(i) })
			}
		}
	}
	all.Wait()
	return tallies, failed
}

// ask sends a request, and reports whether it was served. If not, it was refused
// in the way agreed on; everything else is an error.
func ask(ctx context.Context, client *http.Client, url string) (served bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	switch retry := resp.Header.Get("Retry-After"); {
	case resp.StatusCode == http.StatusOK:
		return true, nil
	case resp.StatusCode == http.StatusServiceUnavailable && retry == "2":
		return false, nil
	default:
		return false, fmt.Errorf("unexpected answer %s, Retry-After %q", resp.Status, retry)
	}
}
