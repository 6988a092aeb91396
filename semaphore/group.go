package semaphore

import (
	"context"

	"github.com/turnstile-go/turnstile/internal/waitq"
)

// group is the asynchronous requests of one semaphore that wait with one Done
// channel. They share one context.AfterFunc, so that ending a context that a
// million requests share costs its canceller next to nothing. They are told
// apart by the channel, as a context may not be hashable; each request keeps a
// context of its own, for the error.
//
// All methods of contexts, AfterFunc's among them, are user code. They are
// called by the goroutine that makes a request, by that of the AfterFunc, or by
// one started for the purpose: not under mu, and not by a releaser.
type group struct {
	sem   *Weighted
	done  <-chan struct{}
	first *Pending    // the member that joined last
	stop  func() bool // of the AfterFunc, once that is made
}

// joinLocked makes p a member of the group of its Done channel, and returns the
// group if it is new: its caller arms it once mu is released.
func (s *Weighted) joinLocked(p *Pending, done <-chan struct{}) (unarmed *group) {
	g := s.groups[done]
	if g == nil {
		if s.groups == nil {
			s.groups = make(map[<-chan struct{}]*group)
		}
		g = &group{sem: s, done: done}
		s.groups[done] = g
		unarmed = g
	}
	p.group = g
	if p.next = g.first; p.next != nil {
		p.next.prev = p
	}
	g.first = p
	return unarmed
}

// removeLocked takes p out. If that leaves the group empty, it returns what is
// to be called to stop it; or nil, if the group is not armed yet, as then arm
// stops it.
func (g *group) removeLocked(p *Pending) (stop func() bool) {
	if p.prev == nil {
		g.first = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	}
	p.group, p.next, p.prev = nil, nil, nil
	if g.first != nil {
		return nil
	}
	g.forgetLocked()
	return g.stop
}

// forgetLocked makes sure that nobody joins the group any more.
func (g *group) forgetLocked() {
	s := g.sem
	if s.groups[g.done] != g {
		return
	}
	delete(s.groups, g.done)
	if len(s.groups) == 0 {
		s.groups = nil // a map never shrinks
	}
}

// arm has the end of ctx, that of p, the group's first member, end the wait of
// all members. With owner, what p is granted belongs to the caller.
func (g *group) arm(ctx context.Context, p *Pending, owner bool) {
	armed := false
	defer func() {
		if !armed {
			g.armWithout(p, owner)
		}
	}()
	stop := context.AfterFunc(ctx, g.fire)
	armed = true
	g.armed(stop)
}

// armed notes how the group is stopped, or sees to it if it is empty already.
func (g *group) armed(stop func() bool) {
	g.sem.mu.Lock()
	g.stop = stop
	empty := g.first == nil
	g.sem.mu.Unlock()
	if empty {
		// Not here: if it panics, nobody gets what p was granted.
		go stop()
	}
}

// armWithout cleans up when a method of p's context has panicked under arm. The
// caller of the panicking AcquireAsync never gets p: what it asked for must not
// be held. Others who have joined meanwhile still rely on the group, which
// watches the channel itself from here on.
func (g *group) armWithout(p *Pending, owner bool) {
	if !p.Cancel() && owner && p.granted() {
		g.sem.Release(p.w.Weight)
	}
	quit := make(chan struct{})
	go func() {
		select {
		case <-g.done:
			g.fire()
		case <-quit:
		}
	}()
	g.armed(func() bool { close(quit); return true })
}

// fire ends the wait of all members. It is called once their context has ended,
// when nobody can join any more, on a goroutine of its own.
func (g *group) fire() {
	s := g.sem
	var out batch
	s.lock()
	g.forgetLocked()
	n := 0
	for p := g.first; p != nil; p = p.next {
		// The grant loop may have been here: then the waiter has left the
		// queue, and is left to us to be told. A member that is decided stays
		// in the group until we take it out, so p.next holds over the unlock.
		if p.w.Outcome() == waitq.Waiting {
			s.queue.Decide(&p.w, waitq.Canceled)
		}
		if n++; n%chunk == 0 {
			s.grantLocked(&out, handOff)
			s.tellAndRelock(&out)
		}
	}
	s.grantAndUnlock(&out, handOff)
	g.tell()
}

// tell asks each member's context for its error, and tells the member. All are
// decided, and nobody else takes them out of the group.
func (g *group) tell() {
	p := g.first
	err := context.Canceled // if its Err calls runtime.Goexit
	next := func() {
		g.sem.mu.Lock()
		p.end = err
		p.w.Value.done = nil
		g.removeLocked(p)
		g.sem.mu.Unlock()
		p.tell()
	}
	defer func() {
		if p != nil { // this goroutine is at its end: the rest needs another
			next()
			go g.tell()
		}
	}()
	for ; p != nil; p = g.first {
		err = context.Canceled
		err = errOf(p.end.(context.Context))
		next()
	}
}

// stopAll withdraws groups from their contexts, on a goroutine of its own.
func stopAll(stops []func() bool) {
	defer func() {
		if len(stops) > 0 { // one of them called runtime.Goexit
			go stopAll(stops)
		}
	}()
	for len(stops) > 0 {
		stop := stops[0]
		stops = stops[1:]
		stop()
	}
}

// errOf returns the error of a context that is done. Some other error than nil
// must come of it, whatever the context says: nil would mean granted.
func errOf(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}
