package proptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstile-go/turnstile/semaphore"
)

// TestReportsCanBePasted vets what is shown for many scripts, with one assertion
// or another, as tests in one file.
func TestReportsCanBePasted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	var b strings.Builder
	b.WriteString(`package shrunk

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

var (
	_ semaphore.Stats
	_ context.Context
	_ time.Duration = math.MaxInt64
)

type sem interface {
	Acquire(ctx context.Context, n int64) error
	AcquireWithin(ctx context.Context, n int64, maxWait time.Duration) error
	TryAcquire(n int64) bool
	Release(n int64)
	SetLimit(limit int64)
	Close()
	Drain(ctx context.Context) error
	Stats() any
	AcquireAsync(ctx context.Context, n int64, maxWait time.Duration) pending
	AcquireFunc(ctx context.Context, n int64, maxWait time.Duration, f func(error)) pending
}

type pending interface {
	Cancel() bool
	Err() error
	Wait(ctx context.Context) error
}

var newSemaphore func(limit int64) sem
`)
	ours := func(limit int64) Semaphore { return semaphore.NewWeighted(limit) }
	c := newProperty(t, ours, Options{})
	for i := range 200 {
		p := newPlayer(c.scripts.Example(i), &c.opts)
		if v := c.watched(p); v != nil {
			t.Fatal(v)
		}
		code, _ := p.code(anyViolation(p, i))
		b.WriteString("\n" + strings.Replace(code, "func TestShrunk", fmt.Sprintf("func TestShrunk%d", i), 1))
	}
	file := filepath.Join(t.TempDir(), "shrunk_test.go")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(goCommand, "vet", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// anyViolation says that p has shown something, which is another for each i.
func anyViolation(p *player, i int) *violation {
	v := violated(layout, "no fault")
	last := p.steps[len(p.steps)-1].op
	switch i % 4 {
	case 0, 1:
		k := kind(i / 4 % int(kinds))
		if n := len(p.calls[k]); n > 0 {
			v.call = &blamed{k, i / 12 % n, outcome(i / 2 % int(oversized+1))}
		}
	case 2:
		v.step = last == try || last == withdraw
	default:
		v.stats = new(semaphore.Stats)
	}
	return v
}

// TestPastedReportFails runs reports on the semaphore that they are of.
func TestPastedReportFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	tests := map[string]struct {
		script script
		want   string
	}{
		"TestCall":    {script{1, []action{{op: try, n: 1}, {op: acquire, n: 1}, {op: acquire, n: 0}, {op: cancel}}}, "request 2 still waits, want nil"},
		"TestRefused": {script{1, []action{{op: acquire, n: 3}}}, "request 1 still waits, want an error"},
		"TestStep":    {script{0, []action{{op: acquire, n: 1}, {op: try, n: 0}}}, "sem.TryAcquire(0) = true, want false"},
	}
	code := ""
	for name, test := range tests {
		v := newProperty(t, newXSync, Options{}).play(test.script)
		if v == nil {
			t.Fatalf("%s: no violation", name)
		}
		code += strings.Replace(v.code, "func TestShrunk", "func "+name, 1)
	}
	file := filepath.Join(t.TempDir(), "shrunk_test.go")
	header := "package shrunk\n\nimport (\n\t\"context\"\n\t\"testing\"\n\t\"testing/synctest\"\n\n" +
		"\t\"golang.org/x/sync/semaphore\"\n)\n\nvar newSemaphore = semaphore.NewWeighted\n\n"
	if err := os.WriteFile(file, []byte(header+code), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		out, err := exec.Command(goCommand, "test", "-run=^"+name+"$", file).CombinedOutput()
		if err == nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%s passed or did not say %q:\n%s\n%s", name, test.want, out, code)
		}
	}
}
