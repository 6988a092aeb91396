package bulkheadhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// deed is what somebody does with a response.
type deed string

const (
	readSome  deed = "read some"
	readEnd   deed = "read to the end"
	readError deed = "read an error"
	closeIt   deed = "close"
	cancelIt  deed = "cancel"
	leaveIt   deed = "cancel and close" // before anybody has noticed the first
)

var deeds = []deed{readSome, readEnd, readError, closeIt, cancelIt, leaveIt}

// scripted is a body of which a Read says by its length what shall come of it.
type scripted struct{}

func (scripted) Read(p []byte) (int, error) {
	switch len(p) {
	case len(readEnd):
		return 0, io.EOF
	case len(readError):
		return 0, errBoom
	}
	return 0, nil
}

func (scripted) Close() error { return nil }

// exchange is a response whose body is scripted, and the permit that it holds.
type exchange struct {
	fakeRig
	resp   *http.Response
	cancel func()
}

// kinds are exchanges that differ in what ends them.
var kinds = []string{"body", "connection", "until headers"}

func newExchange(ctx context.Context, kind string) (exchange, error) {
	base, opts := okWith(scripted{}), bulkheadhttp.TransportOptions{}
	switch kind {
	case "connection":
		base = switching(struct {
			scripted
			io.Writer
		}{})
	case "until headers":
		opts.UntilHeaders = true
	}
	x := exchange{fakeRig: newFakeRig(base, opts)}
	ctx, x.cancel = context.WithCancel(ctx)
	var err error
	x.resp, err = x.RoundTrip(newRequest(ctx, nil))
	return x, err
}

func (x exchange) do(d deed) {
	switch d {
	case closeIt:
		x.resp.Body.Close()
	case cancelIt:
		x.cancel()
	case leaveIt:
		x.cancel()
		x.resp.Body.Close()
	default:
		x.resp.Body.Read(make([]byte, len(d)))
	}
}

// ends returns how the call has ended, as often as that was told.
func (x exchange) ends() []string {
	all := []string{}
	for _, e := range x.tape.of(event.KindFinished, event.KindReleased) {
		all = append(all, endOf(e))
	}
	return all
}

// endBy is the specification: how an exchange that has not ended is ended by d;
// empty if it is not.
func endBy(kind string, d deed) string {
	switch {
	case d == readError:
		return "failed"
	case kind == "body" && (d == cancelIt || d == leaveIt):
		return "released"
	case d == closeIt, d == leaveIt, kind == "body" && d == readEnd:
		return "ok"
	}
	return ""
}

// Release once: in whichever order a response is read, closed and canceled, its
// permit comes back with the first deed that ends it, and with that only.
func TestFirstEndOfABodyCounts(t *testing.T) {
	rapid.Check(t, bodyProperty(t, playInOrder))
}

// Release once, when the deeds are done at the same time: exactly one counts.
func TestOneEndOfABodyCounts(t *testing.T) {
	rapid.Check(t, bodyProperty(t, playAtOnce))
}

func FuzzBody(f *testing.F) {
	f.Fuzz(func(t *testing.T, input []byte) {
		rapid.MakeFuzz(bodyProperty(t, playInOrder))(t, input)
	})
}

// bodyProperty draws a script and plays it in a bubble.
func bodyProperty(t *testing.T, play func(t *testing.T, kind string, script []deed) error) func(*rapid.T) {
	return func(rt *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(rt, "kind")
		script := rapid.SliceOfN(rapid.SampledFrom(deeds), 1, 8).Draw(rt, "script")
		var err error
		synctest.Test(t, func(t *testing.T) { err = play(t, kind, script) })
		if err != nil {
			rt.Fatal(err)
		}
	}
}

func playInOrder(t *testing.T, kind string, script []deed) error {
	x, err := newExchange(t.Context(), kind)
	if err != nil {
		return err
	}
	defer x.cancel()
	want := []string{}
	if kind == "until headers" {
		want = []string{"ok"}
	}
	for i, d := range append(script, closeIt) {
		if end := endBy(kind, d); end != "" && len(want) == 0 {
			want = []string{end}
		}
		x.do(d)
		synctest.Wait()
		if got := x.ends(); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%s, after deed %d, %s: ended as %q, want %q", kind, i, d, got, want)
		}
		if active := x.Stats().Active; active != int64(1-len(want)) {
			return fmt.Errorf("%s, after deed %d, %s: %d permits in flight, want %d", kind, i, d, active, 1-len(want))
		}
	}
	return nil
}

func playAtOnce(t *testing.T, kind string, script []deed) error {
	x, err := newExchange(t.Context(), kind)
	if err != nil {
		return err
	}
	defer x.cancel()
	var all sync.WaitGroup
	for _, d := range append(script, closeIt) {
		all.Go(func() { x.do(d) })
	}
	all.Wait()
	synctest.Wait()
	s := x.Stats()
	if ends := x.ends(); len(ends) != 1 || s.Active != 0 {
		return fmt.Errorf("%s: ended as %q with %d permits in flight, want one end and none", kind, ends, s.Active)
	}
	if _, ok := bulkhead.Weighing(x, s.MaxConcurrent).TryAcquire(); !ok {
		return fmt.Errorf("%s: TryAcquire of the whole limit = false", kind)
	}
	return nil
}
