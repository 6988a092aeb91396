package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/turnstile-go/turnstile/internal/study/table"
)

// records is what summarize reads: benchfmt.Files, or a benchfmt.Reader.
type records interface {
	Scan() bool
	Result() benchfmt.Record
	Err() error
}

// summarize makes the table that cost draws of several runs of the benchmarks.
// It keeps those rows and contenders that are drawn. A file with several values
// of GOMAXPROCS must be told which one to take.
func summarize(in records, procs string) (*table.Table, error) {
	type cell struct{ bench, impl string }
	ns, allocs := map[cell][]float64{}, map[cell][]float64{}
	seen := map[string]bool{} // values of GOMAXPROCS
	var cpu, system string
	for in.Scan() {
		r, ok := in.Result().(*benchfmt.Result)
		if !ok {
			if bad, ok := in.Result().(*benchfmt.SyntaxError); ok {
				return nil, bad
			}
			continue // about a unit
		}
		bench, impl, maxprocs := split(r.Name)
		if !drawn(bench, impl) || procs != "" && maxprocs != procs {
			continue
		}
		seen[maxprocs] = true
		cpu, system = r.GetConfig("cpu"), r.GetConfig("goos")+"/"+r.GetConfig("goarch")
		c := cell{bench, impl}
		if sec, ok := r.Value("sec/op"); ok {
			ns[c] = append(ns[c], sec*1e9)
		}
		if n, ok := r.Value("allocs/op"); ok {
			allocs[c] = append(allocs[c], n)
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(seen) > 1 {
		return nil, fmt.Errorf("the benchmarks ran with several values of GOMAXPROCS; -procs says which to draw")
	}
	t := &table.Table{Columns: costColumns}
	for maxprocs := range seen {
		t.About = append(t.About, table.Fact{Key: "hardware", Value: fmt.Sprintf("%s, %s cores, %s", cpu, maxprocs, system)})
	}
	for _, row := range rows {
		for _, contender := range contenders {
			c := cell{row.bench, contender.impl}
			if x := ns[c]; len(x) > 0 {
				t.Add(c.bench, c.impl, median(x), slices.Min(x), slices.Max(x), median(allocs[c]), len(x))
			}
		}
	}
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("none of the benchmarks that are drawn is there")
	}
	return t, nil
}

// split takes a benchmark's name apart: AcquireRelease/impl=xsync-2.
func split(name benchfmt.Name) (bench, impl, maxprocs string) {
	base, parts := name.Parts()
	bench, maxprocs = string(base), "1"
	for _, part := range parts {
		text := string(part)
		if value, ok := strings.CutPrefix(text, "/impl="); ok {
			impl = value
		} else if value, ok := strings.CutPrefix(text, "-"); ok {
			maxprocs = value
		} else {
			bench += text
		}
	}
	return bench, impl, maxprocs
}

// drawn reports whether the picture has that row and contender.
func drawn(bench, impl string) bool {
	for _, r := range rows {
		for _, c := range contenders {
			if r.bench == bench && c.impl == impl {
				return true
			}
		}
	}
	return false
}

// median returns the median of x, and 0 if it is empty.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// benchFacts returns where the benchmarks come from: made by that command and
// finished at that time, with the peers that the module in dir requires.
func benchFacts(command string, finished time.Time, dir string) ([]table.Fact, error) {
	args := []string{"list", "-C", dir, "-m", "-f", "{{.Path}} {{.Version}}"}
	for _, c := range contenders {
		if c.module != "" {
			args = append(args, c.module)
		}
	}
	out, err := exec.Command("go", args...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("the peers' versions: %w\n%s", err, out)
	}
	peers := strings.Split(strings.TrimSpace(string(out)), "\n")
	return []table.Fact{
		{Key: "command", Value: command},
		{Key: "date", Value: finished.UTC().Format("2006-01-02 15:04 UTC")},
		{Key: "versions", Value: strings.Join(append([]string{runtime.Version()}, peers...), ", ")},
	}, nil
}
