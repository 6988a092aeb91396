package repo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// layers says what each package that users import may depend on, besides the
// standard library, with all that its own imports bring along. The arrows run
// one way, waitq ← semaphore ← bulkhead → event, so a package can be read, used
// and trusted without those above it.
var layers = map[string]struct {
	may  []string // packages of this module
	http bool     // net/http as well
}{
	"internal/waitq":        {},
	"semaphore":             {may: []string{"internal/waitq"}},
	"event":                 {},
	"bulkhead":              {may: []string{"internal/waitq", "semaphore", "event"}},
	"bulkhead/bulkheadhttp": {may: []string{"internal/waitq", "semaphore", "event", "bulkhead"}, http: true},
}

func TestImportsRunOneWay(t *testing.T) {
	faults, err := importFaults(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

func TestForbiddenImportsAreFound(t *testing.T) {
	const module = "module example.com/m\n\ngo 1.26.0\n"
	tests := []struct {
		reason string
		files  map[string]string
		want   []string
	}{
		{
			reason: "the layers as they should be",
			files: map[string]string{
				"internal/waitq/a.go":        "package waitq\n",
				"semaphore/a.go":             "package semaphore\n\nimport _ \"example.com/m/internal/waitq\"\n",
				"event/a.go":                 "package event\n\nimport _ \"log/slog\"\n",
				"bulkhead/a.go":              "package bulkhead\n\nimport (\n\t_ \"example.com/m/event\"\n\t_ \"example.com/m/semaphore\"\n)\n",
				"bulkhead/bulkheadhttp/a.go": "package bulkheadhttp\n\nimport (\n\t_ \"example.com/m/bulkhead\"\n\t_ \"net/http\"\n)\n",
			},
		},
		{
			reason: "an empty module lacks what everything rests on",
			files:  map[string]string{"a.go": "package m\n"},
			want:   []string{"internal/waitq is missing", "semaphore is missing"},
		},
		{
			reason: "imports against the arrows, and packages nobody placed",
			files: map[string]string{
				"internal/waitq/a.go": "package waitq\n\nimport _ \"example.com/m/event\"\n",
				"semaphore/a.go":      "package semaphore\n\nimport _ \"example.com/m/event\"\n",
				"event/a.go":          "package event\n\nimport _ \"example.com/m/util\"\n",
				"event/extra/a.go":    "package extra\n",
				"util/a.go":           "package util\n",
			},
			want: []string{
				"event depends on util",
				"event/extra has no place in the layers",
				"internal/waitq depends on event",
				"internal/waitq depends on util",
				"semaphore depends on event",
				"semaphore depends on util",
			},
		},
		{
			reason: "net/http, whichever way it comes in, and another module",
			files: map[string]string{
				"go.mod":              module + "\nrequire example.com/other v0.0.0\n\nreplace example.com/other => ./other\n",
				"other/go.mod":        "module example.com/other\n",
				"other/a.go":          "package other\n",
				"internal/waitq/a.go": "package waitq\n\nimport _ \"example.com/other\"\n",
				"semaphore/a.go":      "package semaphore\n\nimport _ \"net/http\"\n",
				"event/a.go":          "package event\n\nimport _ \"expvar\"\n",
			},
			want: []string{
				"event depends on expvar",
				"event depends on net/http",
				"internal/waitq depends on example.com/other",
				"semaphore depends on net/http",
			},
		},
	}
	for _, tc := range tests {
		if tc.files["go.mod"] == "" {
			tc.files["go.mod"] = module
		}
		got, err := importFaults(write(t, tc.files))
		if err != nil {
			t.Errorf("%s: %v", tc.reason, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: faults (-want +got):\n%s", tc.reason, diff)
		}
	}
}

// importFaults returns what in the module at root contradicts layers.
func importFaults(root string) ([]string, error) {
	out, err := goTool(root, "list", "-m")
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSpace(string(out)) + "/"

	out, err = goTool(root, "list", "./...")
	if err != nil {
		return nil, err
	}
	var faults []string
	found := strings.Fields(string(out))
	for _, name := range []string{"internal/waitq", "semaphore"} {
		if !slices.Contains(found, prefix+name) {
			faults = append(faults, name+" is missing")
		}
	}
	for _, path := range found {
		name := strings.TrimPrefix(path, prefix)
		if !layered(name) {
			continue
		}
		layer, ok := layers[name]
		if !ok {
			faults = append(faults, name+" has no place in the layers")
			continue
		}
		out, err := goTool(root, "list", "-deps", "-f", "{{.ImportPath}} {{.Standard}}", path)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(out)) {
			var dep string
			var standard bool
			if _, err := fmt.Sscan(line, &dep, &standard); err != nil {
				return nil, fmt.Errorf("go list printed %q: %w", line, err)
			}
			ok := dep == path || slices.Contains(layer.may, strings.TrimPrefix(dep, prefix))
			if standard {
				ok = dep != "expvar" && (layer.http || dep != "net/http")
			}
			if !ok {
				faults = append(faults, name+" depends on "+strings.TrimPrefix(dep, prefix))
			}
		}
	}
	slices.Sort(faults)
	return faults, nil
}

// layered reports whether the package belongs to one of the trees in layers.
func layered(name string) bool {
	for layer := range layers {
		if name == layer || strings.HasPrefix(name, layer+"/") {
			return true
		}
	}
	return false
}
