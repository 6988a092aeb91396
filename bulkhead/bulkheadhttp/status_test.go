package bulkheadhttp_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// registryOf returns a registry of bulkheads.
func registryOf(t testing.TB, all ...bulkhead.Any) *bulkhead.Registry {
	t.Helper()
	r := new(bulkhead.Registry)
	for _, b := range all {
		if err := r.Add(b); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// look returns what a page answers to a request for target, with headers as in
// "Accept: text/html".
func look(page http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, target, nil)
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, req)
	return w
}

func TestStatusJSONSaysWhatBulkheadsDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 3, MaxWait: time.Minute})
		mail := bulkhead.MustNew[string](bulkhead.Config{Name: "mail", MaxConcurrent: 5})
		mail.Close()
		page := bulkheadhttp.StatusPage(registryOf(t, mail, db))
		look(page, "GET", "/?format=json") // counting begins
		time.Sleep(time.Second)
		heavy, err := db.Weighing(2).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waiting := db.Weighing(2).AcquireAsync(t.Context())
		if _, err := mail.Acquire(t.Context()); err == nil {
			t.Fatal("a closed bulkhead gave a permit")
		}

		w := look(page, "GET", "/?format=json")
		want := `{"time":"2000-01-01T00:00:01Z","bulkheads":[` +
			`{"name":"db","max_concurrent":3,"active":2,"available":1,"waiting":1,"closed":false,` +
			`"counted_since":"2000-01-01T00:00:00Z","counts":{"permitted":{"calls":1,"weight":2},` +
			`"rejected":{` + tallies("closed full queue_full timed_out too_heavy") + `},"canceled":{"calls":0,"weight":0},` +
			`"finished":{` + tallies("failed ok panicked") + `},"released":{"calls":0,"weight":0},"full_since":null}},` +
			`{"name":"mail","max_concurrent":5,"active":0,"available":5,"waiting":0,"closed":true,` +
			`"counted_since":"2000-01-01T00:00:00Z","counts":{"permitted":{"calls":0,"weight":0},` +
			`"rejected":{` + strings.Replace(tallies("closed full queue_full timed_out too_heavy"), "0", "1", 2) + `},"canceled":{"calls":0,"weight":0},` +
			`"finished":{` + tallies("failed ok panicked") + `},"released":{"calls":0,"weight":0},"full_since":null}}]}` + "\n"
		if diff := cmp.Diff(want, w.Body.String()); diff != "" {
			t.Errorf("JSON (-want +got):\n%s", diff)
		}
		if got := w.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type is %q", got)
		}
		heavy.Release()
		synctest.Wait()
		if p, err := waiting.Permit(); err != nil {
			t.Errorf("the page held up a call: %v", err)
		} else {
			p.Release()
		}
	})
}

// tallies returns JSON members of those names that count nothing.
func tallies(names string) string {
	var members []string
	for _, name := range strings.Fields(names) {
		members = append(members, fmt.Sprintf(`%q:{"calls":0,"weight":0}`, name))
	}
	return strings.Join(members, ",")
}

func TestStatusOfNoBulkheadIsAnEmptyList(t *testing.T) {
	page := bulkheadhttp.StatusPage(new(bulkhead.Registry))
	if got := look(page, "GET", "/?format=json").Body.String(); !strings.HasSuffix(got, `,"bulkheads":[]}`+"\n") {
		t.Errorf("JSON %s, want an empty list", got)
	}
	if got := look(page, "GET", "/").Body.String(); !strings.Contains(got, `<p id="none">No bulkhead is registered.`) {
		t.Errorf("the page does not say that there is none:\n%s", got)
	}
}

func TestStatusFormatIsUpToTheRequest(t *testing.T) {
	page := bulkheadhttp.StatusPage(registryOf(t, bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})))
	for _, tc := range []struct {
		reason, target string
		accept         []string
		want           string
	}{
		{"no wish", "/", nil, "text/html; charset=utf-8"},
		{"curl", "/", []string{"*/*"}, "text/html; charset=utf-8"},
		{"a browser", "/", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, "text/html; charset=utf-8"},
		{"a program", "/", []string{"application/json"}, "application/json"},
		{"a program that takes anything", "/", []string{"application/json, text/plain, */*"}, "application/json"},
		{"a careful program", "/", []string{"Application/JSON; charset=utf-8"}, "application/json"},
		{"either", "/", []string{"application/json, text/html"}, "text/html; charset=utf-8"},
		{"JSON rather", "/", []string{"text/html;q=0.5, application/json;q=0.6"}, "application/json"},
		{"JSON rather, in two headers", "/", []string{"text/html;q=0.5", "application/json"}, "application/json"},
		{"HTML rather", "/", []string{"application/json;q=0.5, text/html"}, "text/html; charset=utf-8"},
		{"no JSON", "/", []string{"application/json;q=0"}, "text/html; charset=utf-8"},
		{"no number", "/", []string{"application/json;q=high"}, "text/html; charset=utf-8"},
		{"nonsense", "/", []string{";;,/,=", ""}, "text/html; charset=utf-8"},
		{"JSON by query", "/?format=json", []string{"text/html"}, "application/json"},
		{"HTML by query", "/?format=html", []string{"application/json"}, "text/html; charset=utf-8"},
		{"another query", "/?verbose=1", []string{"application/json"}, "application/json"},
	} {
		var headers []string
		for _, accept := range tc.accept {
			headers = append(headers, "Accept: "+accept)
		}
		w := look(page, "GET", tc.target, headers...)
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != tc.want {
			t.Errorf("%s: %d, %s, want %s", tc.reason, w.Code, got, tc.want)
		}
		if got := w.Header().Get("Vary"); got != "Accept" {
			t.Errorf("%s: Vary is %q, want Accept", tc.reason, got)
		}
	}
	for target, want := range map[string]string{
		"/?format=xml": "format is \"xml\", want html or json\n",
		"/?format=":    "format is \"\", want html or json\n",
	} {
		if w := look(page, "GET", target); w.Code != http.StatusBadRequest || w.Body.String() != want {
			t.Errorf("%s: %d %q, want 400 %q", target, w.Code, w.Body, want)
		}
	}
}

func TestStatusIsReadOnlyAndNotStored(t *testing.T) {
	srv := httptest.NewServer(bulkheadhttp.StatusPage(registryOf(t, bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1}))))
	defer srv.Close()
	for _, tc := range []struct {
		method, query string
		status        int
		empty         bool
	}{
		{"GET", "", 200, false},
		{"GET", "?format=json", 200, false},
		{"HEAD", "", 200, true},
		{"HEAD", "?format=json", 200, true},
		{"GET", "?format=xml", 400, false},
		{"POST", "", 405, false},
		{"PUT", "?format=json", 405, false},
		{"DELETE", "", 405, false},
		{"OPTIONS", "", 405, false},
	} {
		req, err := http.NewRequest(tc.method, srv.URL+tc.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tc.status || (len(body) == 0) != tc.empty {
			t.Errorf("%s %s: %s and %d bytes, %v, want %d", tc.method, tc.query, resp.Status, len(body), err, tc.status)
		}
		allow := ""
		if tc.status == http.StatusMethodNotAllowed {
			allow = "GET, HEAD"
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Allow": allow} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q, want %q", tc.method, tc.query, name, got, want)
			}
		}
	}
}

func TestStatusPageOfNilRegistryPanics(t *testing.T) {
	defer func() {
		if got, want := recover(), "bulkheadhttp: StatusPage needs a Registry, got nil"; got != want {
			t.Errorf("panic %v, want %s", got, want)
		}
	}()
	bulkheadhttp.StatusPage(nil)
}

// hostile are names that would break out of wherever a page puts them.
var hostile = []string{
	`<script>alert(1)</script>`,
	`</template></script><img src=x onerror=alert(1)>`,
	`" onmouseover="alert(1)`,
	`' onmouseover='alert(1)`,
	`{{.Script}} ${alert(1)} &lt;b&gt;`,
	"\u202etxet sdrawkcab",
	"two\nlines",
	"__proto__",
	strings.Repeat("long", 500),
}

func TestStatusShowsHostileNamesAsText(t *testing.T) {
	r := new(bulkhead.Registry)
	for _, name := range hostile {
		if err := r.Add(bulkhead.MustNew[int](bulkhead.Config{Name: name, MaxConcurrent: 1})); err != nil {
			t.Fatal(err)
		}
	}
	page := bulkheadhttp.StatusPage(r)
	body := look(page, "GET", "/").Body.String()
	shown := map[string]bool{}
	for _, name := range regexp.MustCompile(`(?s)<bdi data-is="name">([^<>"']*)</bdi>`).FindAllStringSubmatch(body, -1) {
		shown[html.UnescapeString(name[1])] = true
	}
	for _, name := range hostile {
		if !shown[name] {
			t.Errorf("not shown as text: %q", name)
		}
	}

	var doc struct{ Bulkheads []struct{ Name string } }
	raw := look(page, "GET", "/?format=json").Body.Bytes()
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	clear(shown)
	for _, b := range doc.Bulkheads {
		shown[b.Name] = true
	}
	for _, name := range hostile {
		if !shown[name] {
			t.Errorf("not in the JSON: %q", name)
		}
	}
	if strings.ContainsAny(string(raw), "<>") {
		t.Error("the JSON would be markup to a browser that takes it for a page")
	}
}

// renamed is a bulkhead under a name of its own.
type renamed struct {
	bulkhead.Any
	name string
}

func (r renamed) Name() string { return r.name }

func TestStatusGoesByTheNamesInTheRegistry(t *testing.T) {
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	page := bulkheadhttp.StatusPage(registryOf(t, renamed{db, "writes"}, renamed{db, "reads"}))
	var doc struct{ Bulkheads []struct{ Name string } }
	if err := json.Unmarshal(look(page, "GET", "/?format=json").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(doc.Bulkheads), "[{reads} {writes}]"; got != want {
		t.Errorf("JSON has %s, want %s", got, want)
	}
	if body := look(page, "GET", "/").Body.String(); !strings.Contains(body, ">reads<") || !strings.Contains(body, ">writes<") {
		t.Errorf("the page does not show both names:\n%s", body)
	}
}

// A name can be any bytes. JSON and HTML cannot.
func TestStatusOfNamesThatAreNoTextIsStillADocument(t *testing.T) {
	page := bulkheadhttp.StatusPage(registryOf(t,
		bulkhead.MustNew[int](bulkhead.Config{Name: "db\xff", MaxConcurrent: 1}),
		bulkhead.MustNew[int](bulkhead.Config{Name: "db\xfe", MaxConcurrent: 2}),
	))
	var doc struct {
		Bulkheads []struct {
			Name  string
			Limit int64 `json:"max_concurrent"`
		}
	}
	if err := json.Unmarshal(look(page, "GET", "/?format=json").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(doc.Bulkheads), "[{db\ufffd 2} {db\ufffd 1}]"; got != want {
		t.Errorf("JSON has %s, want %s", got, want)
	}
}

// The policy allows the one script and the one style sheet in the page by their
// hashes; there must be no others, and nothing that a policy of hashes forbids.
func TestStatusPageKeepsItsOwnPolicy(t *testing.T) {
	w := look(bulkheadhttp.StatusPage(registryOf(t, bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1}))), "GET", "/")
	policy, body := w.Header().Get("Content-Security-Policy"), w.Body.String()
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q, want one that allows nothing by default, and nothing unsafe", policy)
	}
	for _, element := range []string{"script", "style"} {
		found := regexp.MustCompile("(?s)<"+element+"[^>]*>(.*?)</"+element+">").FindAllStringSubmatch(body, -1)
		if len(found) != 1 || strings.Count(body, "<"+element) != 1 {
			t.Fatalf("%d elements %s, want 1", len(found), element)
		}
		sum := sha256.Sum256([]byte(found[0][1]))
		if want := fmt.Sprintf("; %s-src 'sha256-%s';", element, base64.StdEncoding.EncodeToString(sum[:])); !strings.Contains(policy, want) {
			t.Errorf("policy %q, want in it %q", policy, want)
		}
	}
	code := regexp.MustCompile(`(?m)// .*$`).ReplaceAllString(body, "") // comments may say anything
	for reason, forbidden := range map[string]string{
		"an inline style":       `(?i)\sstyle=`,
		"an inline handler":     `(?i)\son[a-z]+=`,
		"an address":            `(?i)//[a-z]`,
		"something to load":     `(?i)\ssrc=|@import|\burl\(|@font-face`,
		"text made into markup": `(?i)innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function`,
		"a link":                `(?i)\b(href|action)="[^d]`, // other than that of the icon, which is data
	} {
		if at := regexp.MustCompile(forbidden).FindString(code); at != "" {
			t.Errorf("the page has %s: %q", reason, at)
		}
	}
}

// Many look while bulkheads come, go and work.
func TestStatusPageIsSafeForConcurrentUse(t *testing.T) {
	busy := bulkhead.MustNew[int](bulkhead.Config{Name: "busy", MaxConcurrent: 2, MaxWait: time.Millisecond})
	r := registryOf(t, busy)
	page := bulkheadhttp.StatusPage(r)
	ctx, cancel := context.WithCancel(t.Context())
	var working, looking sync.WaitGroup
	for i := range 4 {
		working.Go(func() {
			for ctx.Err() == nil {
				busy.Run(ctx, func(context.Context) error { return nil })
				b := bulkhead.MustNew[int](bulkhead.Config{Name: fmt.Sprint("b", i), MaxConcurrent: 1})
				r.Add(b)
				b.TryAcquire()
				r.Remove(b.Name())
			}
		})
	}
	for _, target := range []string{"/", "/?format=json", "/?format=json"} {
		looking.Go(func() {
			for range 200 {
				w := look(page, "GET", target)
				if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "busy") {
					t.Errorf("%s: %d\n%s", target, w.Code, body)
				}
			}
		})
	}
	looking.Wait()
	cancel()
	working.Wait()
	if got := look(page, "GET", "/?format=json").Body.String(); strings.Count(got, `"name"`) != 1 {
		t.Errorf("in the end the page shows more than the one that is left: %s", got)
	}
}
