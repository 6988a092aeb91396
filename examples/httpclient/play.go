package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// play lets callers ask a slow host, all at once, and a quick one meanwhile. Then
// the slow host recovers, and those who were refused ask again.
func play(ctx context.Context, transport http.RoundTripper, callers int) (r report, err error) {
	slow, quick := newHost(), newHost()
	quick.recover()
	slowURL, stopSlow, err := demo.Serve(slow)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stopSlow(ctx)) }()
	quickURL, stopQuick, err := demo.Serve(quick)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stopQuick(ctx)) }()
	client := &http.Client{Transport: transport}
	defer client.CloseIdleConnections()

	held, refused, err := askAtOnce(ctx, client, slowURL, callers)
	defer closeAll(held)
	if err != nil {
		return r, err
	}
	r.held, r.refused = len(held), refused
	for range callers {
		if err := ask(ctx, client, quickURL); err != nil {
			return r, fmt.Errorf("the quick host: %w", err)
		}
		r.quick++
	}

	slow.recover()
	for _, resp := range held {
		if err := check(resp); err != nil {
			return r, fmt.Errorf("the slow host: %w", err)
		}
		r.slow++
	}
	for range refused {
		if err := ask(ctx, client, slowURL); err != nil {
			return r, fmt.Errorf("the slow host, asked again: %w", err)
		}
		r.slow++
	}
	r.highest = max(slow.inside.Highest(), quick.inside.Highest())
	return r, nil
}

// askAtOnce sends requests at the same time. It returns the responses that have
// begun, and how many requests were refused by a bulkhead.
func askAtOnce(ctx context.Context, client *http.Client, url string, requests int) (begun []*http.Response, refused int, err error) {
	type result struct {
		resp *http.Response
		err  error
	}
	results := make(chan result)
	for range requests {
		go func() {
			resp, err := get(ctx, client, url)
			results <- result{resp, err}
		}()
	}
	for range requests {
		switch r := <-results; {
		case r.err == nil:
			begun = append(begun, r.resp)
		case errors.Is(r.err, bulkhead.ErrFull):
			// Nothing was sent. A caller could do without the answer, or show an
			// older one; these will try again later.
			refused++
		default:
			err = r.err
		}
	}
	return begun, refused, err
}

// ask sends a request and reads the answer to its end.
func ask(ctx context.Context, client *http.Client, url string) error {
	resp, err := get(ctx, client, url)
	if err != nil {
		return err
	}
	return check(resp)
}

func get(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// check reads the rest of resp, and closes it, which gives its permit back.
func check(resp *http.Response) error {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && string(text) != answer {
		err = fmt.Errorf("%s with %q", resp.Status, text)
	}
	return err
}

func closeAll(responses []*http.Response) {
	for _, resp := range responses {
		resp.Body.Close()
	}
}
