package waitq

// Walk looks through a whole queue for weights above a limit, in steps, with
// others free to push and decide between the steps: a walk over a long queue
// can so let go of the mutex on the way. Waiters pushed meanwhile are met too.
type Walk[T any] struct {
	at       *Waiter[T] // the next one to look at; nil at the end
	heaviest int64      // of those looked at and left in the queue
	link     *Walk[T]   // the queue's other walks
}

// Begin places the walk before the head of q. Every Begin needs its End.
func (q *Queue[T]) Begin(k *Walk[T]) {
	*k = Walk[T]{at: q.head, link: q.walks}
	q.walks = k
}

// Above returns the next waiter heavier than limit, which the caller decides
// before the next step. It looks at no more than *budget waiters, takes them
// off *budget, and returns nil when that, or the queue, is at its end.
func (k *Walk[T]) Above(limit int64, budget *int) *Waiter[T] {
	for k.at != nil && *budget > 0 {
		w := k.at
		k.at = w.next
		*budget--
		if w.Weight > limit {
			return w
		}
		k.heaviest = max(k.heaviest, w.Weight)
	}
	return nil
}

// AtEnd reports whether no waiter is left to look at.
func (k *Walk[T]) AtEnd() bool { return k.at == nil }

// End takes a walk that is at its end off the queue, which knows from it how
// heavy its heaviest waiter can be.
func (q *Queue[T]) End(k *Walk[T]) {
	q.heaviest = k.heaviest
	for p := &q.walks; *p != nil; p = &(*p).link {
		if *p == k {
			*p = k.link
			return
		}
	}
}
