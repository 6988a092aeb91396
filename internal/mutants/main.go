// Mutants shows that the tests would notice if the library broke. Each patch in
// testdata breaks it in one small way: a condition the wrong way round, a line
// that is missing, a bound that is off by one. Mutants runs the tests on each
// mutant and fails if one survives.
//
// The working tree is not touched: the compiler is handed the changed files by
// go test -overlay. A mutant that does not compile proves nothing and fails the
// run, as does a patch that no longer fits the code. A hang counts as noticed.
//
// A patch is what git diff prints, with little context, under a first line that
// names the invariant and says how it is broken. A mutant may yield where it is
// wrong, so that a race of nanoseconds happens each time.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"time"
)

// tests are those that must notice. Package proptest has others, of the harness
// itself, on semaphores that are not ours.
var tests = []selection{
	{packages: "./internal/waitq"},
	{packages: "./event/..."},
	{packages: "./semaphore"},
	{packages: "./bulkhead/..."},
	{packages: "./proptest", run: "^Test(Check|Stress|Bulkhead)$"},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run judges the patches in the files named, or all there are.
func run(ctx context.Context, files []string) error {
	m, err := findModule(ctx, ".")
	if err != nil {
		return err
	}
	if len(files) == 0 {
		if files, err = filepath.Glob(filepath.Join(m.dir, "internal/mutants/testdata/*.patch")); err != nil {
			return err
		}
	}
	patches, err := readPatches(files)
	if err != nil {
		return err
	}
	s := &suite{module: m, patience: 5 * time.Second}
	if err := s.load(ctx, os.Stdout, tests); err != nil {
		return err
	}
	return judgeAll(ctx, os.Stdout, s, patches, runtime.GOMAXPROCS(0))
}

// judgeAll judges each patch, at most jobs at a time, and writes a line on each
// to w, in their order.
func judgeAll(ctx context.Context, w io.Writer, s *suite, patches []patch, jobs int) error {
	width := 0
	for _, p := range patches {
		width = max(width, len(p.name))
	}
	judgements := make([]chan judgement, len(patches))
	for i := range judgements {
		judgements[i] = make(chan judgement, 1)
	}
	go func() {
		slots := make(chan struct{}, jobs)
		for i, p := range patches {
			slots <- struct{}{}
			go func() {
				judgements[i] <- judge(ctx, s, p)
				<-slots
			}()
		}
	}()
	start, bad := time.Now(), 0
	for i, p := range patches {
		j := <-judgements[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintf(w, "%-*s  %5.1fs  %s\n", width, p.name, j.took.Seconds(), j)
		if !j.caught {
			bad++
			fmt.Fprintf(w, "\t%s\n", p.title)
		}
	}
	fmt.Fprintf(w, "%d mutants in %.0fs, %d of them caught\n", len(patches), time.Since(start).Seconds(), len(patches)-bad)
	if bad > 0 {
		return fmt.Errorf("%d of %d mutants were not caught", bad, len(patches))
	}
	return nil
}

// judgement is what became of one mutant.
type judgement struct {
	caught bool
	by     string // the package and test that noticed
	err    error  // why there was nothing to judge
	took   time.Duration
}

func (j judgement) String() string {
	switch {
	case j.err != nil:
		return "INVALID: " + j.err.Error()
	case j.caught:
		return j.by
	default:
		return "SURVIVED"
	}
}

// judge runs the tests that should notice p, up to the first that does.
func judge(ctx context.Context, s *suite, p patch) (j judgement) {
	start := time.Now()
	defer func() { j.took = time.Since(start) }()
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return judgement{err: err}
	}
	defer os.RemoveAll(dir)
	overlay, err := p.apply(ctx, s.module.dir, dir)
	if err != nil {
		return judgement{err: err}
	}
	for _, pkg := range s.concerned(p.files) {
		failed, err := s.test(ctx, pkg, overlay, s.timeout(pkg))
		if failed != "" || err != nil {
			return judgement{caught: failed != "", by: pkg.name + " " + failed, err: err}
		}
	}
	return judgement{}
}
