package main

import (
	"io"
	"net/http"

	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// host counts the requests that it deals with at once.
type host struct {
	inside demo.Gauge

	// recovered holds the answers up after their headers until it is closed.
	recovered chan struct{}
}

func newHost() *host { return &host{recovered: make(chan struct{})} }

func (h *host) recover() { close(h.recovered) }

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.inside.Enter()
	defer h.inside.Leave()
	http.NewResponseController(w).Flush()
	select {
	case <-h.recovered:
		io.WriteString(w, answer)
	case <-r.Context().Done(): // nobody wants it any more
	}
}

const answer = "an answer"
