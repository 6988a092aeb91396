package waitq_test

import (
	"slices"
	"testing"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

func TestBatchIsFirstInFirstOut(t *testing.T) {
	var q queue
	var b waitq.Batch[string]
	if b.Len() != 0 || b.First() != nil || b.Pop() != nil {
		t.Error("a zero Batch is not empty")
	}
	decide := func(name string) {
		w := push(&q, name, 1)
		q.Decide(w, waitq.Granted)
		b.Push(w)
	}
	var got []string
	pop := func() {
		first, had := b.First(), b.Len()
		w := b.Pop()
		if w != first {
			t.Errorf("Pop took %v of %d, want the First, %v", w, had, first)
		}
		if w != nil {
			got = append(got, w.Value)
		}
	}
	decide("a")
	decide("b")
	pop()
	decide("c") // pushed while others are in it
	pop()
	pop()
	pop()
	decide("d") // pushed after it was empty
	if b.Len() != 1 {
		t.Errorf("Len = %d, want 1", b.Len())
	}
	pop()
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if b.Len() != 0 || b.Pop() != nil {
		t.Error("not empty after all were taken out")
	}
}

// Whoever is told is free to queue again before the rest of the batch has been
// told, in the same queue, or to be part of another batch.
func TestPoppedWaiterIsNoPartOfTheBatch(t *testing.T) {
	var q queue
	var b, other waitq.Batch[string]
	var ws []*waiter
	for _, name := range []string{"a", "b", "c"} {
		ws = append(ws, push(&q, name, 1))
	}
	for _, w := range ws {
		q.Decide(w, waitq.Granted)
		b.Push(w)
	}
	a := b.Pop()
	*a = waiter{Weight: 1, Value: "a again"}
	q.Push(a)
	other.Push(b.Pop())
	if got := b.Pop(); got != ws[2] {
		t.Errorf("third Pop = %v, want c", got)
	}
	if got := other.Pop(); got != ws[1] {
		t.Errorf("Pop of the other batch = %v, want b", got)
	}
	if got, want := drain(&q), []string{"a again"}; !slices.Equal(got, want) {
		t.Errorf("queue: got %v, want %v", got, want)
	}
}
