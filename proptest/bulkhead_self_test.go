package proptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	events "github.com/turnstile-go/turnstile/event"
)

// TestBulkheadScriptsReach shows that scripts come to all that is to be compared.
func TestBulkheadScriptsReach(t *testing.T) {
	reached := map[string]bool{}
	note := func(format string, args ...any) { reached[fmt.Sprintf(format, args...)] = true }
	c := &callProperty{t: t, ways: asIs}
	for i := range 2000 {
		p := newCallPlayer(callScripts.Example(i), ours)
		if v := c.bubble(p); v != nil {
			t.Fatal(v)
		}
		for _, at := range p.moments {
			for _, mv := range at.moves {
				note("%v, joined: %t", mv.verb, len(at.moves) > 1)
			}
		}
		for i, a := range p.attempts {
			note("%v left: %d", p.model.attempts[i].verb, a.result.how)
		}
		for _, call := range p.model.calls {
			note("async %t: %v %v", call.verb.async(), call.refusal.reason, call.refusal.err)
			note("waited %t", call.ran && call.waited > 0)
		}
		for _, total := range p.totals {
			for k, n := range total.calls {
				note("told of %v: %t", events.Kind(k), n > 0)
			}
		}
	}
	var want []string
	for v := toExecute; v <= toClose; v++ {
		want = append(want, fmt.Sprintf("%v, joined: false", v))
		if v.meets(toFinish) {
			want = append(want, fmt.Sprintf("%v, joined: true", v))
		}
		switch v {
		case toExecute, toAcquire, toTry, toRun, toDo, toRelease, toPermit, toSetMaxConcurrent:
			for how := returned; how <= exited; how++ {
				want = append(want, fmt.Sprintf("%v left: %d", v, how))
			}
		}
	}
	want = append(want, "Get left: 0", "Get left: 1", "Wait left: 0", "Complete left: 0", "waited true")
	for _, async := range []bool{false, true} {
		for _, why := range []string{
			"full <nil>", "timed_out <nil>", "queue_full <nil>", "too_heavy <nil>", "closed <nil>",
			"Reason(0) context canceled", "Reason(0) context deadline exceeded",
		} {
			want = append(want, fmt.Sprintf("async %t: %s", async, why))
		}
	}
	for k := events.KindPermitted; k <= events.KindLimitChanged; k++ {
		want = append(want, fmt.Sprintf("told of %v: true", k))
	}
	for _, w := range want {
		if !reached[w] {
			t.Errorf("no script came to this: %s", w)
		}
	}
}

// TestCallReportsCanBePasted vets what is shown for many scripts, as tests in one
// file.
func TestCallReportsCanBePasted(t *testing.T) {
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
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

var (
	_ = errors.New
	_ = fmt.Errorf
	_ = runtime.Goexit
	_ time.Duration = math.MaxInt64
	_ event.Listener
)
`)
	c := &callProperty{t: t, ways: asIs}
	for i := range 100 {
		p := newCallPlayer(callScripts.Example(i), ours)
		if v := c.bubble(p); v != nil {
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
