package bulkhead_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
)

func named(name string) *bulkhead.Bulkhead[int] {
	return bulkhead.MustNew[int](bulkhead.Config{Name: name, MaxConcurrent: 1})
}

// names returns the names of bulkheads, in their order.
func names(all []bulkhead.Any) (names []string) {
	for _, b := range all {
		names = append(names, b.Name())
	}
	return names
}

func TestRegistry(t *testing.T) {
	var r bulkhead.Registry
	if got := r.All(); len(got) != 0 {
		t.Errorf("empty, All() = %v, want none", names(got))
	}
	if b, ok := r.Get("db"); ok || b != nil {
		t.Errorf("empty, Get = %v, %v, want nil, false", b, ok)
	}
	if r.Remove("db") {
		t.Error("empty, Remove = true")
	}

	mail, db := named("mail"), bulkhead.MustNew[string](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	for _, b := range []bulkhead.Any{mail, db, named("payments"), named("DB")} {
		if err := r.Add(b); err != nil {
			t.Errorf("Add(%s) = %v, want nil", b.Name(), err)
		}
	}
	all := r.All()
	if got, want := names(all), []string{"DB", "db", "mail", "payments"}; !slices.Equal(got, want) {
		t.Errorf("All() = %v, want %v", got, want)
	}
	if b, ok := r.Get("db"); !ok || b != bulkhead.Any(db) {
		t.Errorf("Get(db) = %v, %v, want the one that was added", b, ok)
	}

	all[0] = nil // the slice is ours
	_ = append(all[:1], nil)
	if got, want := names(r.All()), []string{"DB", "db", "mail", "payments"}; !slices.Equal(got, want) {
		t.Errorf("after the caller changed its slice, All() = %v, want %v", got, want)
	}

	if !r.Remove("mail") {
		t.Error("Remove(mail) = false, want true")
	}
	if r.Remove("mail") {
		t.Error("Remove(mail) again = true, want false")
	}
	if b, ok := r.Get("mail"); ok {
		t.Errorf("removed, Get(mail) = %v, true", b)
	}
	if err := r.Add(named("mail")); err != nil {
		t.Errorf("removed, Add of another mail = %v, want nil", err)
	}
	if err := mail.Run(t.Context(), nop); err != nil {
		t.Errorf("removed, it runs nothing any more: %v", err)
	}
}

func TestRegistryRefusesASecondOfOneName(t *testing.T) {
	var r bulkhead.Registry
	first := named("db")
	if err := r.Add(first); err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string]bulkhead.Any{
		"another":       named("db"),
		"of other type": bulkhead.MustNew[string](bulkhead.Config{Name: "db", MaxConcurrent: 7}),
		"the same":      first,
		"a handle":      first.Weighing(2),
	} {
		err := r.Add(b)
		if want := `bulkhead "db": another one of this name is registered`; err == nil || err.Error() != want {
			t.Errorf("%s: Add = %v, want %s", what, err, want)
		}
	}
	if b, _ := r.Get("db"); b != bulkhead.Any(first) {
		t.Errorf("Get = %v, want the first", b)
	}
}

func TestRegistryRefusesNil(t *testing.T) {
	type guarded struct{ *bulkhead.Bulkhead[int] }
	var r bulkhead.Registry
	for what, b := range map[string]bulkhead.Any{
		"nil":                     nil,
		"a variable not yet set":  (*bulkhead.Bulkhead[int])(nil),
		"a pointer to a wrapping": (*guarded)(nil),
	} {
		err := r.Add(b)
		if want := "bulkhead: a nil bulkhead cannot be registered"; err == nil || err.Error() != want {
			t.Errorf("%s: Add = %v, want %s", what, err, want)
		}
	}
	if err := r.Add(guarded{named("db")}); err != nil {
		t.Errorf("Add of a struct that embeds a bulkhead = %v, want nil", err)
	}
	if got := names(r.All()); !slices.Equal(got, []string{"db"}) {
		t.Errorf("All() = %v, want what could be added", got)
	}
}

// Of many who add the same name at once, one succeeds, each time.
func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	var r bulkhead.Registry
	const rounds, adders = 200, 4
	for i := range rounds {
		name := fmt.Sprintf("db-%03d", i)
		var added sync.Map
		var all sync.WaitGroup
		for range adders {
			all.Go(func() {
				b := named(name)
				if err := r.Add(b); err == nil {
					added.Store(b, true)
				}
				if got, ok := r.Get(name); !ok || got.Name() != name {
					t.Errorf("Get(%s) = %v, %v after an Add", name, got, ok)
				}
				if got := names(r.All()); !slices.IsSorted(got) || !slices.Contains(got, name) {
					t.Errorf("All() = %v, want it sorted and with %s", got, name)
				}
			})
		}
		all.Go(func() { r.Remove("db-none") })
		all.Wait()
		n := 0
		added.Range(func(b, _ any) bool {
			n++
			if got, _ := r.Get(name); got != b {
				t.Errorf("Get(%s) is not the one whose Add succeeded", name)
			}
			return true
		})
		if n != 1 {
			t.Errorf("%d of %d Adds of %s succeeded, want 1", n, adders, name)
		}
		if i%2 == 1 && !r.Remove(name) {
			t.Errorf("Remove(%s) = false, want true", name)
		}
	}
	if got := names(r.All()); len(got) != rounds/2 || strings.Contains(strings.Join(got, " "), "1 ") {
		t.Errorf("in the end %d are left: %v", len(got), got)
	}
}
