package bulkheadhttp_test

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// counted is what the JSON says of a bulkhead's calls.
type counted struct {
	Name   string
	Since  time.Time `json:"counted_since"`
	Counts struct{ Permitted struct{ Calls int64 } }
}

// askJSON returns the calls that a page has counted, by name.
func askJSON(t *testing.T, page http.Handler) map[string]counted {
	t.Helper()
	var doc struct{ Bulkheads []counted }
	if err := json.Unmarshal(look(page, "GET", "/?format=json").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	found := map[string]counted{}
	for _, b := range doc.Bulkheads {
		found[b.Name] = b
	}
	return found
}

// heard is a bulkhead that knows whether anybody listens, since its clock is not
// looked at otherwise.
type heard struct {
	*bulkhead.Bulkhead[int]
	events atomic.Int64
}

func newHeard(name string) *heard {
	h := new(heard)
	h.Bulkhead = bulkhead.MustNew[int](bulkhead.Config{Name: name, MaxConcurrent: 1, Clock: func() time.Time {
		h.events.Add(1)
		return time.Now()
	}})
	return h
}

// call makes a call, and reports whether anybody listened.
func (h *heard) call(t *testing.T) bool {
	t.Helper()
	before := h.events.Load()
	p, err := h.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Complete(nil)
	return h.events.Load() != before
}

func TestStatusCountsWhileSomebodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newHeard("db")
		page := bulkheadhttp.StatusPage(registryOf(t, db))
		if look(page, "GET", "/"); db.call(t) {
			t.Error("it counts before anybody asked for the JSON")
		}

		began := time.Now()
		for i := range int64(5) { // well beyond a minute
			got := askJSON(t, page)["db"]
			if !got.Since.Equal(began) || got.Counts.Permitted.Calls != i {
				t.Errorf("after %v: %d calls since %v, want %d since %v", time.Since(began), got.Counts.Permitted.Calls, got.Since, i, began)
			}
			if !db.call(t) {
				t.Errorf("after %v it does not count, though somebody asked", time.Since(began))
			}
			time.Sleep(59 * time.Second)
		}
		if !db.call(t) {
			t.Error("it stopped before a minute was over")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if db.call(t) {
			t.Error("it counts though nobody has asked for a minute")
		}
		time.Sleep(time.Hour)
		if db.call(t) {
			t.Error("it counts again though nobody asked")
		}

		again := time.Now()
		askJSON(t, page)
		db.call(t)
		if got := askJSON(t, page)["db"]; !got.Since.Equal(again) || got.Counts.Permitted.Calls != 1 {
			t.Errorf("asked again: %d calls since %v, want 1 since %v", got.Counts.Permitted.Calls, got.Since, again)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if db.call(t) {
			t.Error("the second time, it counts though nobody has asked for a minute")
		}
	})
}

func TestStatusFollowsTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, mail := newHeard("db"), newHeard("mail")
		r := registryOf(t, db)
		page := bulkheadhttp.StatusPage(r)
		askJSON(t, page)
		db.call(t)
		time.Sleep(time.Second)

		if err := r.Add(mail); err != nil {
			t.Fatal(err)
		}
		got := askJSON(t, page)
		if len(got) != 2 || got["mail"].Counts.Permitted.Calls != 0 || got["mail"].Since.Sub(got["db"].Since) != time.Second {
			t.Errorf("one was added: %+v", got)
		}
		if !mail.call(t) {
			t.Error("nobody listens to what was added")
		}
		if got := askJSON(t, page); got["mail"].Counts.Permitted.Calls != 1 || got["db"].Counts.Permitted.Calls != 1 {
			t.Errorf("one call to each: %+v", got)
		}

		r.Remove("mail")
		if got := askJSON(t, page); len(got) != 1 {
			t.Errorf("one was removed: %+v", got)
		}
		if mail.call(t) {
			t.Error("it listens to what was removed")
		}

		other := newHeard("db")
		r.Remove("db")
		if err := r.Add(other); err != nil {
			t.Fatal(err)
		}
		if got := askJSON(t, page)["db"]; got.Counts.Permitted.Calls != 0 || !got.Since.Equal(time.Now()) {
			t.Errorf("another one of the same name: %+v, want counts of its own", got)
		}
		if db.call(t) {
			t.Error("it listens to what was replaced")
		}
		if !other.call(t) {
			t.Error("nobody listens to the replacement")
		}
	})
}

// What embeds a bulkhead is one, also if it is of a type that == panics for.
func TestStatusOfBulkheadsThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type tagged struct {
			*heard
			tags []string
		}
		db := newHeard("db")
		r := registryOf(t, tagged{db, []string{"sql"}})
		page := bulkheadhttp.StatusPage(r)
		askJSON(t, page)
		db.call(t)
		if got := askJSON(t, page)["db"].Counts.Permitted.Calls; got != 1 {
			t.Errorf("%d calls, want 1", got)
		}
		r.Remove("db")
		if err := r.Add(db); err != nil { // of another type
			t.Fatal(err)
		}
		if got := askJSON(t, page)["db"].Counts.Permitted.Calls; got != 0 {
			t.Errorf("replaced, %d calls, want 0", got)
		}
	})
}
