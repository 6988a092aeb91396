package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/turnstile-go/turnstile/examples/internal/demo"
)

// server serves pages by their number. Some take longer than others, so that
// they are done in another order than they were asked for.
type server struct{ inside demo.Gauge }

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.inside.Enter()
	defer s.inside.Leave()
	n, err := strconv.Atoi(r.URL.Path[1:])
	if err != nil {
		http.NotFound(w, r)
		return
	}
	time.Sleep(time.Duration(2+n%7) * time.Millisecond)
	io.WriteString(w, page(n))
}

// page is what the server has at a number.
func page(n int) string { return fmt.Sprintf("this is page %d", n) }
