package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// job is pages that are being fetched.
type job struct {
	cancel context.CancelFunc
	pages  []*bulkhead.Future[string]
}

// startJob asks for the first n pages of the server at url, and returns at once.
// b bounds how many requests are under way; the others wait, as long as it
// takes and however many they are.
func startJob(ctx context.Context, b bulkhead.Any, client *http.Client, url string, n int) job {
	ctx, cancel := context.WithCancel(ctx)
	j := job{cancel: cancel, pages: make([]*bulkhead.Future[string], n)}
	patient := bulkhead.Waiting(b, bulkhead.Forever)
	for i := range j.pages {
		j.pages[i] = bulkhead.Go(ctx, patient, func(ctx context.Context) (string, error) {
			return get(ctx, client, fmt.Sprintf("%s/%d", url, i))
		})
	}
	return j
}

// collect returns all pages in their order, or the first error; then the calls
// that are left are canceled. It tells progress how many it has.
func (j job) collect(ctx context.Context, progress func(done, of int)) ([]string, error) {
	defer j.cancel()
	pages := make([]string, 0, len(j.pages))
	for i, f := range j.pages {
		progress(i, len(j.pages))
		page, err := f.Get(ctx)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", i, err)
		}
		pages = append(pages, page)
	}
	progress(len(j.pages), len(j.pages))
	return pages, nil
}

// get fetches url.
func get(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %q", resp.Status, text)
	}
	return string(text), err
}
