package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// part is a JavaScript expression for an element of the row of a bulkhead, by its
// data-is.
func part(name, is string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#rows tr")].find(
		(row) => row.querySelector("[data-is=name]").textContent === %q)?.querySelector("[data-is=%s]")`, name, is)
}

// says is a JavaScript expression that is true if a part of a row says so.
func says(name, is, text string) string {
	return fmt.Sprintf("%s?.textContent === %q", part(name, is), text)
}

// points is a JavaScript expression for how many points a chart has.
func points(name, chart string) string {
	return fmt.Sprintf(`(%s?.querySelector(".line").getAttribute("d") ?? "").split(/[ML]/).length - 1`, part(name, chart))
}

// showStats waits until the page shows what b does.
func (tb *tab) showStats(b bulkhead.Any) {
	tb.t.Helper()
	s := b.Stats()
	tb.await(strings.Join([]string{
		says(s.Name, "limit", strconv.FormatInt(s.MaxConcurrent, 10)),
		says(s.Name, "active", strconv.FormatInt(s.Active, 10)),
		says(s.Name, "percent", fmt.Sprint(100*s.Active/s.MaxConcurrent, "%")),
		fmt.Sprintf(`%s?.getAttribute("width") === "%d"`, part(s.Name, "bar"), min(100, 100*s.Active/s.MaxConcurrent)),
		says(s.Name, "waiting", strconv.Itoa(s.Waiting)),
		fmt.Sprintf("%s?.hidden === %t", part(s.Name, "closed"), !s.Closed),
	}, " && "))
}

// fit fails the test if the page can be scrolled sideways, or if what a cell of the
// table has reaches beyond it.
func (tb *tab) fit() {
	tb.t.Helper()
	if over := value[int](tb, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
		tb.t.Errorf("the page is %d pixels wider than its window", over)
	}
	for _, text := range value[[]string](tb, `[...document.querySelectorAll("#rows tr > *")]
		.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.innerText)`) {
		tb.t.Errorf("a cell is too narrow for %q", text)
	}
}

func TestPageFollowsTheLoad(t *testing.T) {
	t.Parallel()
	for _, l := range []look{
		{1280, 800, "light"}, {1280, 800, "dark"}, {360, 800, "light"}, {400, 800, "dark"},
	} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			db := newBulkhead(t, bulkhead.Config{Name: "db", MaxConcurrent: 4})
			api := newBulkhead(t, bulkhead.Config{Name: "api", MaxConcurrent: 2})
			_, srv := serve(t, db, api)
			keepCalling(t, api, 4)
			tb := open(t, srv.URL+path, l)

			n := value[int](tb, points("api", "active-chart"))

			var held []*bulkhead.PendingPermit
			for _, step := range []struct {
				ask   int
				limit int64
			}{{3, 4}, {6, 4}, {0, 2}} { // some in use, some wait, debt
				for range step.ask {
					held = append(held, bulkhead.Waiting(db, bulkhead.Forever).AcquireAsync(t.Context()))
				}
				if err := db.SetMaxConcurrent(step.limit); err != nil {
					t.Fatal(err)
				}
				tb.showStats(db)
			}
			for _, p := range held {
				permit, err := p.Wait(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				permit.Release()
			}
			db.Close()
			tb.showStats(db)

			tb.await(fmt.Sprintf("%s >= %d && %s >= %[2]d", points("api", "active-chart"), n+3, points("api", "waiting-chart")))
			tb.await(fmt.Sprintf(`/^[1-9][\d,.]*\/s$/.test(%s.textContent)`, part("api", "permitted")))
			tb.await(fmt.Sprintf(`/^[1-9][\d,.]*[KM]?\/s$/.test(%s.textContent)`, part("api", "rejected")))
			tb.await(fmt.Sprintf(`/^full [1-9][\d,.]*[KM]?\/s$/.test(%s.textContent)`, part("api", "reasons")))
			tb.await(fmt.Sprintf(`/^full since \d\d:\d\d:\d\d$/.test(%s.textContent)`, part("api", "full")))

			// Anything from black, 0, to white, 3 * 255.
			paper := value[int](tb, `getComputedStyle(document.body).backgroundColor.match(/\d+/g).reduce((sum, c) => sum + +c, 0)`)
			if dark := paper < 3*64; dark != (l.scheme == "dark") {
				t.Errorf("the background is %d of 765 bright", paper)
			}
			tb.fit()
			tb.clean(srv.URL)
		})
	}
}

func TestPageShowsHostileNamesAsText(t *testing.T) {
	t.Parallel()
	names := []string{
		`<script>document.title = "broken"</script>`,
		`<img src=x onerror="document.title = 'broken'">`,
		`</script></template><h1>heading</h1>`,
		`" style="position: fixed`,
		`&lt;{{.Name}}${1}`,
		"\u202etxet sdrawkcab",
		"__proto__",
		strings.Repeat("long", 100),
		"no text\ufffd", // and twice, as "no text\xff" and "no text\xfe"
	}
	slices.Sort(names)
	registry, srv := serve(t)
	for _, name := range append(names[:len(names):len(names)], "no text\xff", "no text\xfe") {
		if err := registry.Add(newBulkhead(t, bulkhead.Config{Name: name, MaxConcurrent: 1})); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range []look{wide, {360, 800, "light"}} {
		tb := open(t, srv.URL+path, l)
		for _, when := range []string{"true", `document.querySelector("#updated").textContent !== ""`} { // as sent, and as drawn
			tb.await(when)
			shown := value[[]string](tb, `[...document.querySelectorAll("#rows [data-is=name]")].map((e) => e.textContent)`)
			if len(shown) != len(names)+2 {
				t.Errorf("%d names, want %d", len(shown), len(names)+2)
			}
			slices.Sort(shown)
			if shown = slices.Compact(shown); !slices.Equal(shown, names) {
				t.Errorf("names %q, want %q", shown, names)
			}
			if n := value[int](tb, `document.querySelectorAll("#rows :is(script, img, h1, [style])").length`); n > 0 {
				t.Errorf("%d elements are made of names", n)
			}
			if title := value[string](tb, "document.title"); title == "broken" {
				t.Error("a name ran as a script")
			}
			tb.fit()
		}
		tb.clean(srv.URL)
	}
}

func TestPageFollowsTheRegistry(t *testing.T) {
	t.Parallel()
	registry, srv := serve(t)
	tb := open(t, srv.URL+path, wide)
	names := func(want ...string) {
		t.Helper()
		tb.await(fmt.Sprintf(`[...document.querySelectorAll("#rows [data-is=name]")].map((e) => e.textContent).join() === %q`, strings.Join(want, ",")))
	}
	add := func(name string) {
		t.Helper()
		if err := registry.Add(newBulkhead(t, bulkhead.Config{Name: name, MaxConcurrent: 1})); err != nil {
			t.Fatal(err)
		}
	}
	none := `!document.querySelector("#none").hidden`
	names()
	tb.await(none)
	add("db")
	names("db")
	tb.await("!(" + none + ")")
	add("mail")
	add("api")
	names("api", "db", "mail")
	tb.await(fmt.Sprintf("%s > %s && %[2]s > 0", points("db", "active-chart"), points("mail", "active-chart"))) // db kept its past
	registry.Remove("db")
	names("api", "mail")
	registry.Remove("api")
	registry.Remove("mail")
	names()
	tb.await(none)
	tb.clean(srv.URL)
}

func TestPageShowsManyBulkheads(t *testing.T) {
	t.Parallel()
	registry, srv := serve(t)
	for i := range 200 {
		b := newBulkhead(t, bulkhead.Config{Name: fmt.Sprintf("bulkhead-%03d", i), MaxConcurrent: 1 << (i % 63)})
		if err := registry.Add(b); err != nil {
			t.Fatal(err)
		}
		b.TryAcquire()
	}
	for _, l := range []look{wide, {800, 800, "light"}, {360, 800, "dark"}} {
		tb := open(t, srv.URL+path, l)
		tb.await(points("bulkhead-000", "active-chart") + " > 1 && " + points("bulkhead-199", "waiting-chart") + " > 1")
		if n := value[int](tb, `document.querySelectorAll("#rows tr").length`); n != 200 {
			t.Errorf("%d rows, want 200", n)
		}
		if got, want := value[string](tb, `document.querySelector("#summary").textContent`), "200 bulkheads, 4 full, 0 waiting"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		tb.fit()
		tb.clean(srv.URL)
	}
}

// Wherever the page is, it finds the JSON, which has the same path.
func TestPageWorksAtAnyPath(t *testing.T) {
	t.Parallel()
	status := bulkheadhttp.StatusPage(new(bulkhead.Registry))
	mux := http.NewServeMux()
	mux.Handle("/{$}", status)
	mux.Handle("/status", status)
	mux.Handle("/slash/", status)
	mux.Handle("/a/b/c/", http.StripPrefix("/a/b/c", status))
	srv := httptest.NewServer(mux)
	defer srv.Close()
	for _, at := range []string{"/", "/status", "/status?verbose=1", "/slash/", "/slash/more", "/a/b/c/d", "/status?format=html#top"} {
		tb := open(t, srv.URL+at, wide)
		tb.await(`document.querySelector("#updated").textContent !== ""`)
		tb.clean(srv.URL)
	}
}

// Without scripts, the page shows what was so when it was asked for.
func TestPageNeedsNoScript(t *testing.T) {
	t.Parallel()
	db := newBulkhead(t, bulkhead.Config{Name: "db", MaxConcurrent: 4})
	db.Weighing(3).TryAcquire()
	_, srv := serve(t, db)
	tb := open(t, srv.URL+path, wide, func(tb *tab) {
		command(tb, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	})
	tb.showStats(db)
	text := value[string](tb, "document.body.innerText")
	if !strings.Contains(text, "Reload it") || strings.Contains(text, "Pause") {
		t.Errorf("the page says\n%s\nwant that it has to be reloaded, and no button", text)
	}
}

// In a narrow window the rows are cards, and still rows to a screen reader.
func TestPageIsATableToAScreenReader(t *testing.T) {
	t.Parallel()
	_, srv := serve(t, newBulkhead(t, bulkhead.Config{Name: "db", MaxConcurrent: 4}))
	for _, l := range []look{wide, {360, 800, "light"}} {
		tb := open(t, srv.URL+path, l)
		tb.await(`document.querySelector("#updated").textContent !== ""`)
		found := map[string]int{}
		for _, node := range command(tb, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
			if !node.Ignored && node.Role != nil {
				found[strings.Trim(string(node.Role.Value), `"`)]++
			}
		}
		for role, want := range map[string]int{"table": 1, "row": 2, "columnheader": 7, "rowheader": 1, "cell": 6, "heading": 1, "button": 1, "status": 1} {
			if found[role] != want {
				t.Errorf("%v: %d of role %s, want %d; all: %v", l, found[role], role, want, found)
			}
		}
	}
}

// troubled is a page whose server can be told to fail, and knows how often it was
// asked for the JSON.
type troubled struct {
	failing atomic.Bool
	asked   atomic.Int64
	page    http.Handler
}

func newTroubled(t *testing.T) (*troubled, *httptest.Server) {
	h := &troubled{page: bulkheadhttp.StatusPage(new(bulkhead.Registry))}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return h, srv
}

func (h *troubled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("format") {
		h.asked.Add(1)
	}
	if h.failing.Load() {
		http.Error(w, "no", http.StatusServiceUnavailable)
		return
	}
	h.page.ServeHTTP(w, r)
}

const problem = `document.querySelector("#problem").textContent`

func TestPageAsksLessOftenWhileTheServerFails(t *testing.T) {
	t.Parallel()
	h, srv := newTroubled(t)
	tb := open(t, srv.URL, wide)
	tb.await(`document.querySelector("#updated").textContent === "updated 0 s ago"`)
	h.failing.Store(true)
	tb.await(problem + ` === "The server answered with status 503. Trying again." && document.body.classList.contains("stale")`)
	tb.await(`/^updated [3-9] s ago$/.test(document.querySelector("#updated").textContent)`)
	const polls = `performance.getEntriesByType("resource").filter((e) => e.name.includes("format=json"))`
	good := value[int](tb, polls+".filter((e) => e.responseStatus === 200).length")
	tb.await(fmt.Sprintf("%s.length > %d", polls, good+2))
	h.failing.Store(false)
	// When the network is back, it asks at once.
	value[bool](tb, `new Promise((resolve) => {
		const original = fetch;
		let asked = false;
		fetch = (...args) => {
			asked = true;
			return original(...args);
		};
		(function again() {
			asked = false;
			dispatchEvent(new Event("online"));
			if (asked) resolve(true);
			else setTimeout(again, 50); // an answer may be on its way
		})();
	})`)
	tb.await(problem + ` === "" && !document.body.classList.contains("stale")`)

	// From the end of each answer to the next question, in seconds.
	pauses := value[[]float64](tb, fmt.Sprintf(`%s.map((e, i, all) => i > 0 ? (e.startTime - all[i-1].responseEnd) / 1000 : 0).slice(%d)`, polls, good+1))
	for i, pause := range pauses[:2] {
		if want := float64(int(2) << i); pause < want-0.01 {
			t.Errorf("after %d failures it paused for %.3f s, want %.0f", i+1, pause, want)
		}
	}
}

func TestPageSaysThatTheServerIsGone(t *testing.T) {
	t.Parallel()
	_, srv := newTroubled(t)
	tb := open(t, srv.URL, wide)
	tb.await(`document.querySelector("#updated").textContent !== ""`)
	srv.Close()
	tb.await(problem + ` === "The server does not answer. Trying again." && document.body.classList.contains("stale")`)
	tb.await(`/^updated [2-9] s ago$/.test(document.querySelector("#updated").textContent)`)
}

// While one page goes on asking, one that is hidden or paused does not.
func TestPageDoesNotAskWhileHiddenOrPaused(t *testing.T) {
	t.Parallel()
	rests, first := newTroubled(t)
	goesOn, second := newTroubled(t)
	tb := open(t, first.URL, wide)
	open(t, second.URL, wide)
	asks := func(h *troubled, times int64) {
		t.Helper()
		n := h.asked.Load()
		for deadline := time.Now().Add(patience); h.asked.Load() < n+times; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the page does not ask")
			}
		}
	}
	quiet := func(reason string) {
		t.Helper()
		n := rests.asked.Load()
		asks(goesOn, 3)
		if extra := rests.asked.Load() - n; extra > 1 { // one may have been on its way
			t.Errorf("%s, it asked %d times", reason, extra)
		}
	}

	asks(rests, 1)
	tb.window("minimized")
	tb.await("document.hidden")
	quiet("hidden")
	tb.window("normal")
	asks(rests, 1)
	run(tb, chromedp.Click(chromedp.CSS("#pause")))
	tb.await(`document.querySelector("#pause").ariaPressed === "true" && document.querySelector("#updated").textContent.startsWith("paused, updated ")`)
	quiet("paused")
	run(tb, chromedp.Click(chromedp.CSS("#pause")))
	asks(rests, 1)
	tb.clean(first.URL)
}
