package waitq_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// heap returns the bytes in use, and none of them garbage.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestQueueingAllocatesNothing(t *testing.T) {
	var q queue
	ws := make([]waiter, crowd)
	if got := allocated(func() {
		for i := range ws {
			q.Push(&ws[i])
		}
		for range ws {
			q.Decide(q.Head(), waitq.Granted)
		}
	}); got > crowd/8 { // the runtime may allocate a little of its own
		t.Errorf("%d pushes and decisions allocated %d B, want nothing", crowd, got)
	}
}

func TestDeadlinesInOrderAllocateNothing(t *testing.T) {
	var q queue
	ws := make([]waiter, crowd)
	if got := allocated(func() {
		for i := range ws {
			q.Push(&ws[i])
			q.SetDeadline(&ws[i], int64(i))
		}
		expire(&q)
	}); got > crowd*8*6 { // what expire returns, which grows as append does
		t.Errorf("%d deadlines allocated %d B, want nothing", crowd, got)
	}
}

// A slice that grows as append does would copy itself over and over, megabytes
// at a time, with the semaphore's mutex held, and allocate several times what
// it holds in the end.
func TestDeadlinesOutOfOrderGrowWithoutCopying(t *testing.T) {
	const entry = 16 // bytes, of which a size class of the runtime may add a fifth
	var q queue
	ws := make([]waiter, crowd)
	got := allocated(func() {
		for i := range ws {
			q.Push(&ws[i])
			q.SetDeadline(&ws[i], int64(-i))
		}
	})
	if want := uint64(crowd * entry * 125 / 100); got > want {
		t.Errorf("%d deadlines allocated %d B, want at most %d", crowd, got, want)
	}
	runtime.KeepAlive(&q)
}

func TestCrowdLeavesNoMemoryBehind(t *testing.T) {
	for _, tt := range []struct {
		reason string
		stay   int
		limit  uint64 // the deadlines were 16 B a waiter
	}{
		{"all left", 0, 16 << 10},
		{"one stayed: what lists the chunks may stay too", 1, crowd / 4},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var q queue
			for range tt.stay {
				pushDue(&q, 0)
			}
			ws := make([]waiter, crowd)
			before := heap()
			for i := range ws {
				q.Push(&ws[i])
				q.SetDeadline(&ws[i], int64(-i)) // out of order
			}
			for i := range ws {
				q.Decide(&ws[i], waitq.Expired)
			}
			if after := heap(); after > before+tt.limit {
				t.Errorf("%d KB stayed behind", (after-before)>>10)
			}
			runtime.KeepAlive(ws)
			runtime.KeepAlive(&q)
		})
	}
}

// A queue whose length swings about the end of a chunk must not allocate and
// free one at each swing.
func TestSwingingAboutAChunksEndAllocatesNothing(t *testing.T) {
	for n := range 1030 { // past four chunks
		var q queue
		for i := range n {
			pushDue(&q, int64(-i)) // out of order
		}
		ws := make([]waiter, 3)
		swing := func() {
			for i := range ws {
				ws[i] = waiter{}
				q.Push(&ws[i])
				q.SetDeadline(&ws[i], -5000)
			}
			for i := range ws {
				q.Decide(&ws[i], waitq.Canceled)
			}
		}
		if got := testing.AllocsPerRun(5, swing); got != 0 {
			t.Fatalf("swinging between %d and %d deadlines allocates %v times", n, n+3, got)
		}
	}
}

// A waiter holds a context. Nothing in the queue may keep it alive once it is
// decided: not the waiters beside it, not the place in the heap that it left,
// not a walk, not the batch it was told from.
func TestDecidedWaiterIsCollectable(t *testing.T) {
	for _, tt := range []struct {
		reason string
		leave  int   // which of five
		step   int64 // from deadline to deadline
	}{
		{"from the head", 0, 1},
		{"from the middle", 2, 1},
		{"from the tail", 4, 1},
		{"from the head, deadlines out of order", 0, -1},
		{"from the middle, deadlines out of order", 2, -1},
		{"from the tail, deadlines out of order", 4, -1},
	} {
		t.Run(tt.reason, func(t *testing.T) {
			var q queue
			var k waitq.Walk[string]
			var b waitq.Batch[string]
			var others []*waiter
			gone := func() weak.Pointer[waiter] {
				var w *waiter
				for i := range 5 {
					x := pushDue(&q, int64(i)*tt.step)
					if i == tt.leave {
						w = x
					} else {
						others = append(others, x)
					}
				}
				q.Begin(&k)
				budget := tt.leave
				k.Above(5, &budget) // w is the next to look at
				q.Decide(w, waitq.Granted)
				b.Push(w)
				b.Push(pushAndDecide(&q))
				b.Pop()
				return weak.Make(w)
			}()
			runtime.GC()
			if gone.Value() != nil {
				t.Error("a decided waiter is still reachable")
			}
			runtime.KeepAlive([]any{&q, &k, &b, others})
		})
	}
}

func pushAndDecide(q *queue) *waiter {
	w := pushDue(q, 0)
	q.Decide(w, waitq.Granted)
	return w
}

// The last to leave is no exception, though the heap keeps its first chunk.
func TestEmptyQueueKeepsNoWaiter(t *testing.T) {
	var q queue
	var gone []weak.Pointer[waiter]
	for i := range 1000 {
		gone = append(gone, weak.Make(pushDue(&q, int64(i%7))))
	}
	expire(&q)
	runtime.GC()
	for i, w := range gone {
		if w.Value() != nil {
			t.Fatalf("waiter %d is still reachable", i)
		}
	}
	runtime.KeepAlive(&q)
}

// A decided waiter may live long. It must not hold on to those that stood
// beside it, in the queue or among the deadlines, or came after it in a batch.
func TestDecidedWaiterKeepsNoOther(t *testing.T) {
	var q queue
	var b waitq.Batch[string]
	kept, others := func() (kept *waiter, others []weak.Pointer[waiter]) {
		for i := range 5 {
			w := pushDue(&q, int64(i))
			if i == 2 {
				kept = w
			} else {
				others = append(others, weak.Make(w))
			}
		}
		q.Decide(kept, waitq.Granted)
		b.Push(kept)
		for w := q.Head(); w != nil; w = q.Head() {
			q.Decide(w, waitq.Granted)
			b.Push(w)
		}
		for w := b.Pop(); w != nil; w = b.Pop() {
		}
		return kept, others
	}()
	runtime.GC()
	for i, w := range others {
		if w.Value() != nil {
			t.Errorf("waiter %d of the others is reachable", i)
		}
	}
	runtime.KeepAlive(kept)
	runtime.KeepAlive(&q)
	runtime.KeepAlive(&b)
}
