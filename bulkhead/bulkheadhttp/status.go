package bulkheadhttp

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// StatusPage returns a handler that shows what the bulkheads of r are doing, as
// a page for people and as JSON for machines:
//
//	mux.Handle("/debug/bulkheads", bulkheadhttp.StatusPage(&registry))
//
// It tells names and load to whoever may reach it, so mount it where your other
// debugging pages are. It works at any path, answers GET and HEAD, changes
// nothing in a bulkhead, and panics if r is nil. It is safe for concurrent use.
//
// # The page
//
// The page is what a browser gets. It asks for the JSON once a second, draws the
// last two minutes of what it has seen, and marks what it shows as old when the
// server stops answering. Bulkheads that enter or leave r appear and disappear.
// It loads nothing from elsewhere, and has a Content-Security-Policy under which
// nothing could be.
//
// # The JSON
//
// A request whose Accept header prefers application/json to text/html gets JSON,
// and so does one with format=json in its query; format=html asks for the page.
// So, from a shell, "curl http://localhost:6060/bulkheads?format=json". The first
// answer begins to count, see below.
//
//	{
//	  "time": "2026-11-30T18:42:10.123456789Z",
//	  "bulkheads": [
//	    {
//	      "name": "database",
//	      "max_concurrent": 8,
//	      "active": 8,
//	      "available": 0,
//	      "waiting": 3,
//	      "closed": false,
//	      "counted_since": "2026-11-30T18:40:00.5Z",
//	      "counts": {
//	        "permitted": {"calls": 1208, "weight": 1208},
//	        "rejected": {"full": {"calls": 0, "weight": 0}, …},
//	        …
//	      }
//	    }
//	  ]
//	}
//
// Bulkheads are sorted by name. From max_concurrent to closed, the members are
// those of [bulkhead.Stats], read at once: permits, and for waiting, calls. The
// members of counts are those that [event.Counters] write. Times are in UTC as
// in RFC 3339, but for full_since in counts, which is as Config.Clock gave it.
// Members may be added; those that are there will keep their names and meaning.
//
// # What it costs
//
// Nothing while nobody asks for the JSON. The first who does makes the handler
// subscribe [event.Counters] to each bulkhead, which cost a call a few clock
// readings and atomic additions and no allocation, and which it takes away when
// nobody has asked for a minute, be it that the page was closed or that its tab
// is hidden. So counts are of the calls since counted_since and start from 0
// when that changes. For counts of the whole life of a bulkhead, give it
// Counters of your own.
func StatusPage(r *bulkhead.Registry) http.Handler {
	if r == nil {
		panic("bulkheadhttp: StatusPage needs a Registry, got nil")
	}
	return &statusPage{census{registry: r}}
}

// statusPage is the handler that StatusPage returns.
type statusPage struct{ census census }

func (p *statusPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Vary", "Accept")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, fmt.Sprintf("method %s is not allowed, only GET and HEAD", r.Method), http.StatusMethodNotAllowed)
		return
	}
	switch format := statusFormat(r); format {
	case "json":
		p.serveJSON(w)
	case "html":
		p.serveHTML(w)
	default:
		http.Error(w, fmt.Sprintf("format is %q, want html or json", format), http.StatusBadRequest)
	}
}

// statusFormat returns the format that r asks for.
func statusFormat(r *http.Request) string {
	if asked, ok := r.URL.Query()["format"]; ok {
		return asked[0]
	}
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if quality(accept, "application/json") > quality(accept, "text/html") {
		return "json"
	}
	return "html"
}

// quality returns how welcome mediaType is in an Accept header, between 0 and 1.
// Wildcards are left out: they favor none of ours.
func quality(accept, mediaType string) float64 {
	for part := range strings.SplitSeq(accept, ",") {
		got, params, err := mime.ParseMediaType(part)
		if err != nil || got != mediaType {
			continue
		}
		q, ok := params["q"]
		if !ok {
			return 1
		}
		if value, err := strconv.ParseFloat(q, 64); err == nil {
			return value
		}
	}
	return 0
}

// A status is what StatusPage shows of a bulkhead.
type status struct {
	Name          string `json:"name"`
	MaxConcurrent int64  `json:"max_concurrent"`
	Active        int64  `json:"active"`
	Available     int64  `json:"available"`
	Waiting       int    `json:"waiting"`
	Closed        bool   `json:"closed"`

	// In the page they are left out until its script has asked for them.
	CountedSince time.Time       `json:"counted_since"`
	Counts       json.RawMessage `json:"counts"`
}

// newStatus returns what b is doing. What embeds a bulkhead may have a name of its
// own, by which the registry knows it.
func newStatus(b bulkhead.Any) status {
	s := b.Stats()
	return status{
		Name:          b.Name(),
		MaxConcurrent: s.MaxConcurrent,
		Active:        s.Active,
		Available:     s.Available,
		Waiting:       s.Waiting,
		Closed:        s.Closed,
	}
}

func (p *statusPage) serveJSON(w http.ResponseWriter) {
	doc := struct {
		Time      time.Time `json:"time"`
		Bulkheads []status  `json:"bulkheads"`
	}{Bulkheads: []status{}}
	for _, c := range p.census.ask() {
		s := newStatus(c.bulkhead)
		s.CountedSince = c.since
		s.Counts = json.RawMessage(c.counters.String())
		doc.Bulkheads = append(doc.Bulkheads, s)
	}
	doc.Time = time.Now().UTC()
	body, _ := json.Marshal(doc) // it holds nothing that can fail
	w.Header().Set("Content-Type", "application/json")
	w.Write(append(body, '\n'))
}
