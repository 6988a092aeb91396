package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/internal/study/table"
)

// TestMain makes the test binary the process of a measurement, when it is started
// as that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == measureCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestCommandMeasures(t *testing.T) {
	var out, stderr bytes.Buffer
	if err := command(t.Context(), []string{"-runs=1", "-sizes=1000,3000"}, &out, &stderr); err != nil {
		t.Fatal(err)
	}
	got, err := table.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"command", "date", "versions", "hardware", "runs"} {
		if got.Fact(key) == "" {
			t.Errorf("the header does not tell the %s", key)
		}
	}
	if want := 2 * len(contenders); len(got.Rows) != want {
		t.Errorf("%d rows, want %d", len(got.Rows), want)
	}
	err = got.Each(func(r *table.Row) error {
		name, calls := r.Text("how"), r.Number("calls")
		for _, column := range []string{"queue_ms", "drain_ms", "drain_ns_per_call"} {
			if x := r.Number(column); !(x > 0) {
				t.Errorf("%s: %s = %v, want more than 0", name, column, x)
			}
		}
		// A stack has at least 2 KiB.
		goroutines, memory := r.Number("goroutines"), r.Number("bytes_per_call")
		if strings.HasSuffix(name, "goroutine") {
			if goroutines < calls || memory < 2048 {
				t.Errorf("%s: %v goroutines, %v B per call, want one for each call", name, goroutines, memory)
			}
		} else if goroutines > 10 || memory > 1024 || memory < 100 {
			t.Errorf("%s: %v goroutines, %v B per call, want no goroutines", name, goroutines, memory)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestEveryCallIsServedOnce(t *testing.T) {
	for _, c := range contenders {
		q := c.queue(100)
		for range 100 {
			q.add(t.Context())
		}
		q.settle()
		if served := q.drain(t.Context()); served != 100 {
			t.Errorf("%s: %d of 100 calls were served", c.name, served)
		}
	}
}

func TestUnservedCallsAreNotMeasured(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range contenders {
		_, err := measure(ctx, c.name, 10)
		if want := c.name + ": 0 of 10 calls were served"; err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestMedianIsOfEachFigure(t *testing.T) {
	got := median([]figures{
		{Bytes: 1, Goroutines: 9, Queue: 2 * time.Second, Drain: time.Second},
		{Bytes: 5, Goroutines: 8, Queue: 3 * time.Second, Drain: time.Minute},
		{Bytes: 3, Goroutines: 7, Queue: time.Second, Drain: time.Hour},
	})
	want := figures{Bytes: 3, Goroutines: 8, Queue: 2 * time.Second, Drain: time.Minute}
	if got != want {
		t.Errorf("median %+v, want %+v", got, want)
	}
}

func TestCommandFails(t *testing.T) {
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, tc := range []struct {
		ctx  context.Context
		args []string
		want string
	}{
		{t.Context(), []string{"-x"}, "-x"},
		{t.Context(), []string{"-runs=0"}, "-runs is 0"},
		{t.Context(), []string{"-sizes=1,0"}, `"0" is not a number of calls`},
		{t.Context(), []string{"-o", filepath.Join(t.TempDir(), "none", "x")}, "no such file"},
		{t.Context(), []string{"measure", "luck", "1"}, `no way to queue is called "luck"`},
		{t.Context(), []string{"measure", "goroutine"}, "1 arguments"},
		{t.Context(), []string{"measure", "goroutine", "x"}, `"x" is not`},
		{interrupted, nil, "context canceled"},
	} {
		err := command(tc.ctx, tc.args, io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %v, want one with %q", tc.args, err, tc.want)
		}
	}
}
