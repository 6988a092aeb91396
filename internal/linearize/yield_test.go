package linearize

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestHistoriesYielding runs TestHistories again on a semaphore that lets other
// goroutines run before each of its atomic operations, and whose waiters grow old
// sooner. Its fast paths take some ten nanoseconds, and on a machine with few
// processors, or busy ones, calls hardly ever overlap there; these do nearly
// always.
func TestHistoriesYielding(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the semaphore once more")
	}
	const old = 100 * time.Microsecond
	overlay := newOverlay(t, "../../semaphore")
	overlay.add("yield.go", "testdata/yield.go")
	overlay.replace("weighted.go",
		"\tstate atomic.Int64\n", "\tstate yieldingInt64\n",
		"\tlimit atomic.Int64\n", "\tlimit yieldingInt64\n",
		"\tmu sync.Mutex\n", "\tmu yieldingMutex\n",
		"\t\"sync\"\n", "",
	)
	overlay.replace("unfair.go",
		"const patience = int64(time.Millisecond)\n", fmt.Sprintf("const patience = int64(%d * time.Nanosecond)\n", old),
	)
	out, err := exec.Command("go", "test", "-count=1", "-v", "-overlay="+overlay.write(), "-run=^TestHistories$", ".",
		"-histories="+strconv.Itoa(2**histories), "-young="+old.String()).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

// overlay is what the go command is told to compile in place of the files of a
// directory.
type overlay struct {
	t        *testing.T
	dir, tmp string
	Replace  map[string]string
}

func newOverlay(t *testing.T, dir string) *overlay {
	o := &overlay{t: t, tmp: t.TempDir(), Replace: map[string]string{}}
	o.dir = o.abs(dir)
	return o
}

// add has the compiler see a file that is not there.
func (o *overlay) add(name, source string) { o.Replace[filepath.Join(o.dir, name)] = o.abs(source) }

// replace has it see a file with other strings in place of some that it has once.
func (o *overlay) replace(name string, oldnew ...string) {
	file, changed := filepath.Join(o.dir, name), filepath.Join(o.tmp, name)
	src, err := os.ReadFile(file)
	if err != nil {
		o.t.Fatal(err)
	}
	text := string(src)
	for pair := range slices.Chunk(oldnew, 2) {
		if strings.Count(text, pair[0]) != 1 {
			o.t.Fatalf("%s has not one %q: this test wants to replace it", file, pair[0])
		}
		text = strings.Replace(text, pair[0], pair[1], 1)
	}
	if err := os.WriteFile(changed, []byte(text), 0o666); err != nil {
		o.t.Fatal(err)
	}
	o.Replace[file] = changed
}

// write returns the name of a file for go test -overlay.
func (o *overlay) write() string {
	text, err := json.Marshal(o)
	if err != nil {
		o.t.Fatal(err)
	}
	file := filepath.Join(o.tmp, "overlay.json")
	if err := os.WriteFile(file, text, 0o666); err != nil {
		o.t.Fatal(err)
	}
	return file
}

func (o *overlay) abs(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		o.t.Fatal(err)
	}
	return abs
}
