package event_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/event"
)

// hooks are the six functions of a Listener, each with one way to set it and
// one to call it.
var hooks = []struct {
	kind event.Kind
	set  func(*event.Listener, func())
	call func(event.Listener)
}{
	{
		event.KindPermitted,
		func(l *event.Listener, f func()) { l.Permitted = func(context.Context, event.Permitted) { f() } },
		func(l event.Listener) { l.Permitted(context.Background(), event.Permitted{}) },
	},
	{
		event.KindRejected,
		func(l *event.Listener, f func()) { l.Rejected = func(context.Context, event.Rejected) { f() } },
		func(l event.Listener) { l.Rejected(context.Background(), event.Rejected{}) },
	},
	{
		event.KindCanceled,
		func(l *event.Listener, f func()) { l.Canceled = func(context.Context, event.Canceled) { f() } },
		func(l event.Listener) { l.Canceled(context.Background(), event.Canceled{}) },
	},
	{
		event.KindFinished,
		func(l *event.Listener, f func()) { l.Finished = func(context.Context, event.Finished) { f() } },
		func(l event.Listener) { l.Finished(context.Background(), event.Finished{}) },
	},
	{
		event.KindReleased,
		func(l *event.Listener, f func()) { l.Released = func(context.Context, event.Released) { f() } },
		func(l event.Listener) { l.Released(context.Background(), event.Released{}) },
	},
	{
		event.KindLimitChanged,
		func(l *event.Listener, f func()) { l.LimitChanged = func(context.Context, event.LimitChanged) { f() } },
		func(l event.Listener) { l.LimitChanged(context.Background(), event.LimitChanged{}) },
	},
}

// ended says how a function left its goroutine.
type ended struct {
	panicked any
	goexit   bool
}

// watch runs f on a goroutine of its own.
func watch(f func()) ended {
	c := make(chan ended)
	go func() {
		e := ended{goexit: true}
		defer func() {
			if e.panicked = recover(); e.panicked != nil {
				e.goexit = false
			}
			c <- e
		}()
		f()
		e.goexit = false
	}()
	return <-c
}

func TestJoinCallsEveryListener(t *testing.T) {
	type behaviour = func()
	var (
		returns        = func() {}
		panics1        = func() { panic(1) }
		panics2        = func() { panic(2) }
		goexits        = runtime.Goexit
		nested         = event.Join(listenAll(returns), listenAll(panics1), listenAll(returns))
		panicsInJoined = func() { nested.Permitted(context.Background(), event.Permitted{}) }
	)
	tests := []struct {
		name string
		fs   []behaviour
		want ended
	}{
		{"none panics", []behaviour{returns, returns, returns}, ended{}},
		{"first panics", []behaviour{panics1, returns, returns}, ended{panicked: 1}},
		{"last panics", []behaviour{returns, returns, panics1}, ended{panicked: 1}},
		{"two panic", []behaviour{panics1, returns, panics2}, ended{panicked: 1}},
		{"two panic in a row", []behaviour{panics2, panics1}, ended{panicked: 2}},
		{"goexit", []behaviour{goexits, returns, returns}, ended{goexit: true}},
		{"goexit twice", []behaviour{goexits, goexits, returns}, ended{goexit: true}},
		{"goexit, then panic", []behaviour{goexits, panics1, returns}, ended{goexit: true}},
		{"panic, then goexit", []behaviour{panics1, goexits, returns}, ended{panicked: 1}},
		{"goexit, then goexit, then panic", []behaviour{goexits, goexits, panics1}, ended{goexit: true}},
		{"joined ones panic", []behaviour{returns, panicsInJoined, panics2}, ended{panicked: 1}},
	}
	for _, tt := range tests {
		for _, hook := range hooks {
			t.Run(tt.name+"/"+hook.kind.String(), func(t *testing.T) {
				var called []int
				var ls []event.Listener
				for i, f := range tt.fs {
					var l event.Listener
					hook.set(&l, func() { called = append(called, i); f() })
					ls = append(ls, l)
				}
				got := watch(func() { hook.call(event.Join(ls...)) })
				if got != tt.want {
					t.Errorf("ended with %+v, want %+v", got, tt.want)
				}
				want := []int{0, 1, 2}[:len(tt.fs)]
				if !slices.Equal(called, want) {
					t.Errorf("called %v, want %v", called, want)
				}
			})
		}
	}
}

// listenAll returns a listener to every event.
func listenAll(f func()) event.Listener {
	return event.All(func(context.Context, event.Record) { f() })
}

func TestJoinRunsOnTheCallersGoroutine(t *testing.T) {
	var ran []string
	stack := func() {
		buf := make([]byte, 64)
		buf = buf[:runtime.Stack(buf, false)] // begins with the goroutine's number
		for i, c := range buf {
			if c == '[' {
				ran = append(ran, string(buf[:i]))
				return
			}
		}
	}
	stack()
	listenerOfTwo := event.Join(listenAll(stack), listenAll(stack))
	listenerOfTwo.Rejected(t.Context(), event.Rejected{})
	if len(ran) != 3 || ran[0] != ran[1] || ran[0] != ran[2] {
		t.Errorf("caller and listeners ran on %q, want the same goroutine three times", ran)
	}
}

func TestJoinSetsWhatAnyListenerSets(t *testing.T) {
	isSet := func(l event.Listener) (set []bool) {
		v := reflect.ValueOf(l)
		for i := range v.NumField() {
			set = append(set, !v.Field(i).IsNil())
		}
		return set
	}
	empty := isSet(event.Join())
	if want := make([]bool, len(hooks)); !slices.Equal(empty, want) {
		t.Errorf("Join() sets %v, want %v", empty, want)
	}
	for i, hook := range hooks {
		called := 0
		var l event.Listener
		hook.set(&l, func() { called++ })
		want := make([]bool, len(hooks))
		want[i] = true
		joined := event.Join(event.Listener{}, l, event.Listener{})
		if got := isSet(joined); !slices.Equal(got, want) {
			t.Errorf("%v: joined with empty listeners sets %v, want %v", hook.kind, got, want)
		}
		hook.call(joined)
		if called != 1 {
			t.Errorf("%v: called %d times, want 1", hook.kind, called)
		}
	}
}

func TestJoinKeepsNoSlice(t *testing.T) {
	called := ""
	listeners := []event.Listener{
		listenAll(func() { called += "a" }),
		listenAll(func() { called += "b" }),
	}
	joined := event.Join(listeners...)
	listeners[0], listeners[1] = event.Listener{}, event.Listener{}
	joined.Canceled(t.Context(), event.Canceled{})
	if called != "ab" {
		t.Errorf("called %q after the slice changed, want %q", called, "ab")
	}
}

// TestAllCarriesEveryField fills every field of every event with a value of its
// own and wants it under the same name in the record, and nothing else there.
func TestAllCarriesEveryField(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "the caller's")
	var got []event.Record
	all := event.All(func(c context.Context, r event.Record) {
		if c != ctx {
			t.Errorf("%v: context %v, want the caller's", r.Kind, c)
		}
		got = append(got, r)
	})
	listener := reflect.ValueOf(all)
	for i, hook := range hooks {
		f := listener.Field(i)
		e := reflect.New(f.Type().In(1)).Elem()
		for j := range e.NumField() {
			fill(t, e.Field(j), j+1)
		}
		f.Call([]reflect.Value{reflect.ValueOf(ctx), e})

		record := reflect.ValueOf(got[i])
		for j := range record.NumField() {
			name := record.Type().Field(j).Name
			gotField, want := record.Field(j), reflect.Zero(record.Field(j).Type())
			if name == "Kind" {
				want = reflect.ValueOf(hook.kind)
			} else if field := e.FieldByName(name); field.IsValid() {
				want = field
			}
			if !gotField.Equal(want) {
				t.Errorf("%v: Record.%s = %v, want %v", hook.kind, name, gotField, want)
			}
		}
		for j := range e.NumField() {
			if name := e.Type().Field(j).Name; !record.FieldByName(name).IsValid() {
				t.Errorf("%v: Record has no field %s", hook.kind, name)
			}
		}
	}
}

// fill sets v to a value that depends on n.
func fill(t *testing.T, v reflect.Value, n int) {
	t.Helper()
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(int64(n), 0)))
		return
	case error, nil:
		v.Set(reflect.ValueOf(errors.New("some error")))
		return
	}
	switch {
	case v.CanInt():
		v.SetInt(int64(n))
	case v.CanUint():
		v.SetUint(uint64(n))
	case v.Kind() == reflect.String:
		v.SetString("a bulkhead")
	default:
		t.Fatalf("do not know how to fill a %v", v.Type())
	}
}

func TestTellingAllocatesNothing(t *testing.T) {
	count := 0
	one := event.All(func(_ context.Context, r event.Record) { count += int(r.Weight) })
	joined := event.Join(one, one, one)
	ctx := t.Context()
	for name, l := range map[string]event.Listener{"one": one, "joined": joined} {
		allocs := testing.AllocsPerRun(100, func() {
			l.Permitted(ctx, event.Permitted{Name: "db", Weight: 1})
			l.Rejected(ctx, event.Rejected{Name: "db", Weight: 1, Reason: event.Full})
			l.Canceled(ctx, event.Canceled{Name: "db", Weight: 1, Err: context.Canceled})
			l.Finished(ctx, event.Finished{Name: "db", Weight: 1, Outcome: event.OK})
			l.Released(ctx, event.Released{Name: "db", Weight: 1, Err: context.Canceled})
			l.LimitChanged(ctx, event.LimitChanged{Name: "db", From: 1, To: 2})
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations for six events, want 0", name, allocs)
		}
	}
	if want := 101 * 5 * (1 + 3); count != want {
		t.Errorf("events of weight %d in all were told, want %d", count, want)
	}
}
