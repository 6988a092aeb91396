package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// load is what the clients do: each sends one request, all of them within the
// spread, and each gives up when its patience ends.
type load struct {
	clients  int
	spread   time.Duration
	patience time.Duration
}

// answer is how one client fared.
type answer struct {
	kind   kind
	detail string // the reason of a rejection, or what went wrong
	took   time.Duration
}

type kind int

const (
	served   kind = iota // the right price, in time
	rejected             // 503, with the reason
	gaveUp               // the client's patience ended first
	wrong                // anything else
)

// send sends the load to the service at url and returns all the answers. It
// tells progress how many have arrived.
func (l load) send(ctx context.Context, url string, progress func(done, of int)) []answer {
	// A connection for each client, as if each were a machine of its own.
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
		Timeout:   l.patience,
	}
	answers := make(chan answer)
	for i := range l.clients {
		go func() {
			time.Sleep(l.spread * time.Duration(i) / time.Duration(l.clients))
			answers <- ask(ctx, client, url, i)
		}()
	}
	all := make([]answer, 0, l.clients)
	for range l.clients {
		progress(len(all), l.clients)
		all = append(all, <-answers)
	}
	progress(len(all), l.clients)
	return all
}

// ask is one client: it asks for the price of an item and judges the answer.
func ask(ctx context.Context, client *http.Client, url string, item int) answer {
	start := time.Now()
	status, body, err := get(ctx, client, url+strconv.Itoa(item))
	a := answer{took: time.Since(start)}
	switch {
	case os.IsTimeout(err):
		a.kind = gaveUp
	case err != nil:
		a.kind, a.detail = wrong, err.Error()
	case status == http.StatusServiceUnavailable:
		a.kind, a.detail = rejected, body
	case status == http.StatusOK && body == strconv.Itoa(priceOf(item)):
		a.kind = served
	default:
		a.kind, a.detail = wrong, fmt.Sprintf("item %d: status %d, %q", item, status, body)
	}
	return a
}

// get fetches url and returns the status and the trimmed body.
func get(ctx context.Context, client *http.Client, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, strings.TrimSpace(string(text)), err
}
