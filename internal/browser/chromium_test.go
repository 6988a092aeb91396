package browser

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	goruntime "runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is for anything that a page should come to show. It does so within a
// second or two, unless the machine has much else to do.
const patience = 30 * time.Second

// chromium is the browser that all tests share, each with tabs of its own.
var chromium struct {
	sync.Once
	ctx context.Context
	end func()
	err error
}

func TestMain(m *testing.M) {
	// The tests spend their time waiting for pages that ask once a second.
	flag.Set("test.parallel", "16")
	before := goruntime.NumGoroutine()
	status := m.Run()
	if chromium.end != nil {
		chromium.end()
	}
	for deadline := time.Now().Add(patience); goruntime.NumGoroutine() > before; goruntime.Gosched() {
		if time.Now().After(deadline) {
			fmt.Fprintln(os.Stderr, "goroutines are left:")
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			status = 1
			break
		}
	}
	os.Exit(status)
}

// browse returns the context of the browser, which is started if it is not yet.
func browse(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium; it is in Debian's package of that name")
	}
	chromium.Do(func() {
		// It gets a new directory for its profile from chromedp.
		options := append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path),
			chromedp.NoSandbox, // which it cannot have as root
			chromedp.DisableGPU,
			chromedp.Flag("disable-quic", true),
			chromedp.Flag("disable-component-update", true),
		)
		allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
		chromium.ctx, _ = chromedp.NewContext(allocator)
		chromium.err = chromedp.Do(chromium.ctx) // starts it
		chromium.end = func() {
			chromedp.Cancel(chromium.ctx) // and wait until it has ended
			cancel()
		}
	})
	if chromium.err != nil {
		t.Fatalf("chromium does not start: %v", chromium.err)
	}
	return chromium.ctx
}

// look is how somebody looks at a page.
type look struct {
	width, height int64
	scheme        string // of colors: "light" or "dark"
}

func (l look) String() string { return fmt.Sprintf("%s-%d", l.scheme, l.width) }

var wide = look{1280, 800, "light"}

// tab is a tab that shows a page.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string // that the browser told of
	requests []string // the addresses it asked for
}

// open opens a page in a new tab, prepared by before, which is closed when the
// test ends.
func open(t *testing.T, address string, l look, before ...func(*tab)) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browse(t))
	t.Cleanup(cancel)
	tb := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tb.listen); err != nil {
		t.Fatal(err)
	}
	scheme := emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}},
	}
	command(tb, emulation.SetEmulatedMedia, scheme)
	run(tb, chromedp.EmulateViewport(l.width, l.height))
	for _, prepare := range before {
		prepare(tb)
	}
	run(tb, chromedp.Navigate(address))
	return tb
}

func (tb *tab) listen(event any) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		tb.requests = append(tb.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		tb.troubles = append(tb.troubles, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		tb.troubles = append(tb.troubles, "the page wrote to the console: "+string(e.Type))
	case *log.EventEntryAdded:
		tb.troubles = append(tb.troubles, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	}
}

// run lets the browser do something in the tab, within reason.
func run[T any](tb *tab, action chromedp.Action[T]) T {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		tb.t.Fatal(err)
	}
	return v
}

// command sends the tab a command of the browser's protocol.
func command[P, R any](tb *tab, c cdp.Command[P, R], params P) R {
	tb.t.Helper()
	return run(tb, func(ctx context.Context, target *chromedp.Target) (R, error) {
		return cdp.Call(ctx, target, c, params)
	})
}

// value returns what a JavaScript expression is in the page.
func value[T any](tb *tab, expression string) T {
	tb.t.Helper()
	return run(tb, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// await waits until a JavaScript expression is true, looking again at each change
// of the page.
func (tb *tab) await(expression string) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`new Promise((resolve) => {
		const observer = new MutationObserver(look);
		function look() {
			if (!(`+expression+`)) return;
			observer.disconnect();
			resolve(true);
		}
		observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
		look();
	})`, chromedp.EvalAwaitPromise))
	if err != nil {
		tb.t.Fatalf("%v: it never came true that\n%s\nThe page says\n%s", err, expression, value[string](tb, "document.body.innerText"))
	}
}

// window puts the window of the tab, which has it for itself, into a state such as
// minimized.
func (tb *tab) window(state browser.WindowState) {
	tb.t.Helper()
	found := command(tb, browser.GetWindowForTarget, browser.GetWindowForTargetParams{})
	command(tb, browser.SetWindowBounds, browser.SetWindowBoundsParams{
		WindowID: found.WindowID,
		Bounds:   &browser.Bounds{WindowState: state},
	})
}

// clean fails the test if the browser told of any trouble, or asked anybody but
// the server at address for anything.
func (tb *tab) clean(address string) {
	tb.t.Helper()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, trouble := range tb.troubles {
		tb.t.Error("chromium: " + trouble)
	}
	server, err := url.Parse(address)
	if err != nil {
		tb.t.Fatal(err)
	}
	if !slices.ContainsFunc(tb.requests, func(r string) bool { return strings.Contains(r, "format=json") }) {
		tb.t.Errorf("it asked for %q, which lacks the JSON", tb.requests)
	}
	for _, request := range tb.requests {
		if u, err := url.Parse(request); err != nil || u.Scheme != "data" && u.Host != server.Host {
			tb.t.Errorf("it asked for %s, want nothing but from %s", request, server.Host)
		}
	}
}
