package waitq

// heap is an indexed heap of the waiters whose deadlines came out of order: the
// earliest is at hand, and any of them can be taken out. Each node has four
// children, which halves the depth of a binary heap and keeps siblings in one
// cache line.
//
// The entries lie in chunks, so that growing never copies more than one chunk:
// an append to a slice of a million entries would hold the semaphore's mutex
// for milliseconds.
type heap[T any] struct {
	chunks [][]entry[T]
	len    int
}

// entry keeps the deadline beside the pointer, so that comparing two of them
// does not touch the waiters.
type entry[T any] struct {
	due int64
	w   *Waiter[T]
}

const (
	arity     = 4
	chunkBits = 8
	chunkLen  = 1 << chunkBits
)

func (h *heap[T]) at(i int) *entry[T] {
	return &h.chunks[i>>chunkBits][i&(chunkLen-1)]
}

// min returns the waiter with the earliest deadline, or nil.
func (h *heap[T]) min() *Waiter[T] {
	if h.len == 0 {
		return nil
	}
	return h.at(0).w
}

// put places e at i and tells its waiter.
func (h *heap[T]) put(i int, e entry[T]) {
	*h.at(i) = e
	e.w.slot = uint32(i) + 1
}

func (h *heap[T]) push(w *Waiter[T]) {
	if h.len>>chunkBits == len(h.chunks) {
		// The first chunk grows as slices do: most queues stay short.
		size := 0
		if h.len > 0 {
			size = chunkLen
		}
		h.chunks = append(h.chunks, make([]entry[T], 0, size))
	}
	last := &h.chunks[h.len>>chunkBits]
	e := entry[T]{w.due, w}
	*last = append(*last, e)
	h.len++
	h.up(h.len-1, e)
}

// remove takes w out: the last entry fills the gap and finds its place.
func (h *heap[T]) remove(w *Waiter[T]) {
	i := int(w.slot) - 1
	h.len--
	last := &h.chunks[h.len>>chunkBits]
	e := (*last)[h.len&(chunkLen-1)]
	(*last)[h.len&(chunkLen-1)] = entry[T]{} // keep no waiter alive
	*last = (*last)[:h.len&(chunkLen-1)]
	h.shrink()
	if i == h.len {
		return
	}
	if i > 0 && e.due < h.at((i-1)/arity).due {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

// shrink lets go of chunks that are no longer needed, all but one, so that a
// queue whose length swings about a chunk's end does not allocate at each
// swing, and of all but the first when nothing is left.
func (h *heap[T]) shrink() {
	switch n := len(h.chunks); {
	case h.len == 0 && n > 1:
		h.chunks = [][]entry[T]{h.chunks[0]}
	case n > h.len>>chunkBits+2:
		h.chunks[n-1] = nil
		h.chunks = h.chunks[:n-1]
	}
}

// up places e at i or at the ancestor of i where it belongs.
func (h *heap[T]) up(i int, e entry[T]) {
	for i > 0 {
		parent := (i - 1) / arity
		p := *h.at(parent)
		if p.due <= e.due {
			break
		}
		h.put(i, p)
		i = parent
	}
	h.put(i, e)
}

// down places e at i or at the descendant of i where it belongs.
func (h *heap[T]) down(i int, e entry[T]) {
	for {
		first := i*arity + 1
		if first >= h.len {
			break
		}
		least := first
		for c := first + 1; c < min(first+arity, h.len); c++ {
			if h.at(c).due < h.at(least).due {
				least = c
			}
		}
		l := *h.at(least)
		if e.due <= l.due {
			break
		}
		h.put(i, l)
		i = least
	}
	h.put(i, e)
}
