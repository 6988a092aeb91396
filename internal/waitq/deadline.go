package waitq

// deadlines keeps the waiters that have a deadline so that the earliest is at
// hand and any of them can leave. Deadlines mostly come in order, as they do
// with one common maximum wait: those are a list, which costs the same at any
// length. Whoever falls due before the last of the list goes to a heap.
//
// In a waiter, due is its deadline; slot is listed, or one more than its index
// in the heap, or zero without a deadline. (A heap of 2³² waiters would need
// more than 400 GB.)
type deadlines[T any] struct {
	first, last *Waiter[T] // the list, linked by earlier and later
	heap        heap[T]
}

const listed = 1<<32 - 1

// SetDeadline makes w, which waits in q and has no deadline yet, fall due at
// the given time, in nanoseconds on a clock that is the caller's own.
func (q *Queue[T]) SetDeadline(w *Waiter[T], due int64) {
	w.due = due
	d := &q.deadlines
	if d.last != nil && due < d.last.due {
		d.heap.push(w)
		return
	}
	w.slot = listed
	if w.earlier = d.last; w.earlier == nil {
		d.first = w
	} else {
		w.earlier.later = w
	}
	d.last = w
}

// Earliest returns the waiter that falls due first, and when; nil if none has
// a deadline.
func (q *Queue[T]) Earliest() (w *Waiter[T], due int64) {
	w = q.deadlines.first
	if h := q.deadlines.heap.min(); h != nil && (w == nil || h.due < w.due) {
		w = h
	}
	if w == nil {
		return nil, 0
	}
	return w, w.due
}

// remove forgets the deadline of w, if it has one.
func (d *deadlines[T]) remove(w *Waiter[T]) {
	switch w.slot {
	case 0:
		return
	case listed:
		if w.earlier == nil {
			d.first = w.later
		} else {
			w.earlier.later = w.later
		}
		if w.later == nil {
			d.last = w.earlier
		} else {
			w.later.earlier = w.earlier
		}
		w.earlier, w.later = nil, nil
	default:
		d.heap.remove(w)
	}
	w.slot = 0
}
