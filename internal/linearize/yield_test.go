package linearize

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestHistoriesYielding runs TestHistories again on a semaphore that lets other
// goroutines run before each of its atomic operations. Its fast paths take some
// ten nanoseconds, and on a machine with few processors, or busy ones, calls
// hardly ever overlap there; these do nearly always.
func TestHistoriesYielding(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the semaphore once more")
	}
	dir, err := filepath.Abs("../../semaphore")
	if err != nil {
		t.Fatal(err)
	}
	weighted := filepath.Join(dir, "weighted.go")
	src, err := os.ReadFile(weighted)
	if err != nil {
		t.Fatal(err)
	}
	text := string(src)
	for _, field := range []struct{ as, like string }{
		{"\tstate atomic.Int64\n", "\tstate yieldingInt64\n"},
		{"\tlimit atomic.Int64\n", "\tlimit yieldingInt64\n"},
		{"\tmu sync.Mutex\n", "\tmu yieldingMutex\n"},
	} {
		if strings.Count(text, field.as) != 1 {
			t.Fatalf("%s has no field %q: this test wants to replace it", weighted, strings.TrimSpace(field.as))
		}
		text = strings.Replace(text, field.as, field.like, 1)
	}
	text += "\nvar (\n\t_ sync.Locker // the imports stay in use\n\t_ atomic.Bool\n)\n"

	tmp := t.TempDir()
	yielding := filepath.Join(tmp, "weighted.go")
	if err := os.WriteFile(yielding, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	helper, err := filepath.Abs("testdata/yield.go")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		weighted:                       yielding,
		filepath.Join(dir, "yield.go"): helper,
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(tmp, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "test", "-count=1", "-v", "-overlay="+file, "-run=^TestHistories$", ".",
		"-histories="+strconv.Itoa(2**histories)).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}
