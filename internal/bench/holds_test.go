package bench

import (
	"os/exec"
	"strings"
	"testing"
)

// TestHolds sees that holds still fits the semaphore, whose lock it replaces.
func TestHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the semaphore once more, and waits for deadlines")
	}
	out, err := exec.Command("./holds", "-requests=1000").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, row := range []string{"SetLimit grants", "SetLimit evicts", "Close", "shared ctx ends", "deadlines pass"} {
		if !strings.Contains(string(out), row) {
			t.Errorf("no row %q in\n%s", row, out)
		}
	}
}
