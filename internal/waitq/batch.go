package waitq

// Batch is a list of decided waiters that have not been told yet, first
// decided first. Telling many under the mutex would hold it for long; the batch
// carries them out of it, linked through themselves. The zero value is an empty
// batch.
type Batch[T any] struct {
	head, tail *Waiter[T]
	len        int
}

// Len returns how many waiters are in the batch.
func (b *Batch[T]) Len() int { return b.len }

// First returns the waiter that Pop would take out, or nil.
func (b *Batch[T]) First() *Waiter[T] { return b.head }

// Push adds w, which must have been decided.
func (b *Batch[T]) Push(w *Waiter[T]) {
	if b.tail == nil {
		b.head = w
	} else {
		b.tail.next = w
	}
	b.tail = w
	b.len++
}

// Pop takes out the first waiter, or returns nil. The batch keeps no reference
// to it, so whoever is told may reuse it at once.
func (b *Batch[T]) Pop() *Waiter[T] {
	w := b.head
	if w == nil {
		return nil
	}
	b.head = w.next
	if b.head == nil {
		b.tail = nil
	}
	w.next = nil
	b.len--
	return w
}
