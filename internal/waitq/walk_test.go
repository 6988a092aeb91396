package waitq_test

import (
	"slices"
	"testing"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

const ample = 1 << 30 // a budget that no test uses up

// above collects what a walk finds within a budget, deciding each.
func above(q *queue, k *waitq.Walk[string], limit int64, budget int) (names []string) {
	for w := k.Above(limit, &budget); w != nil; w = k.Above(limit, &budget) {
		names = append(names, w.Value)
		q.Decide(w, waitq.Evicted)
	}
	return names
}

func TestWalkFindsEveryWeightAboveTheLimit(t *testing.T) {
	for _, tt := range []struct {
		reason   string
		limit    int64
		weights  []int64
		want     []string
		heaviest int64 // known at the end
	}{
		{"nobody queued", 3, nil, nil, 0},
		{"none above", 3, []int64{3, 0, 1}, nil, 3},
		{"the limit itself is not above it", 2, []int64{2, 3}, []string{"b"}, 2},
		{"at both ends and between", 3, []int64{4, 1, 5, 2, 9}, []string{"a", "c", "e"}, 2},
		{"neighbours", 1, []int64{2, 2, 2, 1}, []string{"a", "b", "c"}, 1},
		{"all", 0, []int64{1, 2}, []string{"a", "b"}, 0},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var q queue
			for i, weight := range tt.weights {
				push(&q, string(rune('a'+i)), weight)
			}
			var k waitq.Walk[string]
			q.Begin(&k)
			got := above(&q, &k, tt.limit, ample)
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %v, want %v", got, tt.want)
			}
			if !k.AtEnd() {
				t.Error("not at the end, with budget left")
			}
			q.End(&k)
			if got := q.Heaviest(); got != tt.heaviest {
				t.Errorf("Heaviest = %d, want %d", got, tt.heaviest)
			}
			if got, want := q.Len(), len(tt.weights)-len(tt.want); got != want {
				t.Errorf("%d stayed, want %d", got, want)
			}
		})
	}
}

func TestWalkStopsWhenItsBudgetIsSpent(t *testing.T) {
	var q queue
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		push(&q, name, 1)
	}
	push(&q, "heavy", 9)
	var k waitq.Walk[string]
	q.Begin(&k)
	for step, want := range [][]string{nil, nil, {"heavy"}} {
		if k.AtEnd() {
			t.Fatalf("step %d: at the end already", step)
		}
		if got := above(&q, &k, 1, 2); !slices.Equal(got, want) {
			t.Errorf("step %d: got %v, want %v", step, got, want)
		}
	}
	if !k.AtEnd() {
		t.Error("looked at six waiters with three times a budget of two, and not at the end")
	}
	budget := 2
	if w := k.Above(1, &budget); w != nil || budget != 2 {
		t.Errorf("at the end: got %v for a budget of %d, want nothing for nothing", w, 2-budget)
	}
}

// Between the steps of a walk the mutex is free, and anything may happen.
func TestWalkMeetsWhatHappensBetweenItsSteps(t *testing.T) {
	for _, tt := range []struct {
		reason   string
		between  func(q *queue, ws []*waiter)
		want     []string // found in the second step
		heaviest int64
	}{
		{"nothing", func(*queue, []*waiter) {}, []string{"d"}, 2},
		{"the next one to look at left", func(q *queue, ws []*waiter) {
			q.Decide(ws[2], waitq.Granted)
		}, []string{"d"}, 2},
		{"the next two left", func(q *queue, ws []*waiter) {
			q.Decide(ws[2], waitq.Granted)
			q.Decide(ws[3], waitq.Granted)
		}, nil, 2},
		{"the next two left, back one first", func(q *queue, ws []*waiter) {
			q.Decide(ws[3], waitq.Granted)
			q.Decide(ws[2], waitq.Granted)
		}, nil, 2},
		{"one looked at already left", func(q *queue, ws []*waiter) {
			q.Decide(ws[0], waitq.Granted)
		}, []string{"d"}, 2},
		{"a heavy one came", func(q *queue, ws []*waiter) {
			push(q, "late", 8)
		}, []string{"d", "late"}, 2},
		{"the rest left, then a heavy one came", func(q *queue, ws []*waiter) {
			q.Decide(ws[2], waitq.Granted)
			q.Decide(ws[3], waitq.Granted)
			push(q, "late", 8)
		}, []string{"late"}, 2},
		{"all left, then two came", func(q *queue, ws []*waiter) {
			for _, w := range ws {
				q.Decide(w, waitq.Granted)
			}
			push(q, "light", 1)
			push(q, "late", 8)
		}, []string{"late"}, 2},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var q queue
			ws := []*waiter{push(&q, "a", 1), push(&q, "b", 2), push(&q, "c", 1), push(&q, "d", 9)}
			var k waitq.Walk[string]
			q.Begin(&k)
			if got := above(&q, &k, 3, 2); got != nil {
				t.Fatalf("first step found %v, want nothing", got)
			}
			tt.between(&q, ws)
			if got := above(&q, &k, 3, ample); !slices.Equal(got, tt.want) {
				t.Errorf("second step found %v, want %v", got, tt.want)
			}
			if !k.AtEnd() {
				t.Error("not at the end")
			}
			q.End(&k)
			if got := q.Heaviest(); got != tt.heaviest {
				t.Errorf("Heaviest = %d, want %d", got, tt.heaviest)
			}
		})
	}
}

// Two calls of SetLimit may each be on their way through the queue.
func TestWalksDoNotDisturbEachOther(t *testing.T) {
	var q queue
	for _, x := range []struct {
		name   string
		weight int64
	}{{"a", 5}, {"b", 2}, {"c", 4}, {"d", 3}, {"e", 6}} {
		push(&q, x.name, x.weight)
	}
	var one, two, three waitq.Walk[string]
	q.Begin(&one)
	if got, want := above(&q, &one, 3, 2), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("one: got %v, want %v", got, want)
	}
	q.Begin(&two)
	q.Begin(&three)
	if got, want := above(&q, &two, 2, ample), []string{"c", "d", "e"}; !slices.Equal(got, want) {
		t.Errorf("two: got %v, want %v", got, want)
	}
	// What one had still to look at was c, d and e.
	if got := above(&q, &one, 3, ample); got != nil || !one.AtEnd() {
		t.Errorf("one: got %v, at the end: %v; want nothing at the end", got, one.AtEnd())
	}
	// Ending them in any order takes off the one that is meant.
	q.End(&two)
	q.End(&one)
	push(&q, "late", 7)
	if got, want := above(&q, &three, 2, ample), []string{"late"}; !slices.Equal(got, want) {
		t.Errorf("three: got %v, want %v", got, want)
	}
	q.End(&three)
	if got := q.Heaviest(); got != 2 {
		t.Errorf("Heaviest = %d, want 2", got)
	}
	// A walk that has ended follows nobody any more.
	push(&q, "later", 9)
	if !one.AtEnd() || !two.AtEnd() || !three.AtEnd() {
		t.Error("a walk that has ended moved on")
	}
}
