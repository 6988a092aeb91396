package proptest

import (
	"fmt"
	"regexp"
	"strings"
)

// made reports whether s makes the call.
func (b *blamed) made(s step) bool {
	if b == nil || s.call != b.i || s.n < 0 {
		return false
	}
	switch s.op {
	case acquire, acquireWithin, acquireAsync, acquireFunc:
		return b.kind == requests
	case drainOp:
		return b.kind == drains
	case awaitOp:
		return b.kind == awaits
	}
	return false
}

// name is the variable for what the call returns.
func (b *blamed) name() string { return fmt.Sprintf("%v%d", b.kind, b.i+1) }

// record returns the lines that make the call and keep what it returns.
func (b *blamed) record(call string) []string {
	if strings.HasPrefix(call, "sem.AcquireAsync(") || strings.HasPrefix(call, "sem.AcquireFunc(") {
		return []string{fmt.Sprintf("p%d := %s", b.i+1, call)}
	}
	return []string{
		b.name() + " := make(chan error, 1)",
		fmt.Sprintf("go func() { %s <- %s }()", b.name(), call),
	}
}

// assert returns the lines that fail the test at its end, if v is of a call or
// of the Stats.
func (p *player) assert(v *violation) []string {
	if v.stats != nil {
		return []string{
			fmt.Sprintf("if got, want := sem.Stats(), (%#v); got != want {", *v.stats),
			"\tt.Errorf(\"Stats() = %+v, want %+v\", got, want)",
			"}",
		}
	}
	b := v.call
	if b == nil {
		return nil
	}
	differs, want := p.differs(b.want)
	if p.calls[b.kind][b.i].pending != nil {
		return []string{
			fmt.Sprintf("if err := p%d.Err(); %s {", b.i+1, differs),
			fmt.Sprintf("\tt.Errorf(\"%v %d: %%v, want %s\", err)", b.kind, b.i+1, want),
			"}",
		}
	}
	lines := []string{"select {", fmt.Sprintf("case err := <-%s:", b.name())}
	report := fmt.Sprintf("t.Errorf(\"%v %d returned %%v, want %s\", err)", b.kind, b.i+1, want)
	if b.want == pending {
		return append(lines, "\t"+report, "default:", "}")
	}
	return append(lines, fmt.Sprintf("\tif %s {", differs), "\t\t"+report, "\t}",
		"default:", fmt.Sprintf("\tt.Error(\"%v %d still waits, want %s\")", b.kind, b.i+1, want), "}")
}

// differs returns the condition for err not to be what is wanted, and what that
// is.
func (p *player) differs(want outcome) (condition, what string) {
	switch want {
	case ok:
		return "err != nil", "nil"
	case canceled:
		return "err != context.Canceled", "context.Canceled"
	case deadlined:
		return "err != context.DeadlineExceeded", "context.DeadlineExceeded"
	}
	name, own := map[outcome]string{
		pending: "ErrPending", timedOut: "ErrTimeout", queueFull: "ErrQueueFull",
		closed: "ErrClosed", oversized: "ErrExceedsLimit",
	}[want], p.statable != nil || want == pending
	if want == pending {
		what = "it to wait"
	} else if what = "an error"; own {
		what = name
	}
	if !own {
		return "err == nil", what
	}
	return "err != semaphore." + name, what
}

// imports are the packages that a report may use, and how to see it.
var imports = []struct {
	path string
	used *regexp.Regexp
}{
	{"context", regexp.MustCompile(`\bcontext\.[A-Z]`)},
	{"math", regexp.MustCompile(`\bmath\.[A-Z]`)},
	{"testing", regexp.MustCompile(`\btesting\.T`)},
	{"testing/synctest", regexp.MustCompile(`\bsynctest\.[A-Z]`)},
	{"time", regexp.MustCompile(`\btime\.[A-Z]`)},
	{"github.com/turnstile-go/turnstile/semaphore", regexp.MustCompile(`\bsemaphore\.[A-Z]`)},
}

// preface says what the test shows, and what it imports.
func preface(v *violation, code string) string {
	var used []string
	for _, i := range imports {
		if i.used.MatchString(code) {
			used = append(used, fmt.Sprintf("%q", i.path))
		}
	}
	shows := strings.ReplaceAll(v.Error(), "\n", "\n// ")
	s := "// TestShrunk shows " + shows + "\n"
	if !strings.Contains(code, "t.Error") {
		s += "// If it neither panics nor hangs, add that as an assertion.\n"
	}
	return s + "//\n// Imports: " + strings.Join(used, ", ") + "\n"
}
