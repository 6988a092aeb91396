// Package about says on what machine and with what versions a study ran.
package about

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/internal/study/table"
)

// Facts returns the header of a table that the program with this name, run with
// these arguments, is about to make. Its versions are of the modules in peers.
func Facts(name string, args []string, now time.Time, peers ...string) []table.Fact {
	return []table.Fact{
		{Key: "command", Value: strings.Join(append([]string{"go run ./cmd/" + name}, args...), " ")},
		{Key: "date", Value: now.UTC().Format("2006-01-02 15:04 UTC")},
		{Key: "versions", Value: versions(peers)},
		{Key: "hardware", Value: hardware()},
	}
}

// versions tells those of Go, of Turnstile by its commit, and of the peers.
func versions(peers []string) string {
	all := []string{runtime.Version(), "turnstile " + revision()}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return strings.Join(all, ", ")
	}
	for _, peer := range peers {
		for _, m := range build.Deps {
			if m.Path == peer {
				all = append(all, peer+" "+m.Version)
			}
		}
	}
	return strings.Join(all, ", ")
}

// revision is the commit that is checked out, with "-dirty" if Go code that git
// knows has been changed since. Programs started by go run bear no such stamp.
func revision() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "of an unknown commit"
	}
	commit := strings.TrimSpace(string(out))
	code := []string{":(top,glob)**/*.go", ":(top,glob)**/go.mod", ":(top,glob)**/go.sum"}
	if exec.Command("git", append([]string{"diff", "--quiet", "HEAD", "--"}, code...)...).Run() != nil {
		commit += "-dirty"
	}
	return commit
}

// hardware tells the processor, as far as the system names it, and how many of
// its cores Go uses.
func hardware() string {
	text := fmt.Sprintf("%d cores, %s/%s", runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH)
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		text = model + ", " + text
	}
	if kB := field("/proc/meminfo", "MemTotal"); kB != "" {
		var n float64
		if _, err := fmt.Sscanf(kB, "%f kB", &n); err == nil {
			text += fmt.Sprintf(", %.0f GiB", n/(1<<20))
		}
	}
	return text
}

// field returns what stands behind the first "name:" in one of Linux's files, or
// "" where there is no such file or field.
func field(file, name string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(text) {
		key, value, _ := strings.Cut(string(line), ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
