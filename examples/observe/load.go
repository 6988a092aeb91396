package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// answers is how often the clients of a bulkhead were served and refused.
type answers struct{ served, refused int }

// tally is the answers by the name of the bulkhead, and the first that is neither.
type tally struct {
	mu     sync.Mutex
	byName map[string]answers
	wrong  error
}

func (t *tally) add(name string, status int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.byName[name]
	switch {
	case err == nil && status == http.StatusOK:
		a.served++
	case err == nil && status == http.StatusServiceUnavailable:
		a.refused++
	case t.wrong == nil:
		t.wrong = fmt.Errorf("a client of %s got status %d, error %v", name, status, err)
	}
	t.byName[name] = a
}

// keepAsking sends requests to the service at url until ctx is done, and returns
// what the answers were once all have arrived.
func keepAsking(ctx context.Context, url string, cfg config) *tally {
	names := []string{cfg.database.Name, cfg.payments.Name}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: cfg.clients * len(names)}}
	defer client.CloseIdleConnections()
	got := &tally{byName: make(map[string]answers)}
	start := time.Now()
	var clients sync.WaitGroup
	for _, name := range names {
		for i := range cfg.clients {
			clients.Go(func() {
				for ; ctx.Err() == nil; think(ctx, cfg.work) {
					if i%10 == 0 || rushing(time.Since(start), cfg.rush) {
						status, err := ask(client, url+"/"+name)
						got.add(name, status, err)
					}
				}
			})
		}
	}
	clients.Wait()
	return got
}

// rushing reports whether there is a rush, after that much time.
func rushing(after, rush time.Duration) bool { return after/rush%2 == 1 }

// think waits until the next request is due.
func think(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// ask sends a request and returns the status of the answer.
func ask(client *http.Client, url string) (status int, err error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
