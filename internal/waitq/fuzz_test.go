package waitq_test

import (
	"cmp"
	"container/list"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// FuzzQueue plays a script on a Queue, a Batch and a few walks, and beside them
// on a model that has nothing in common with them: container/list for the
// order, a sorted slice for the deadlines, numbers for how far a walk has come.
func FuzzQueue(f *testing.F) {
	f.Add([]byte{})
	rng := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		script := make([]byte, rng.IntN(600))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		m := &model{t: t, order: list.New(), queued: make(map[int]*list.Element)}
		for range 300 { // a longer one only takes longer
			if len(script) < 3 {
				break
			}
			m.step(script[0], script[1], script[2])
			m.compare()
			script = script[3:]
		}
		for m.order.Len() > 0 {
			m.compareHead()
			m.decide(m.order.Front(), waitq.Closed)
		}
		m.compare()
		m.tell(len(m.untold))
	})
}

// item is a waiter, and what the model knows of it.
type item struct {
	w     waitq.Waiter[int] // Value is seq
	seq   int
	due   int64
	timed bool
}

// walk is a Walk, and the number of the last waiter that it has looked at.
type walk struct {
	real  waitq.Walk[int]
	on    bool
	limit int64
	seen  int
}

type model struct {
	t     *testing.T
	queue waitq.Queue[int]
	batch waitq.Batch[int]
	walks [3]walk

	seq    int
	order  *list.List            // of *item, first come first
	queued map[int]*list.Element // the same by number
	dues   []*item               // those with a deadline, earliest first
	untold []int                 // what is in batch
}

// step does what three bytes of the script say.
func (m *model) step(op, a, b byte) {
	rng := rand.New(rand.NewPCG(uint64(a), uint64(b)))
	switch op % 8 {
	case 0, 1: // one comes
		m.push(int64(a%16), int64(b), op%16 < 8)
	case 2: // a crowd comes, and fills chunks of the deadline heap
		if m.order.Len() > 1500 {
			a = 1
		}
		for i := range int64(a) {
			m.push(i%16, (i*int64(b))%251, true)
		}
	case 3: // one leaves, from anywhere
		m.decideSome(1, rng, waitq.Outcome(1+a%5))
	case 4: // a crowd leaves, from anywhere
		m.decideSome(int(a), rng, waitq.Canceled)
	case 5: // the next deadlines pass
		for range 1 + a%8 {
			if w, _ := m.queue.Earliest(); w != nil {
				m.decide(m.queued[w.Value], waitq.Expired)
			}
		}
	case 6: // a walk begins or goes on, and ends when it is at the end
		m.walk(&m.walks[a%3], int64(a%16), int(b%64))
	case 7: // some are told
		m.tell(int(a % 64))
	}
}

func (m *model) push(weight, due int64, timed bool) {
	m.seq++
	x := &item{seq: m.seq, due: due, timed: timed}
	x.w.Weight = weight
	x.w.Value = m.seq
	m.queue.Push(&x.w)
	m.queued[x.seq] = m.order.PushBack(x)
	if timed {
		m.queue.SetDeadline(&x.w, due)
		m.dues = slices.Insert(m.dues, m.place(x), x)
	}
}

// place returns where in dues x is, or belongs.
func (m *model) place(x *item) int {
	i, _ := slices.BinarySearchFunc(m.dues, x, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.seq, b.seq))
	})
	return i
}

func (m *model) decide(e *list.Element, o waitq.Outcome) {
	x := m.order.Remove(e).(*item)
	delete(m.queued, x.seq)
	if i := m.place(x); x.timed {
		m.dues = slices.Delete(m.dues, i, i+1)
	}
	m.queue.Decide(&x.w, o)
	if got := x.w.Outcome(); got != o {
		m.t.Fatalf("outcome of %d: got %d, want %d", x.seq, got, o)
	}
	m.batch.Push(&x.w)
	m.untold = append(m.untold, x.seq)
}

// decideSome decides n waiters, each a few places from either end.
func (m *model) decideSome(n int, rng *rand.Rand, o waitq.Outcome) {
	for range min(n, m.order.Len()) {
		e, next := m.order.Front(), (*list.Element).Next
		if rng.IntN(2) == 0 {
			e, next = m.order.Back(), (*list.Element).Prev
		}
		for range rng.IntN(min(30, m.order.Len())) {
			e = next(e)
		}
		m.decide(e, o)
	}
}

func (m *model) walk(k *walk, limit int64, budget int) {
	if !k.on {
		*k = walk{on: true, limit: limit}
		m.queue.Begin(&k.real)
	}
	left := budget
	for {
		want := m.above(k, &left)
		got := k.real.Above(k.limit, &budget)
		if budget != left {
			m.t.Fatalf("a step of a walk left a budget of %d, want %d", budget, left)
		}
		if want == nil {
			if got != nil {
				m.t.Fatalf("walk above %d found %d, want nobody", k.limit, got.Value)
			}
			break
		}
		if want := want.Value.(*item).seq; got == nil || got.Value != want {
			m.t.Fatalf("walk above %d found %v, want %d", k.limit, got, want)
		}
		m.decide(want, waitq.Evicted)
	}
	if m.unseen(k) != nil {
		return
	}
	m.queue.End(&k.real)
	k.on = false
	// What the caller learns: a walk above a limit no lower finds nobody.
	if got := m.queue.Heaviest(); got > k.limit {
		m.t.Fatalf("Heaviest = %d after a walk that left nobody above %d", got, k.limit)
	}
}

// unseen returns the first waiter that k has not looked at, or nil.
func (m *model) unseen(k *walk) *list.Element {
	for e := m.order.Front(); e != nil; e = e.Next() {
		if e.Value.(*item).seq > k.seen {
			return e
		}
	}
	return nil
}

// above is what [waitq.Walk.Above] does.
func (m *model) above(k *walk, budget *int) *list.Element {
	for e := m.unseen(k); e != nil && *budget > 0; e = e.Next() {
		*budget--
		x := e.Value.(*item)
		k.seen = x.seq
		if x.w.Weight > k.limit {
			return e
		}
	}
	return nil
}

func (m *model) tell(n int) {
	for range min(n, len(m.untold)) {
		if w := m.batch.Pop(); w == nil || w.Value != m.untold[0] {
			m.t.Fatalf("told %v, want %d", w, m.untold[0])
		}
		m.untold = m.untold[1:]
	}
	if got, want := m.batch.Len(), len(m.untold); got != want {
		m.t.Fatalf("%d in the batch, want %d", got, want)
	}
}

// compare compares all that can be seen of the queue with the model.
func (m *model) compare() {
	m.t.Helper()
	if got, want := m.queue.Len(), m.order.Len(); got != want {
		m.t.Fatalf("Len = %d, want %d", got, want)
	}
	m.compareHead()
	switch w, due := m.queue.Earliest(); {
	case (w == nil) != (len(m.dues) == 0):
		m.t.Fatalf("Earliest = %v with %d deadlines", w, len(m.dues))
	case w == nil:
	case due != m.dues[0].due:
		m.t.Fatalf("earliest deadline = %d, want %d", due, m.dues[0].due)
	case m.queued[w.Value] == nil || m.queued[w.Value].Value.(*item).due != due:
		m.t.Fatalf("waiter %d is said to be due at %d, and is not", w.Value, due)
	}
	for e := m.order.Front(); e != nil; e = e.Next() {
		if x := e.Value.(*item); x.w.Weight > m.queue.Heaviest() {
			m.t.Fatalf("Heaviest = %d with a weight of %d queued", m.queue.Heaviest(), x.w.Weight)
		}
	}
	for i := range m.walks {
		if k := &m.walks[i]; k.on && k.real.AtEnd() != (m.unseen(k) == nil) {
			m.t.Fatalf("walk at its end: %v, with %v left to look at", k.real.AtEnd(), m.unseen(k))
		}
	}
}

func (m *model) compareHead() {
	m.t.Helper()
	switch head, front := m.queue.Head(), m.order.Front(); {
	case (head == nil) != (front == nil):
		m.t.Fatalf("Head = %v with %d queued", head, m.order.Len())
	case head != nil && head.Value != front.Value.(*item).seq:
		m.t.Fatalf("Head = %d, want %d", head.Value, front.Value.(*item).seq)
	}
}
