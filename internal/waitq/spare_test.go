package waitq_test

import (
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

type parked = waitq.Parked[string]

func TestSpareIsLastInFirstOut(t *testing.T) {
	var s waitq.Spare[string]
	if s.Pop() != nil {
		t.Error("a zero Spare is not empty")
	}
	a, b := new(parked), new(parked)
	s.Push(a)
	s.Push(b)
	if got := s.Pop(); got != b {
		t.Errorf("first Pop = %v, want b", got)
	}
	s.Push(b)
	if got := s.Pop(); got != b {
		t.Errorf("Pop after another Push = %v, want b", got)
	}
	if got := s.Pop(); got != a {
		t.Errorf("last Pop = %v, want a", got)
	}
	if s.Pop() != nil {
		t.Error("not empty after all were taken")
	}
}

func TestClearedSpareKeepsNoWaiter(t *testing.T) {
	var s waitq.Spare[string]
	s.Clear()
	gone := func() weak.Pointer[parked] {
		w := &parked{}
		s.Push(w)
		s.Push(&parked{})
		s.Clear()
		return weak.Make(w)
	}()
	if s.Pop() != nil {
		t.Error("Pop after Clear found a waiter")
	}
	runtime.GC()
	if gone.Value() != nil {
		t.Error("a cleared waiter is still reachable")
	}
	runtime.KeepAlive(&s)
}

// A spare waiter must not hold on to those that lay under it.
func TestPoppedSpareKeepsNoOther(t *testing.T) {
	var s waitq.Spare[string]
	top, under := func() (*parked, weak.Pointer[parked]) {
		s.Push(&parked{})
		s.Push(&parked{})
		return s.Pop(), weak.Make(s.Pop())
	}()
	runtime.GC()
	if under.Value() != nil {
		t.Error("a spare is reachable through the one that lay on it")
	}
	runtime.KeepAlive(top)
	runtime.KeepAlive(&s)
}

// Many put waiters back, without the mutex, while one takes, with it. Nobody
// gets a waiter that another has, and none is lost: with as many waiters as
// users, and each using one, there is always one to be had.
func TestSpareMayBePushedToWhileItIsPopped(t *testing.T) {
	const users, rounds = 4, crowd / 8
	var s waitq.Spare[int]
	for range users {
		s.Push(new(waitq.Parked[int]))
	}
	var mu sync.Mutex // the semaphore's
	var wg sync.WaitGroup
	for range users {
		wg.Go(func() {
			for range rounds {
				mu.Lock()
				w := s.Pop()
				mu.Unlock()
				if w == nil {
					t.Error("a waiter is lost")
					return
				}
				if w.Value++; w.Value != 1 { // the race detector watches, too
					t.Errorf("%d users have one waiter", w.Value)
				}
				w.Value--
				s.Push(w)
			}
		})
	}
	wg.Wait()
	n := 0
	for s.Pop() != nil {
		n++
	}
	if n != users {
		t.Errorf("%d waiters in the end, want %d", n, users)
	}
}
