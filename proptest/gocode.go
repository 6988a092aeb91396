package proptest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// longestReport is how many steps of a script are shown.
const longestReport = 200

// code returns what was done as a test that shows v, to be pasted beside a
// function newSemaphore, and how many steps it has.
func (p *player) code(v *violation) (code string, steps int) {
	var b strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "\t\t"+format+"\n", args...)
	}
	steps = len(p.steps)
	// The player is over.
	p.steps = p.steps[:min(steps, longestReport)]
	if v.call != nil && (steps > longestReport || p.calls[v.call.kind][v.call.i].panicked != nil) {
		v.call = nil // it is not shown, or panics again
	}
	b.WriteString("func TestShrunk(t *testing.T) {\n\tsynctest.Test(t, func(t *testing.T) {\n")
	line("sem := newSemaphore(%s)", number(p.script.limit))
	declared := map[int]bool{}
	for i, s := range p.steps {
		if k := s.scope; k >= 0 && !declared[k] && p.named(k) {
			declared[k] = true
			p.declare(k, line)
		}
		switch last := i == steps-1; {
		case v.call.made(s):
			for _, l := range v.call.record(p.expression(s)) {
				line("%s", l)
			}
		case last && v.step:
			line("if got := %s; got != %t {", p.expression(s), !s.result)
			line("\tt.Errorf(\"%s = %%t, want %t\", got)", p.expression(s), !s.result)
			line("}")
		default:
			line("%s", p.statement(s))
		}
		if s.rested {
			line("synctest.Wait()%s", p.news(i))
		}
	}
	if more := steps - len(p.steps); more > 0 {
		line("// and %d more steps, which could not be made fewer", more)
	}
	for _, l := range p.assert(v) {
		line("%s", l)
	}
	b.WriteString("\t})\n}\n")
	return preface(v, b.String()) + b.String(), steps
}

// named reports whether context k needs a name: whether it ends while the
// script runs.
func (p *player) named(k int) bool {
	switch p.scopes[k].kind {
	case expiring, done:
		return true
	}
	return slices.ContainsFunc(p.steps, func(s step) bool { return s.op == cancel && s.scope == k })
}

// used reports whether a later step refers to the asynchronous request i.
func (p *player) used(i int) bool {
	return slices.ContainsFunc(p.steps, func(s step) bool {
		return s.op == withdraw && s.call == i || s.op == awaitOp && s.n == int64(i)
	})
}

// declare writes the lines that make context k.
func (p *player) declare(k int, line func(string, ...any)) {
	s := p.scopes[k]
	with := "context.WithCancel(t.Context())"
	if s.kind == expiring {
		with = fmt.Sprintf("context.WithTimeout(t.Context(), %s)", duration(s.expiry))
	}
	line("ctx%d, cancel%d := %s", k+1, k+1, with)
	if s.kind == done {
		line("cancel%d()", k+1)
	} else {
		line("defer cancel%d()", k+1)
	}
}

// statement returns s as a line of code.
func (p *player) statement(s step) string {
	call := p.expression(s)
	switch {
	case s.n < 0 || s.op == overRelease:
		return fmt.Sprintf("func() { defer func() { if recover() == nil { t.Error(%q) } }(); %s }()", call+" did not panic", call)
	case s.op == acquire || s.op == acquireWithin:
		return fmt.Sprintf("go func() { t.Log(\"request %d:\", %s) }()", s.call+1, call)
	case s.op == drainOp:
		return fmt.Sprintf("go func() { t.Log(\"drain %d:\", %s) }()", s.call+1, call)
	case s.op == awaitOp:
		return fmt.Sprintf("go func() { t.Log(\"wait %d:\", %s) }()", s.call+1, call)
	case (s.op == acquireAsync || s.op == acquireFunc) && p.used(s.call):
		return fmt.Sprintf("p%d := %s", s.call+1, call)
	case s.op == statsOp:
		return fmt.Sprintf("t.Logf(\"%%+v\", %s)", call)
	case s.op == try || s.op == withdraw:
		return fmt.Sprintf("t.Log(%s) // %t", call, s.result)
	}
	return call
}

// expression returns the call that s makes.
func (p *player) expression(s step) string {
	ctx := "t.Context()"
	if s.scope >= 0 && p.named(s.scope) {
		ctx = fmt.Sprintf("ctx%d", s.scope+1)
	}
	n := number(s.n)
	switch s.op {
	case acquire:
		return fmt.Sprintf("sem.Acquire(%s, %s)", ctx, n)
	case acquireWithin:
		return fmt.Sprintf("sem.AcquireWithin(%s, %s, %s)", ctx, n, duration(s.wait))
	case try:
		return fmt.Sprintf("sem.TryAcquire(%s)", n)
	case acquireAsync:
		return fmt.Sprintf("sem.AcquireAsync(%s, %s, %s)", ctx, n, duration(s.wait))
	case acquireFunc:
		return fmt.Sprintf("sem.AcquireFunc(%s, %s, %s, func(err error) { t.Log(\"request %d:\", err) })",
			ctx, n, duration(s.wait), s.call+1)
	case withdraw:
		return fmt.Sprintf("p%d.Cancel()", s.call+1)
	case awaitOp:
		return fmt.Sprintf("p%d.Wait(%s)", s.n+1, ctx)
	case release, overRelease:
		return fmt.Sprintf("sem.Release(%s)", n)
	case cancel:
		return fmt.Sprintf("cancel%d()", s.scope+1)
	case setLimit:
		return fmt.Sprintf("sem.SetLimit(%s)", n)
	case pass:
		return fmt.Sprintf("time.Sleep(%s)", duration(s.wait))
	case drainOp:
		return fmt.Sprintf("sem.Drain(%s)", ctx)
	case closeOp:
		return "sem.Close()"
	case statsOp:
		return "sem.Stats()"
	}
	panic("proptest: no such step")
}

// news says what was seen when the bubble came to rest after step i.
func (p *player) news(i int) string {
	var news []string
	for k, calls := range p.calls {
		for j, c := range calls {
			if c.outcome != pending && c.step == i {
				news = append(news, fmt.Sprintf("%v %d: %v", kind(k), j+1, c.result()))
			}
		}
	}
	if len(news) == 0 {
		return ""
	}
	return " // " + strings.Join(news, ", ")
}

// result is what a returned call returned.
func (c *call) result() any {
	if c.panicked != nil {
		return fmt.Sprint("panic: ", c.panicked)
	}
	return c.err
}

func number(n int64) string {
	switch n {
	case math.MaxInt64:
		return "math.MaxInt64"
	case math.MinInt64:
		return "math.MinInt64"
	}
	return fmt.Sprint(n)
}

func duration(d time.Duration) string {
	switch {
	case d == math.MaxInt64:
		return "math.MaxInt64"
	case d > never/2:
		return fmt.Sprintf("math.MaxInt64-%d", math.MaxInt64-d)
	case d > 0 && d%time.Microsecond == 0:
		return fmt.Sprintf("%d*time.Microsecond", d/time.Microsecond)
	}
	return fmt.Sprint(int64(d))
}
