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

// TestReportsCanBePasted vets what is shown for many scripts, as tests in one
// file.
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
)

var (
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
		code, _ := p.code()
		b.WriteString("\n" + strings.Replace(code, "TestShrunk", fmt.Sprintf("TestShrunk%d", i), 1))
	}
	file := filepath.Join(t.TempDir(), "shrunk_test.go")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(goCommand, "vet", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
