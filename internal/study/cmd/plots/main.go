// Plots draws the pictures of the README, each for light and for dark pages.
//
// Usage:
//
//	plots [-bench file] [-procs n] [-data dir] [-o dir]
//
// It reads cost.tsv, queued.tsv and overload.tsv in the directory of the data and
// writes SVG files. With -bench it first makes cost.tsv of the output of the
// benchmarks, which make bench keeps in bench.txt. It is meant to be run in the
// directory of this module.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/turnstile-go/turnstile/internal/study/table"
)

func main() {
	if err := command(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "plots:", err)
		os.Exit(1)
	}
}

func command(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("plots", flag.ContinueOnError)
	flags.SetOutput(stderr)
	bench := flags.String("bench", "", "make cost.tsv of the output of the benchmarks in this `file`")
	from := flags.String("command", "make bench", "the `command` that made the output")
	procs := flags.String("procs", "", "the `value` of GOMAXPROCS to take, if the output has several")
	peers := flags.String("peers", "../bench", "the `directory` of the module of the benchmarks, for its peers' versions")
	data := flags.String("data", "../../docs/data", "the `directory` of the data")
	out := flags.String("o", "../../docs/plots", "write the pictures to this `directory`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *bench != "" {
		if err := writeCost(filepath.Join(*data, "cost.tsv"), *bench, *from, *procs, *peers); err != nil {
			return err
		}
	}
	figures, err := load(*data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o777); err != nil {
		return err
	}
	for _, f := range figures {
		for _, th := range themes {
			svg, err := f.svg(th)
			if err != nil {
				return err
			}
			file := filepath.Join(*out, f.file(th))
			if err := os.WriteFile(file, svg, 0o666); err != nil {
				return err
			}
			fmt.Fprintln(stdout, file)
		}
	}
	return nil
}

// file returns the name of the figure's file.
func (f figure) file(th theme) string { return f.name + "-" + th.name + ".svg" }

// load returns all the pictures of the data in dir.
func load(dir string) ([]figure, error) {
	var all []figure
	one := func(name string, draw func(*table.Table) ([]figure, error)) error {
		t, err := read(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if len(t.Rows) == 0 {
			return fmt.Errorf("%s: it has no rows", name)
		}
		figures, err := draw(t)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, figures...)
		return nil
	}
	err := errors.Join(one("cost.tsv", cost), one("queued.tsv", queued), one("overload.tsv", overload))
	return all, err
}

func read(file string) (*table.Table, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := table.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// writeCost makes the file of the benchmarks' output.
func writeCost(file, bench, command, procs, peers string) error {
	info, err := os.Stat(bench)
	if err != nil {
		return err
	}
	in := &benchfmt.Files{Paths: []string{bench}}
	t, err := summarize(in, procs)
	if err != nil {
		return fmt.Errorf("%s: %w", bench, err)
	}
	facts, err := benchFacts(command, info.ModTime(), peers)
	if err != nil {
		return err
	}
	t.About = append(facts, t.About...)
	var text strings.Builder
	if err := t.Write(&text); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text.String()), 0o666)
}

// notes returns the lines under a picture that say where its figures come from.
func notes(t *table.Table) []string {
	return []string{
		t.Fact("versions") + ".",
		t.Fact("hardware") + ", " + t.Fact("date") + ": " + t.Fact("command"),
	}
}
