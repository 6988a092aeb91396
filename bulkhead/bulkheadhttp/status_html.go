package bulkheadhttp

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"net/http"
)

var (
	//go:embed status.html
	statusHTML string

	//go:embed status.css
	statusCSS string

	//go:embed status.js
	statusJS string
)

// statusTemplate escapes names for wherever it puts them, so that they are text
// whatever is in them.
var statusTemplate = template.Must(template.New("status").Parse(statusHTML))

// statusPolicy lets the page run the one script and use the one style sheet that
// are part of it, known by their hashes, and ask the server that it came from.
var statusPolicy = fmt.Sprintf("default-src 'none'; script-src %s; style-src %s; "+
	"connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "+
	"frame-ancestors 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
	sourceHash(statusJS), sourceHash(statusCSS))

// sourceHash returns the source expression that allows an inline text.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Percent returns how much of the limit is in use, rounded down, so that 100 is
// full.
func (s status) Percent() float64 {
	return math.Floor(100 * float64(s.Active) / float64(s.MaxConcurrent))
}

// Filled is how much of its bar that fills.
func (s status) Filled() float64 { return min(s.Percent(), 100) }

// serveHTML writes the page as it is before its script has asked for anything,
// which is all that a browser without scripts will show.
func (p *statusPage) serveHTML(w http.ResponseWriter) {
	page := struct {
		Script    template.JS
		Style     template.CSS
		Bulkheads []status
		Blank     status
	}{
		Script: template.JS(statusJS),
		Style:  template.CSS(statusCSS),
		Blank:  status{MaxConcurrent: 1},
	}
	for _, b := range p.census.registry.All() {
		page.Bulkheads = append(page.Bulkheads, newStatus(b))
	}
	var body bytes.Buffer
	if err := statusTemplate.Execute(&body, page); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", statusPolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(body.Bytes())
}
