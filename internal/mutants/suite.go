package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// module is the one whose code is mutated.
type module struct{ path, dir string }

// findModule returns the module that dir is in.
func findModule(ctx context.Context, dir string) (module, error) {
	out, err := goList(ctx, dir, "-m", "-f", "{{.Path}}\t{{.Dir}}")
	modPath, modDir, _ := strings.Cut(strings.TrimSpace(out), "\t")
	return module{modPath, modDir}, err
}

// importPath returns that of the package in a directory below the module's.
func (m module) importPath(dir string) string { return path.Join(m.path, filepath.ToSlash(dir)) }

// suite is the tests of several packages.
type suite struct {
	module   module
	patience time.Duration // how much longer than usual tests may take
	packages []testedPackage
}

// selection is some tests of some packages.
type selection struct {
	packages string // a pattern of go list
	run      string // a pattern of go test -run
}

type testedPackage struct {
	path string
	name string        // the path from the module's on
	run  string        // which tests
	deps []string      // the paths of the packages whose code is in its test binary
	took time.Duration // by its tests, on the code as it is
}

// timeout is that of the package's tests on a mutant, which may hang. Others may
// keep the machine busier than it was when they ran on the code as it is.
func (s *suite) timeout(pkg testedPackage) time.Duration { return s.patience + 2*pkg.took }

// load finds the packages that are selected, and runs their tests on the code as
// it is: if they fail on that, it means nothing that they fail on a mutant. It
// writes a line on each to w.
func (s *suite) load(ctx context.Context, w io.Writer, selections []selection) error {
	for _, sel := range selections {
		out, err := goList(ctx, s.module.dir, "-test", "-f", `{{.ImportPath}}{{"\t"}}{{join .Deps "\t"}}`, sel.packages)
		if err != nil {
			return err
		}
		for line := range strings.Lines(out) {
			fields := strings.Split(strings.TrimSpace(line), "\t")
			path, binary := strings.CutSuffix(fields[0], ".test")
			if !binary {
				continue
			}
			pkg := testedPackage{path: path, name: strings.TrimPrefix(path, s.module.path+"/"), run: sel.run}
			for _, dep := range fields[1:] {
				dep, _, _ = strings.Cut(dep, " ") // "p [q.test]": p, compiled for the tests of q
				pkg.deps = append(pkg.deps, dep)
			}
			if err := s.tryOut(ctx, &pkg); err != nil {
				return fmt.Errorf("the tests of %s fail on the code as it is: %w", pkg.name, err)
			}
			fmt.Fprintf(w, "the tests of %s pass on the code as it is, in %.1fs\n", pkg.name, pkg.took.Seconds())
			s.packages = append(s.packages, pkg)
		}
	}
	return nil
}

// tryOut runs the tests of pkg, which must pass, and notes how long they take.
func (s *suite) tryOut(ctx context.Context, pkg *testedPackage) error {
	start := time.Now()
	failed, err := s.test(ctx, *pkg, "", 5*time.Minute)
	if failed != "" {
		return errors.New(failed)
	}
	pkg.took = time.Since(start)
	return err
}

// concerned returns the packages whose tests depend on one of the files: its own
// first, as that is the most likely to notice, and then the quickest.
func (s *suite) concerned(files []string) (concerned []testedPackage) {
	touched := map[string]bool{}
	for _, file := range files {
		touched[s.module.importPath(filepath.Dir(file))] = true
	}
	for _, pkg := range s.packages {
		if slices.ContainsFunc(pkg.deps, func(dep string) bool { return touched[dep] }) {
			concerned = append(concerned, pkg)
		}
	}
	slices.SortFunc(concerned, func(a, b testedPackage) int {
		switch {
		case touched[a.path] == touched[b.path]:
			return cmp.Compare(a.took, b.took)
		case touched[a.path]:
			return -1
		default:
			return 1
		}
	})
	return concerned
}

// test runs the tests of a package with an overlay, if there is one, up to the
// first that fails, and returns which that was, and how. An error means that there was
// nothing to run.
func (s *suite) test(ctx context.Context, pkg testedPackage, overlay string, timeout time.Duration) (failed string, err error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-vet=off", "-short", "-count=1", "-failfast",
		"-timeout="+timeout.String(), "-run="+pkg.run, "-overlay="+overlay, pkg.path)
	cmd.Dir = s.module.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, failure := cmd.Output()
	if failure == nil {
		if bytes.Contains(out, []byte("no tests to run")) {
			err = fmt.Errorf("no test matches %s", pkg.run)
		}
		return "", err
	}
	failed, err = readFailure(bytes.NewReader(out))
	if failed == "" && err == nil {
		err = fmt.Errorf("go test: %w: %s", failure, bytes.TrimSpace(stderr.Bytes()))
	}
	return failed, err
}

// readFailure returns which test failed first, by the output of go test -json,
// or, as an error, what the compiler says.
func readFailure(out io.Reader) (failed string, err error) {
	var compiler strings.Builder
	var running []string
	timedOut := false
	for events := json.NewDecoder(out); ; {
		var e struct{ Action, Test, Output, FailedBuild string }
		if err := events.Decode(&e); err == io.EOF {
			return "", nil
		} else if err != nil {
			return "", fmt.Errorf("go test -json: %w", err)
		}
		switch e.Action {
		case "build-output":
			compiler.WriteString(e.Output)
		case "output":
			timedOut = timedOut || strings.HasPrefix(e.Output, "panic: test timed out")
		case "run":
			running = append(running, e.Test)
		case "pass", "skip":
			running = slices.DeleteFunc(running, func(test string) bool { return test == e.Test })
		case "fail":
			if e.FailedBuild != "" {
				return "", fmt.Errorf("it does not compile:\n%s", compiler.String())
			}
			if e.Test != "" {
				return e.Test, nil
			}
			// The process ended. Whoever began last has most likely done it.
			last := "TestMain"
			if len(running) > 0 {
				last = running[len(running)-1]
			}
			if timedOut {
				return last + " (timed out)", nil
			}
			return last + " (crashed)", nil
		}
	}
}

// goList runs go list in dir and returns what it prints.
func goList(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, args...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("go list: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), err
}
