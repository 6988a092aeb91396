package proptest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	events "github.com/turnstile-go/turnstile/event"
)

// String names the method, or what else is done.
func (v verb) String() string {
	return [...]string{
		toExecute: "Execute", toAcquire: "Acquire", toExecuteAsync: "ExecuteAsync", toAcquireAsync: "AcquireAsync",
		toTry: "TryAcquire", toRun: "Run", toDo: "Do", toGo: "Go", toFinish: "finish", toRelease: "Release",
		toComplete: "Complete", toEndContext: "cancel", toPass: "Sleep", toCancel: "Cancel", toPermit: "Permit",
		toWait: "Wait", toGet: "Get", toSetMaxConcurrent: "SetMaxConcurrent", toSetMaxWait: "SetMaxWait",
		toSubscribe: "Subscribe", toUnsubscribe: "unsubscribe", toDrain: "Drain", toClose: "Close",
	}[v]
}

func (r result) String() string {
	switch {
	case r.how == panicked:
		return fmt.Sprintf("panic: %+v", r.panic)
	case r.how == exited:
		return "Goexit"
	}
	return fmt.Sprintf("%d, %v", r.value, r.err)
}

// code returns what was done as a test, to be pasted, and how many moves it is.
func (p *callPlayer) code() (code string, moves int) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "\t\t"+format+"\n", args...) }
	line(`attempt := func(what string, f func() (any, error)) {
			go func() {
				defer func() {
					if v := recover(); v != nil {
						t.Log(what, "panicked:", v)
					}
				}()
				result, err := f()
				t.Log(what, "returned:", result, err)
			}()
		}`)
	if n := len(p.contexts); n > 1 {
		line("causes := make([]error, %d)", n)
		line("for i := range causes { causes[i] = fmt.Errorf(\"cause %%d\", i) }")
	}
	cfg := fmt.Sprintf("Name: %q, MaxConcurrent: %d, MaxWait: %s, MaxQueue: %d",
		name, p.script.limit, span(p.script.maxWait), p.script.maxQueue)
	if p.script.listener != nil {
		cfg += ", Listener: " + p.listenerCode(0)
	}
	line("b := bulkhead.MustNew[int](bulkhead.Config{%s})", cfg)
	declared := map[int]bool{0: true}
	for _, at := range p.moments {
		for _, mv := range at.moves {
			moves++
			if k := mv.context; k != none && !declared[k] {
				declared[k] = true
				p.declare(k, line)
			}
			line("%s", p.statement(mv))
		}
		var news []string
		for _, i := range at.ended {
			if p.attempts[i].result == (result{}) {
				continue
			}
			news = append(news, fmt.Sprintf("%s: %v", p.describe(i), p.attempts[i].result))
		}
		line("%s", strings.TrimSuffix("synctest.Wait() // "+strings.Join(news, "; "), " // "))
	}
	return "func TestShrunk(t *testing.T) {\n\tsynctest.Test(t, func(t *testing.T) {\n" + b.String() + "\t})\n}\n", moves
}

// declare writes the lines that make context k.
func (p *callPlayer) declare(k int, line func(string, ...any)) {
	c := p.model.contexts[k]
	if c.kind == expiring {
		line("ctx%d, cancel%[1]d := context.WithTimeoutCause(t.Context(), %s, causes[%[1]d])", k, span(c.expiry))
		line("defer cancel%d()", k)
		return
	}
	line("ctx%d, cancel%[1]d := context.WithCancelCause(t.Context())", k)
	if c.kind == done {
		line("cancel%d(causes[%[1]d])", k)
	}
	line("defer cancel%d(nil)", k)
}

// statement returns a move as code.
func (p *callPlayer) statement(mv move) string {
	i, ctx := mv.call+1, contextCode(mv.context)
	attempt := func(body string, args ...any) string {
		return fmt.Sprintf("attempt(%q, func() (any, error) { %s })", p.describe(mv.attempt), fmt.Sprintf(body, args...))
	}
	switch mv.verb {
	case toFinish:
		return fmt.Sprintf("gate%d <- func() error { %s }", i, p.endingCode(mv.call, mv.ending))
	case toRelease:
		return attempt("permit%d.Release(); return nil, nil", i)
	case toComplete:
		return attempt("permit%d.Complete(%s); return nil, nil", i, p.errorCode(mv.call, mv.ending))
	case toEndContext:
		return fmt.Sprintf("cancel%d(causes[%[1]d])", mv.context)
	case toPass:
		return fmt.Sprintf("time.Sleep(%s)", span(mv.wait))
	case toCancel:
		return attempt("return async%d.Cancel(), nil", i)
	case toPermit:
		return attempt("var err error; permit%d, err = async%[1]d.Permit(); return permit%[1]d != nil, err", i)
	case toWait:
		return attempt("var err error; permit%d, err = async%[1]d.Wait(%s); return permit%[1]d != nil, err", i, ctx)
	case toGet:
		return attempt("return async%d.Get(%s)", i, ctx)
	case toSetMaxConcurrent:
		return attempt("return nil, b.SetMaxConcurrent(%s)", number(mv.n))
	case toSetMaxWait:
		return attempt("return nil, b.SetMaxWait(%s)", span(mv.wait))
	case toSubscribe:
		subscribe := fmt.Sprintf("b.Subscribe(%s)", p.listenerCode(mv.listener))
		if p.later(func(m move) bool { return m.verb == toUnsubscribe && m.listener == mv.listener }) {
			return fmt.Sprintf("stop%d := %s", mv.listener, subscribe)
		}
		return subscribe
	case toUnsubscribe:
		return fmt.Sprintf("stop%d()", mv.listener)
	case toDrain:
		return attempt("return nil, b.Drain(%s)", ctx)
	case toClose:
		return "b.Close()"
	}
	return p.callCode(mv)
}

// callCode returns a move that makes a call as code.
func (p *callPlayer) callCode(mv move) string {
	c, i := p.model.calls[mv.call], mv.call+1
	b, ctx := "b", contextCode(c.context)
	if c.weight != 1 {
		b += fmt.Sprintf(".Weighing(%s)", number(c.weight))
	}
	if c.asked != usual {
		b += fmt.Sprintf(".Waiting(%s)", span(c.asked))
	}
	var gate string
	end := fmt.Sprintf("(<-gate%d)()", i)
	switch {
	case c.quick:
		end = fmt.Sprintf("func() error { %s }()", p.endingCode(mv.call, c.ending))
	case c.verb.runs():
		gate = fmt.Sprintf("gate%d := make(chan func() error, 1); defer close(gate%[1]d); ", i)
	}
	fn := fmt.Sprintf("func(context.Context) (int, error) { return %d, %s }", i, end)
	attempt := func(body string, args ...any) string {
		return fmt.Sprintf("attempt(%q, func() (any, error) { %s })", p.describe(mv.attempt), fmt.Sprintf(body, args...))
	}
	async := func(call string) string {
		if p.later(func(m move) bool { return m.call == mv.call && !m.verb.calls() && m.verb != toFinish }) {
			return fmt.Sprintf("async%d := %s", i, call)
		}
		return call
	}
	switch c.verb {
	case toExecute:
		return gate + attempt("return %s.Execute(%s, %s)", b, ctx, fn)
	case toDo:
		return gate + attempt("return bulkhead.Do(%s, %s, %s)", ctx, b, fn)
	case toRun:
		return gate + attempt("return nil, %s.Run(%s, func(context.Context) error { return %s })", b, ctx, end)
	case toExecuteAsync:
		return gate + async(fmt.Sprintf("%s.ExecuteAsync(%s, %s)", b, ctx, fn))
	case toGo:
		return gate + async(fmt.Sprintf("bulkhead.Go(%s, %s, %s)", ctx, b, fn))
	}
	permit := fmt.Sprintf("var permit%d *bulkhead.Permit; ", i)
	switch c.verb {
	case toAcquire:
		return permit + attempt("var err error; permit%d, err = %s.Acquire(%s); return permit%[1]d != nil, err", i, b, ctx)
	case toTry:
		return permit + attempt("var ok bool; permit%d, ok = %s.TryAcquire(); return ok && permit%[1]d != nil, nil", i, b)
	}
	if !p.later(func(m move) bool { return m.call == mv.call && (m.verb == toPermit || m.verb == toWait) }) {
		permit = ""
	}
	return permit + async(fmt.Sprintf("%s.AcquireAsync(%s)", b, ctx))
}

// later reports whether there is a move of the kind.
func (p *callPlayer) later(is func(move) bool) bool {
	for _, at := range p.moments {
		if slices.ContainsFunc(at.moves, is) {
			return true
		}
	}
	return false
}

// endingCode returns the end of a function as code.
func (p *callPlayer) endingCode(call int, e ending) string {
	switch e {
	case panics:
		return fmt.Sprintf("panic(\"call %d\")", call+1)
	case exits:
		return "runtime.Goexit(); return nil"
	}
	return "return " + p.errorCode(call, e)
}

// errorCode returns the error with which a function ends as code.
func (p *callPlayer) errorCode(call int, e ending) string {
	of := "causes[0]"
	switch k := p.model.calls[call].context; e {
	case succeeds:
		return "nil"
	case fails:
		return fmt.Sprintf("errors.New(\"call %d\")", call+1)
	case failsCanceled:
		of = "context.Canceled"
	case failsDeadline:
		of = "context.DeadlineExceeded"
	default:
		of = fmt.Sprintf("causes[%d]", k)
	}
	return fmt.Sprintf("fmt.Errorf(\"call %d: %%w\", %s)", call+1, of)
}

// listenerCode returns listener l as code.
func (p *callPlayer) listenerCode(l int) string {
	b := p.model.listeners[l]
	kinds := [...]string{
		events.KindPermitted: "Permitted", events.KindRejected: "Rejected", events.KindCanceled: "Canceled",
		events.KindFinished: "Finished", events.KindReleased: "Released", events.KindLimitChanged: "LimitChanged",
	}
	end := ""
	switch b.how {
	case panicked:
		end = fmt.Sprintf("panic(\"listener %d\")", l)
	case exited:
		end = "runtime.Goexit()"
	}
	if end != "" {
		end = fmt.Sprintf("; if e.Kind == event.Kind%s { %s }", kinds[b.kind], end)
	}
	all := fmt.Sprintf("event.All(func(_ context.Context, e event.Record) { t.Logf(\"listener %d: %%+v\", e)%s })", l, end)
	if b.only {
		return fmt.Sprintf("event.Listener{%s: %s.%[1]s}", kinds[b.kind], all)
	}
	return all
}

func contextCode(k int) string {
	if k <= 0 {
		return "context.Background()"
	}
	return fmt.Sprintf("ctx%d", k)
}

func span(d time.Duration) string {
	if d == bulkhead.Forever {
		return "bulkhead.Forever"
	}
	return duration(d)
}
