package eventotel_test

import (
	"context"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
)

func TestNamesAreTakenOnce(t *testing.T) {
	m, reader := newMetrics(t)
	named := func(name string) bulkhead.Any {
		return bulkhead.MustNew[string](bulkhead.Config{Name: name, MaxConcurrent: 2})
	}
	db := named("db")
	if err := m.Watch(db); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what string
		err  error
		want string
	}{
		{"nothing", m.Watch(nil), "eventotel: a nil bulkhead cannot be watched"},
		{"the same bulkhead", m.Watch(db), `eventotel: a bulkhead named "db" is watched already`},
		{"another one of its name", m.Watch(named("db")), `eventotel: a bulkhead named "db" is watched already`},
		{"a name that is no attribute", m.Watch(named("d\xffb")), `eventotel: the bulkhead's name "d\xffb" is not valid UTF-8, as a label must be`},
	} {
		if tt.err == nil || tt.err.Error() != tt.want {
			t.Errorf("Watch of %s: %v, want %s", tt.what, tt.err, tt.want)
		}
	}
	if l, err := m.Listener("db"); err == nil || l.Permitted != nil {
		t.Error("there is a listener of a name that is taken")
	}
	check(t, reader, "after what was refused", untouched())
}

// renamed is a bulkhead under a name of its own.
type renamed struct {
	bulkhead.Any
	name string
}

func (r renamed) Name() string { return r.name }

// Two of those may be the same within. Each has its own numbers all the same.
func TestWatchGoesByTheNameThatABulkheadSays(t *testing.T) {
	m, reader := newMetrics(t)
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "d\xffb", MaxConcurrent: 7})
	for _, name := range []string{"reads", "writes"} {
		if err := m.Watch(renamed{db, name}); err != nil {
			t.Fatal(err)
		}
	}
	db.Run(t.Context(), nop)
	got := values(t, reader)
	for _, name := range []string{"reads", "writes"} {
		if limit, calls := got["limit{"+name+"}"], got["permitted{"+name+"}"]; limit != 7 || calls != 1 {
			t.Errorf("%s: limit %v, %v calls, want 7 and 1", name, limit, calls)
		}
	}
}

func TestUnwatch(t *testing.T) {
	m, reader := newMetrics(t)
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
	want := untouched()
	for _, key := range []string{"limit{db}", "usage{db}", "waiting{db}"} {
		delete(want, key)
	}
	for _, key := range []string{"permitted{db}", "finished{db,ok}", "wait.duration{db}", "run.duration{db}"} {
		want[key] = 1
	}
	check(t, reader, "unwatched", want)

	second := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 9})
	if err := m.Watch(second); err != nil {
		t.Fatal(err)
	}
	second.Run(ctx, nop)
	got := values(t, reader)
	if got["limit{db}"] != 9 || got["permitted{db}"] != 2 {
		t.Errorf("another one of this name has limit %v and %v calls, want 9 and 2: its own and the first one's",
			got["limit{db}"], got["permitted{db}"])
	}
}

// All keys of a Keyed count together.
func TestListenerOfKeyed(t *testing.T) {
	m, reader := newMetrics(t)
	listener, err := m.Listener("tenants")
	if err != nil {
		t.Fatal(err)
	}
	tenants := bulkhead.MustNewKeyed[string, int](
		bulkhead.Config{Name: "tenants", Listener: listener},
		func(string) int64 { return 1 },
	)
	tenants.Run(t.Context(), "a", func(ctx context.Context) error {
		tenants.Run(ctx, "a", nop)
		return tenants.Run(ctx, "b", nop)
	})
	got := values(t, reader)
	for key, want := range map[string]int64{
		"permitted{tenants}": 2, "finished{tenants,ok}": 2, "rejected{tenants,full}": 1, "rejected{tenants,closed}": 0,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s = %v, %t, want %v", key, v, ok, want)
		}
	}
	if _, ok := got["limit{tenants}"]; ok {
		t.Error("there is a limit, of no key in particular")
	}
	if !m.Unwatch("tenants") {
		t.Error(`Unwatch("tenants") = false, want true`)
	}
}
