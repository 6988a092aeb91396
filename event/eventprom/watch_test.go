package eventprom_test

import (
	"context"
	"strings"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event/eventprom"
)

func TestWatchRefuses(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2})
	if err := m.Watch(db); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Listener("tenants"); err != nil {
		t.Fatal(err)
	}
	named := func(name string) bulkhead.Any {
		return bulkhead.MustNew[string](bulkhead.Config{Name: name, MaxConcurrent: 1})
	}
	var unset *bulkhead.Bulkhead[int]
	for _, tt := range []struct {
		what string
		b    bulkhead.Any
		want string
	}{
		{"nothing", nil, "eventprom: a nil bulkhead cannot be watched"},
		{"a bulkhead that is yet to be made", unset, "eventprom: a nil bulkhead cannot be watched"},
		{"the same bulkhead", db, `eventprom: a bulkhead named "db" is watched already`},
		{"a handle to it", db.Weighing(2), `eventprom: a bulkhead named "db" is watched already`},
		{"another one of its name", named("db"), `eventprom: a bulkhead named "db" is watched already`},
		{"one of a listener's name", named("tenants"), `eventprom: a bulkhead named "tenants" is watched already`},
		{"a name that is no label", named("d\xffb"), `eventprom: the bulkhead's name "d\xffb" is not valid UTF-8, as a label must be`},
	} {
		if err := m.Watch(tt.b); err == nil || err.Error() != tt.want {
			t.Errorf("Watch of %s: %v, want %s", tt.what, err, tt.want)
		}
	}
	for name, want := range map[string]string{
		"db":      `eventprom: a bulkhead named "db" is watched already`,
		"tenants": `eventprom: a bulkhead named "tenants" is watched already`,
		"d\xffb":  `eventprom: the bulkhead's name "d\xffb" is not valid UTF-8, as a label must be`,
	} {
		if l, err := m.Listener(name); err == nil || err.Error() != want || l.Permitted != nil {
			t.Errorf("Listener(%q): %v, want %s", name, err, want)
		}
	}

	// What was refused has changed nothing: each call counts once.
	db.Run(t.Context(), nop)
	got := samples(t, url)
	if n := got["permitted_calls_total{db}"]; n != 1 {
		t.Errorf("one call counts as %v", n)
	}
	for key := range got {
		if !strings.Contains(key, "{db") && !strings.Contains(key, "{tenants") {
			t.Errorf("there is a %s", key)
		}
	}
}

// Prometheus takes any UTF-8, in the order of the alphabet or not.
func TestWatchTakesAnyLabel(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	for _, name := range []string{"naïve 🚇", `quoted "name" \n`, "two\nlines", "a{b=c}"} {
		if err := m.Watch(bulkhead.MustNew[int](bulkhead.Config{Name: name, MaxConcurrent: 7})); err != nil {
			t.Fatal(err)
		}
		if got := samples(t, url)["limit_permits{"+name+"}"]; got != 7 {
			t.Errorf("%q: limit %v, want 7", name, got)
		}
	}
}

// renamed is a bulkhead under a name of its own.
type renamed struct {
	bulkhead.Any
	name string
}

func (r renamed) Name() string { return r.name }

// Two of those may be the same within. Each label must be its own all the same,
// or there is no scrape at all.
func TestWatchGoesByTheNameThatABulkheadSays(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "d\xffb", MaxConcurrent: 7})
	for _, name := range []string{"reads", "writes"} {
		if err := m.Watch(renamed{db, name}); err != nil {
			t.Fatal(err)
		}
	}
	db.Run(t.Context(), nop)
	got := samples(t, url)
	for _, name := range []string{"reads", "writes"} {
		if limit, calls := got["limit_permits{"+name+"}"], got["permitted_calls_total{"+name+"}"]; limit != 7 || calls != 1 {
			t.Errorf("%s: limit %v, %v calls, want 7 and 1", name, limit, calls)
		}
	}
}

func TestUnwatch(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	ctx := t.Context()
	first := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	if err := m.Watch(first); err != nil {
		t.Fatal(err)
	}
	first.Run(ctx, func(ctx context.Context) error { // a call that is under way
		if !m.Unwatch("db") {
			t.Error(`Unwatch("db") = false, want true`)
		}
		return nil
	})
	first.Run(ctx, nop)
	if m.Unwatch("db") || m.Unwatch("other") {
		t.Error("Unwatch of what is not watched = true")
	}

	want := untouched()
	for _, gauge := range []string{"limit_permits{db}", "active_permits{db}", "waiting_calls{db}"} {
		delete(want, gauge)
	}
	for _, one := range []string{
		"permitted_calls_total{db}", "finished_calls_total{db,ok}", "wait_seconds_count{db}", "run_seconds_count{db}",
	} {
		want[one] = 1
	}
	check(t, url, "unwatched", want)

	second := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 9})
	if err := m.Watch(second); err != nil {
		t.Fatal(err)
	}
	second.Run(ctx, nop)
	got := samples(t, url)
	if got["limit_permits{db}"] != 9 || got["permitted_calls_total{db}"] != 2 {
		t.Errorf("another one of this name has limit %v and %v calls, want 9 and 2: its own and the first one's",
			got["limit_permits{db}"], got["permitted_calls_total{db}"])
	}
}

// All keys of a Keyed count together.
func TestListenerOfKeyed(t *testing.T) {
	m := eventprom.New(eventprom.Options{})
	url := serve(t, m)
	listener, err := m.Listener("tenants")
	if err != nil {
		t.Fatal(err)
	}
	tenants := bulkhead.MustNewKeyed[string, int](
		bulkhead.Config{Name: "tenants", Listener: listener},
		func(string) int64 { return 1 },
	)
	ctx := t.Context()
	tenants.Run(ctx, "a", func(ctx context.Context) error {
		tenants.Run(ctx, "a", nop)
		return tenants.Run(ctx, "b", nop)
	})
	got := samples(t, url)
	for key, want := range map[string]float64{
		"permitted_calls_total{tenants}":       2,
		"finished_calls_total{tenants,ok}":     2,
		"rejected_calls_total{tenants,full}":   1,
		"rejected_calls_total{tenants,closed}": 0,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s = %v, %t, want %v", key, v, ok, want)
		}
	}
	if _, ok := got["limit_permits{tenants}"]; ok {
		t.Error("there is a limit, of no key in particular")
	}
	if !m.Unwatch("tenants") {
		t.Error(`Unwatch("tenants") = false, want true`)
	}
}
