package eventprom_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event/eventprom"
)

// dashboard is what the tests look at in grafana/dashboard.json.
type dashboard struct {
	UID        string
	Title      string
	Templating struct{ List []variable }
	Panels     []panel
}

type variable struct {
	Name, Type string
	Datasource source
	Query      json.RawMessage
}

type source struct{ Type, UID string }

type panel struct {
	ID                 int
	Title, Description string
	Datasource         source
	GridPos            struct{ X, Y, W, H int }
	Targets            []target
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                source
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("grafana/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

var (
	metricName   = regexp.MustCompile(`\bturnstile_\w+`)
	grouping     = regexp.MustCompile(`\b(?:by|without) \(([^)]*)\)`)
	matcher      = regexp.MustCompile(`(\w+)(?:=~|!~|!=|=)"`)
	placeholder  = regexp.MustCompile(`\{\{ ?(\w+) ?\}\}`)
	seriesOfKind = map[dto.MetricType][]string{
		dto.MetricType_GAUGE:     {""},
		dto.MetricType_COUNTER:   {""},
		dto.MetricType_HISTOGRAM: {"", "_bucket", "_count", "_sum"}, // "" is the native one
	}
)

// labelsIn returns the labels that a PromQL expression names.
func labelsIn(expr string) []string {
	var all []string
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		all = append(all, strings.Split(strings.ReplaceAll(m[1], " ", ""), ",")...)
	}
	for _, m := range matcher.FindAllStringSubmatch(expr, -1) {
		all = append(all, m[1])
	}
	return all
}

// scraped returns the names under which Prometheus keeps what it scrapes of a
// bulkhead, and the names of their labels.
func scraped(t *testing.T) (names, labels []string) {
	t.Helper()
	m := eventprom.New(eventprom.Options{})
	if err := m.Watch(bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})); err != nil {
		t.Fatal(err)
	}
	for _, f := range families(t, serve(t, m), text) {
		if !strings.HasPrefix(f.GetName(), "turnstile_") {
			continue
		}
		for _, suffix := range seriesOfKind[f.GetType()] {
			names = append(names, f.GetName()+suffix)
		}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
	}
	return names, append(labels, "le")
}

// checkNames fails t unless each metric and label that an expression speaks of
// is there to be scraped, and it speaks of some.
func checkNames(t *testing.T, what, expr string, names, labels []string) {
	t.Helper()
	speaks := metricName.FindAllString(expr, -1)
	if len(speaks) == 0 {
		t.Errorf("%s: no metric in %s", what, expr)
	}
	for _, name := range speaks {
		if !slices.Contains(names, name) {
			t.Errorf("%s: nothing is called %s", what, name)
		}
	}
	for _, label := range labelsIn(expr) {
		if !slices.Contains(labels, label) {
			t.Errorf("%s: nothing has the label %s", what, label)
		}
	}
}

func TestDashboardShowsWhatIsScraped(t *testing.T) {
	names, labels := scraped(t)
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || len(d.Panels) == 0 {
		t.Fatalf("the dashboard lacks a uid, a title or panels: %+v", d)
	}
	shown := map[string]bool{}
	for _, p := range d.Panels {
		if len(p.Targets) == 0 || p.Description == "" {
			t.Errorf("panel %q has %d targets and the description %q", p.Title, len(p.Targets), p.Description)
		}
		for _, target := range p.Targets {
			checkNames(t, p.Title, target.Expr, names, labels)
			if !strings.Contains(target.Expr, `{bulkhead=~"$bulkhead"}`) {
				t.Errorf("panel %q shows other bulkheads than those chosen: %s", p.Title, target.Expr)
			}
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				shown[name] = true
			}
		}
	}
	for _, name := range names {
		// What was permitted finishes or is released, and of a histogram the
		// quantiles are shown.
		switch {
		case strings.HasSuffix(name, "_count"), strings.HasSuffix(name, "_sum"), strings.HasSuffix(name, "_permitted_calls_total"):
		case !shown[name]:
			t.Errorf("no panel shows %s", name)
		}
	}
}

// What Grafana takes without an error and then shows wrongly.
func TestDashboardIsWellFormed(t *testing.T) {
	d := readDashboard(t)
	chosen := source{Type: "prometheus", UID: "${datasource}"}
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name+" "+v.Type)
		if v.Type == "query" && v.Datasource != chosen {
			t.Errorf("variable %s asks %+v, want %+v", v.Name, v.Datasource, chosen)
		}
		if v.Name == "bulkhead" && !bytes.Contains(v.Query, []byte("label_values(turnstile_bulkhead_permitted_calls_total, bulkhead)")) {
			t.Errorf("the bulkheads to choose from are %s", v.Query)
		}
	}
	if want := []string{"datasource datasource", "bulkhead query"}; !slices.Equal(names, want) {
		t.Errorf("variables %v, want %v", names, want)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q: another one has id %d", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Datasource != chosen {
			t.Errorf("panel %q asks %+v, want %+v", p.Title, p.Datasource, chosen)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.Datasource != chosen {
				t.Errorf("panel %q: target %s comes twice or asks %+v", p.Title, target.RefID, target.Datasource)
			}
			refs[target.RefID] = true
		}
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q ends in column %d of 24", p.Title, p.GridPos.X+p.GridPos.W)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[cell]; ok && other != p.Title {
					t.Errorf("panels %q and %q overlap", p.Title, other)
				}
				taken[cell] = p.Title
			}
		}
	}
}
