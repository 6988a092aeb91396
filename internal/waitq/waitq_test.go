package waitq_test

import (
	"slices"
	"testing"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

type (
	waiter = waitq.Waiter[string]
	queue  = waitq.Queue[string]
)

// push queues a waiter of the given name and weight.
func push(q *queue, name string, weight int64) *waiter {
	w := &waiter{Weight: weight, Value: name}
	q.Push(w)
	return w
}

// drain decides every waiter from the head on and returns their names.
func drain(q *queue) (names []string) {
	for w := q.Head(); w != nil; w = q.Head() {
		names = append(names, w.Value)
		q.Decide(w, waitq.Granted)
	}
	return names
}

func TestZeroQueueIsEmpty(t *testing.T) {
	var q queue
	if q.Len() != 0 || q.Head() != nil || q.Heaviest() != 0 {
		t.Errorf("got %d waiters, head %v, heaviest %d, want none", q.Len(), q.Head(), q.Heaviest())
	}
	if w, _ := q.Earliest(); w != nil {
		t.Errorf("Earliest = %v, want nil", w)
	}
}

func TestLeavingFromAnywhereKeepsTheOrder(t *testing.T) {
	for _, tt := range []struct {
		reason string
		leave  []int // of five waiters, in this order
		want   []string
	}{
		{"nobody left", nil, []string{"a", "b", "c", "d", "e"}},
		{"the head left", []int{0}, []string{"b", "c", "d", "e"}},
		{"the tail left", []int{4}, []string{"a", "b", "c", "d"}},
		{"one from the middle left", []int{2}, []string{"a", "b", "d", "e"}},
		{"neighbours left, front one first", []int{1, 2, 3}, []string{"a", "e"}},
		{"neighbours left, back one first", []int{3, 2, 1}, []string{"a", "e"}},
		{"both ends left", []int{4, 0}, []string{"b", "c", "d"}},
		{"all but one left", []int{3, 0, 4, 1}, []string{"c"}},
		{"all left", []int{2, 0, 4, 3, 1}, nil},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var q queue
			var ws []*waiter
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				ws = append(ws, push(&q, name, 1))
			}
			for _, i := range tt.leave {
				q.Decide(ws[i], waitq.Canceled)
			}
			if got, want := q.Len(), len(tt.want); got != want {
				t.Errorf("Len = %d, want %d", got, want)
			}
			// Whoever comes now stands behind all who stayed.
			push(&q, "new", 1)
			if got, want := drain(&q), append(tt.want, "new"); !slices.Equal(got, want) {
				t.Errorf("order: got %v, want %v", got, want)
			}
			if q.Len() != 0 {
				t.Errorf("Len = %d after all left, want 0", q.Len())
			}
		})
	}
}

func TestOutcomeIsTheOneDecided(t *testing.T) {
	for _, o := range []waitq.Outcome{waitq.Granted, waitq.Canceled, waitq.Expired, waitq.Evicted, waitq.Closed} {
		var q queue
		w := push(&q, "a", 1)
		if got := w.Outcome(); got != waitq.Waiting {
			t.Errorf("Outcome = %d while it waits, want %d", got, waitq.Waiting)
		}
		q.Decide(w, o)
		if got := w.Outcome(); got != o {
			t.Errorf("Outcome = %d, want %d", got, o)
		}
	}
}

// Single outcome: a waiter that was granted and then withdrawn as well would
// take its permits with it.
func TestSecondOutcomePanics(t *testing.T) {
	for _, tt := range []struct {
		reason string
		first  waitq.Outcome
		second waitq.Outcome
	}{
		{"granted, then canceled", waitq.Granted, waitq.Canceled},
		{"canceled, then granted", waitq.Canceled, waitq.Granted},
		{"the same twice", waitq.Expired, waitq.Expired},
		{"back to waiting", waitq.Closed, waitq.Waiting},
		{"decided as waiting", waitq.Waiting, waitq.Waiting},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var q queue
			w := push(&q, "a", 1)
			push(&q, "b", 1)
			if tt.first != waitq.Waiting {
				q.Decide(w, tt.first)
			}
			before := q.Len()
			defer func() {
				if got, want := recover(), "waitq: single outcome: waiter decided twice"; got != want {
					t.Errorf("panic = %v, want %q", got, want)
				}
				if w.Outcome() != tt.first || q.Len() != before {
					t.Errorf("got outcome %d and %d waiters, want %d and %d as before", w.Outcome(), q.Len(), tt.first, before)
				}
			}()
			q.Decide(w, tt.second)
		})
	}
}

func TestResetWaiterMayBeQueuedAgain(t *testing.T) {
	var q queue
	w := push(&q, "a", 5)
	q.SetDeadline(w, 1)
	push(&q, "b", 1)
	q.Decide(w, waitq.Expired)

	*w = waiter{Weight: 2, Value: "again"}
	q.Push(w)
	if w, _ := q.Earliest(); w != nil {
		t.Errorf("Earliest = %q, want none: the deadline was of its former life", w.Value)
	}
	if got, want := drain(&q), []string{"b", "again"}; !slices.Equal(got, want) {
		t.Errorf("order: got %v, want %v", got, want)
	}
}

// A semaphore that nobody has used yet may be copied, and so may its queue.
func TestCopyOfAnUnusedQueueIsIndependent(t *testing.T) {
	var original queue
	q := original
	w := push(&q, "a", 1)
	q.SetDeadline(w, 1)
	if original.Len() != 0 || original.Head() != nil {
		t.Error("a push to the copy shows in the original")
	}
	if w, _ := original.Earliest(); w != nil {
		t.Error("a deadline in the copy shows in the original")
	}
	if got, want := drain(&q), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHeaviestIsForgottenWhenTheQueueEmpties(t *testing.T) {
	var q queue
	heavy := push(&q, "heavy", 9)
	light := push(&q, "light", 2)
	if got := q.Heaviest(); got != 9 {
		t.Errorf("Heaviest = %d, want 9", got)
	}
	q.Decide(heavy, waitq.Granted)
	if got := q.Heaviest(); got < 2 {
		t.Errorf("Heaviest = %d, want at least the 2 that is queued", got)
	}
	q.Decide(light, waitq.Granted)
	if got := q.Heaviest(); got != 0 {
		t.Errorf("Heaviest = %d, want 0", got)
	}
	push(&q, "light", 1)
	if got := q.Heaviest(); got != 1 {
		t.Errorf("Heaviest = %d, want 1", got)
	}
}
