package waitq

// Batch is a list of decided waiters that have not been told yet, first
// decided first. Deciding happens under the mutex and telling after it, so
// that the woken do not run into a mutex still held; the batch carries them
// across, linked through themselves. The zero value is an empty batch.
type Batch[T any] struct {
	head, tail *Waiter[T]
	len        int
}

// Len returns how many waiters are in the batch.
func (b *Batch[T]) Len() int { return b.len }

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
