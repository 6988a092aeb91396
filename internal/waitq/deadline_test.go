package waitq_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// pushDue queues a waiter that falls due at the given time.
func pushDue(q *queue, due int64) *waiter {
	w := push(q, "", 1)
	q.SetDeadline(w, due)
	return w
}

// expire decides waiters from the earliest deadline on and returns when they
// were due.
func expire(q *queue) (dues []int64) {
	for w, due := q.Earliest(); w != nil; w, due = q.Earliest() {
		q.Decide(w, waitq.Expired)
		dues = append(dues, due)
	}
	return dues
}

func TestEarliestDeadlineComesFirst(t *testing.T) {
	const n = 3000 // many chunks of the heap, and a depth of six
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		reason string
		due    func(i int) int64
	}{
		{"one maximum wait for all: in order", func(i int) int64 { return int64(i) }},
		{"each shorter than the one before", func(i int) int64 { return int64(n - i) }},
		{"all at one instant", func(int) int64 { return 7 }},
		{"in no order", func(int) int64 { return rng.Int64() }},
		{"in no order, many equal", func(int) int64 { return rng.Int64N(10) }},
		{"before and after zero", func(int) int64 { return rng.Int64N(2000) - 1000 }},
		{"at the ends of the clock", func(i int) int64 {
			return []int64{math.MaxInt64, math.MinInt64, 0, -1, math.MaxInt64 - 1}[i%5]
		}},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var q queue
			var want []int64
			for i := range n {
				due := tt.due(i)
				pushDue(&q, due)
				push(&q, "", 1) // one that never falls due
				want = append(want, due)
			}
			slices.Sort(want)
			if got := expire(&q); !slices.Equal(got, want) {
				t.Error("deadlines did not come in their order")
			}
			if q.Len() != n {
				t.Errorf("%d waiters stayed, want the %d without a deadline", q.Len(), n)
			}
		})
	}
}

// A waiter that is granted or withdrawn takes its deadline along, from
// wherever that stands among the others.
func TestDecidedWaiterForgetsItsDeadline(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		var q queue
		type timed struct {
			w   *waiter
			due int64
		}
		var all []timed
		for range 1 + rng.IntN(700) {
			due := rng.Int64N(100)
			all = append(all, timed{pushDue(&q, due), due})
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		stay := all[:rng.IntN(len(all))]
		for _, x := range all[len(stay):] {
			q.Decide(x.w, waitq.Canceled)
		}
		var want []int64
		for _, x := range stay {
			want = append(want, x.due)
		}
		slices.Sort(want)
		if got := expire(&q); !slices.Equal(got, want) {
			t.Fatalf("of %d deadlines %d stayed: got %v, want %v", len(all), len(stay), got, want)
		}
	}
}
