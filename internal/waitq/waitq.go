// Package waitq is the queue of a semaphore's waiters: first in, first out,
// and, for those that have one, ordered by deadline as well.
//
// A [Waiter] is one queued request. It is linked into the queue itself, so
// queueing allocates nothing and leaving from anywhere costs the same whether
// ten wait or a million. A Queue does no locking and wakes nobody: it says who
// is where, and the semaphore, which calls it with its mutex held, decides.
package waitq

// Outcome says whether a waiter still waits and, if not, how its wait ended.
//
//	      Push                  Decide(Granted): a releaser, a resizer, a leaver
//	new ────────▶ Waiting ────────────────────────────────────────▶ Granted
//	                 │
//	                 ├── Decide(Canceled): its context ended, or its owner withdrew it
//	                 ├── Decide(Expired):  its deadline passed
//	                 ├── Decide(Evicted):  the limit fell below its weight
//	                 └── Decide(Closed):   the semaphore was closed
//
// All arrows are taken under the semaphore's mutex, and no arrow leaves the
// right-hand side. That is the single outcome invariant.
type Outcome uint8

const (
	Waiting  Outcome = iota // not decided: queued, or not yet pushed
	Granted                 // holds its permits
	Canceled                // withdrawn
	Expired                 // waited as long as it was willing to
	Evicted                 // can never be granted under the present limit
	Closed                  // the semaphore stopped granting
	Refused                 // never waited: could not be queued at all
)

// Waiter is one request in a [Queue]. Set Weight and Value before Push; the
// unexported fields belong to the queue. The zero value is ready for use, and
// once the wait is decided, setting it to zero makes it so again.
type Waiter[T any] struct {
	next, prev *Waiter[T] // in a Queue; once decided, next is for a Batch

	// Weight is how many permits the request asks for.
	Weight  int64
	outcome Outcome

	// Woken is the semaphore's own mark: the waiter has been told to look
	// whether it can take its permits, and has not looked yet.
	Woken bool

	// The waiter's place among the deadlines: see deadlines.
	slot           uint32
	due            int64
	earlier, later *Waiter[T]

	// Value is whatever the semaphore keeps with the request.
	Value T
}

// Outcome reports how the wait ended, or Waiting.
func (w *Waiter[T]) Outcome() Outcome { return w.outcome }

// Settle gives a waiter that was never pushed its outcome.
func (w *Waiter[T]) Settle(o Outcome) { w.outcome = o }

// Queue holds waiters in the order of their Push. The zero value is an empty
// queue. It holds no pointer to itself, so that a semaphore which nobody has
// used yet may be copied.
type Queue[T any] struct {
	head, tail *Waiter[T]
	len        int
	heaviest   int64
	walks      *Walk[T]
	deadlines  deadlines[T]
}

// Len returns the number of waiters.
func (q *Queue[T]) Len() int { return q.len }

// Head returns the waiter that came first, or nil.
func (q *Queue[T]) Head() *Waiter[T] { return q.head }

// Heaviest returns an upper bound of the weights queued, so that a caller who
// looks for weights above some number need not walk a queue that has none: the
// heaviest pushed since the queue was empty or last walked through.
func (q *Queue[T]) Heaviest() int64 { return q.heaviest }

// Push puts w at the end of the queue.
func (q *Queue[T]) Push(w *Waiter[T]) {
	w.prev = q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	for k := q.walks; k != nil; k = k.link {
		if k.at == nil {
			k.at = w
		}
	}
	q.len++
	q.heaviest = max(q.heaviest, w.Weight)
}

// Decide ends w's wait with the given outcome: w leaves the queue, from
// wherever it stands, and its deadline is forgotten. It panics if w does not
// wait, as a second outcome is the one thing that must never happen.
func (q *Queue[T]) Decide(w *Waiter[T], o Outcome) {
	if w.outcome != Waiting || o == Waiting {
		panic("waitq: single outcome: waiter decided twice")
	}
	w.outcome = o
	for k := q.walks; k != nil; k = k.link {
		if k.at == w {
			k.at = w.next
		}
	}
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
	q.deadlines.remove(w)
	q.len--
	if q.len == 0 {
		q.heaviest = 0
	}
}
