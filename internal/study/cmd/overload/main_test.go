package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/internal/study/table"
)

// TestMain makes the test binary the service's process, when it is started as
// that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveCommand {
		main()
		return
	}
	os.Exit(m.Run())
}

// A real run, of which only that can be told for sure which no load of the
// machine changes.
func TestRealRunReconciles(t *testing.T) {
	before := runtime.NumGoroutine()
	file := filepath.Join(t.TempDir(), "overload.tsv")
	var stderr bytes.Buffer
	err := command(t.Context(), []string{"-short", "-o", file}, nil, io.Discard, &stderr)
	if _, doubted := errors.AsType[doubts](err); err != nil && !doubted {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := table.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	s := short()
	if want := len(s.guards) * len(s.loads); len(got.Rows) != want {
		t.Errorf("%d rows, want %d", len(got.Rows), want)
	}
	for _, key := range []string{"command", "date", "versions", "hardware", "downstream", "clients"} {
		if got.Fact(key) == "" {
			t.Errorf("the header does not tell the %s", key)
		}
	}
	highest := 0.0
	err = got.Each(func(r *table.Row) error {
		name := r.Text("guard") + " at " + r.Text("load")
		sum := r.Number("served") + r.Number("refused") + r.Number("gave_up") + r.Number("failed")
		if offered := r.Number("offered"); sum != offered || offered == 0 {
			t.Errorf("%s: %v served, refused, gave up or failed of %v", name, sum, offered)
		}
		if n := r.Number("failed"); n > 0 {
			t.Errorf("%s: %v failed", name, n)
		}
		if !strings.HasPrefix(name, "bulkhead") && r.Number("refused") > 0 {
			t.Errorf("%s: %v refused, want none", name, r.Number("refused"))
		}
		n := r.Number("highest_downstream")
		if n > float64(s.capacity) && r.Text("guard") != "none" {
			t.Errorf("%s: %v calls at once downstream, want at most %d", name, n, s.capacity)
		}
		highest = max(highest, n)
		for _, column := range []string{"peak_MB", "peak_goroutines", "cpu_share"} {
			if x := r.Number(column); !(x > 0) {
				t.Errorf("%s: %s = %v, want more than 0", name, column, x)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if highest == 0 {
		t.Error("no call ever reached a downstream")
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
			break
		}
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
		{t.Context(), []string{"-o", filepath.Join(t.TempDir(), "none", "x")}, "no such file"},
		{t.Context(), []string{"serve", "-guard=luck"}, `no guard is called "luck"`},
		{t.Context(), []string{"serve", "-guard=bulkhead-1s"}, "MaxConcurrent is 0"},
		{interrupted, []string{"-short"}, "context canceled"},
	} {
		err := command(tc.ctx, tc.args, strings.NewReader(""), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %v, want one with %q", tc.args, err, tc.want)
		}
	}
}
