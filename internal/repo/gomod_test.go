package repo

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// required are the modules that users of this one come to see in their module
// graph. Tests, examples and proptest need them; whatever needs more is a
// module of its own.
var required = []string{
	"github.com/google/go-cmp",
	"golang.org/x/sync",
	"pgregory.net/rapid",
}

func TestModuleRequiresOnlyWhatItsTestsNeed(t *testing.T) {
	faults, err := requireFaults(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}

func TestForbiddenRequirementsAreFound(t *testing.T) {
	dir := write(t, map[string]string{"go.mod": `module example.com/m

go 1.26.0

require (
	golang.org/x/sync v0.25.0
	example.com/direct v1.0.0
)

require example.com/indirect v1.0.0 // indirect

replace golang.org/x/sync => ../sync
`})
	got, err := requireFaults(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"go.mod requires example.com/direct",
		"go.mod requires example.com/indirect",
		"go.mod replaces golang.org/x/sync",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// requireFaults returns what the go.mod in dir asks for beyond required. A
// replacement is a fault because it holds here and for none of our users.
func requireFaults(dir string) ([]string, error) {
	out, err := goTool(dir, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var mod struct {
		Require []struct{ Path string }
		Replace []struct{ Old struct{ Path string } }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, err
	}
	var faults []string
	for _, r := range mod.Require {
		if !slices.Contains(required, r.Path) {
			faults = append(faults, "go.mod requires "+r.Path)
		}
	}
	for _, r := range mod.Replace {
		faults = append(faults, "go.mod replaces "+r.Old.Path)
	}
	return faults, nil
}
