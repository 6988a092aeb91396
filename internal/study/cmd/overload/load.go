package main

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// load is a stream of requests whose clients know nothing of each other, and
// nothing of how the service is doing: an open loop. A request is sent when its
// time has come, whatever has become of those before it, and its clock starts
// then, even if the machine is late in sending it.
type load struct {
	rate     float64       // requests a second, at random moments: a Poisson process
	patience time.Duration // a client gives up so long after its request was due
	warmUp   time.Duration // nothing counts before, so that queues have their length
	window   time.Duration // requests that are due in this time count
	seed     uint64        // of the random moments
}

// coolDown is for how long the load goes on after the window, so that the last
// requests that count meet the same traffic as the first. It lasts until all of
// those are decided.
func (l load) coolDown() time.Duration { return l.patience }

// arrivals returns when requests are due, from the start of the load. The same
// seed gives the same moments.
func (l load) arrivals() []time.Duration {
	random := rand.New(rand.NewPCG(l.seed, 0))
	var due []time.Duration
	at := 0.0
	for {
		at += random.ExpFloat64() / l.rate
		next := time.Duration(at * float64(time.Second))
		if next >= l.warmUp+l.window+l.coolDown() {
			return due
		}
		due = append(due, next)
	}
}

// answer is how one request fared.
type answer struct {
	due    time.Duration // from the start of the load
	late   time.Duration // after which it was sent
	took   time.Duration // from due to the answer, or to giving up
	kind   kind
	detail string // of what should not have happened
}

type kind int

const (
	isServed  kind = iota // the right answer, in time
	isRefused             // told that there is no room
	gaveUp                // no answer in time
	failed                // anything else
)

// send sends the load to url and returns all the answers. If ctx ends it returns
// early, and some of the answers are none.
func (l load) send(ctx context.Context, client *http.Client, url string) []answer {
	due := l.arrivals()
	answers := make([]answer, len(due))
	var clients sync.WaitGroup
	start := time.Now()
	for i, due := range due {
		at := start.Add(due)
		select {
		case <-time.After(time.Until(at)):
		case <-ctx.Done():
			clients.Wait()
			return answers
		}
		clients.Go(func() {
			answers[i] = ask(ctx, client, url, at, l.patience)
			answers[i].due = due
		})
	}
	clients.Wait()
	return answers
}

// ask is one client.
func ask(ctx context.Context, client *http.Client, url string, due time.Time, patience time.Duration) answer {
	a := answer{late: time.Since(due)}
	ctx, cancel := context.WithDeadline(ctx, due.Add(patience))
	defer cancel()
	status, body, err := get(ctx, client, url)
	a.took = time.Since(due)
	switch {
	case a.took >= patience || ctx.Err() == context.DeadlineExceeded:
		a.kind = gaveUp
	case err != nil:
		a.kind, a.detail = failed, err.Error()
	case status == http.StatusOK && body == served:
		a.kind = isServed
	case status == http.StatusServiceUnavailable:
		a.kind = isRefused
	default:
		a.kind, a.detail = failed, http.StatusText(status)+": "+body
	}
	return a
}

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
	return resp.StatusCode, string(text), err
}

// newClient returns what all clients of a load share. Connections are kept, all
// of them, so that a client who was answered costs the next no new one.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 16, DisableCompression: true}}
}
