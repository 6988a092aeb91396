package proptest

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFinishBehindOneThatCanLeave plays two requests that come at one instant to
// a paused semaphore. The second may be the first in the queue, and must be
// withdrawn first: the other, which it is in the way of, has nothing that would
// end it.
func TestFinishBehindOneThatCanLeave(t *testing.T) {
	unending := slices.Index(contexts[:], background)
	c := newProperty(t, plain, Options{})
	c.hang = 2 * time.Second
	if c.fails(script{0, []action{
		{op: acquire, n: 0, context: unending},
		{op: acquire, n: 1, joined: true},
	}}, 50) {
		t.Errorf("%v\n%s", c.shortest, c.shortest.code)
	}
}

// TestFinishGivesUp takes away all that could end a wait.
func TestFinishGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(script{limit: 0}, &Options{})
		all := abilitiesOf(broken{}.new(0))
		p.abilities = all
		p.mu.Lock()
		defer p.mu.Unlock()
		if v := p.step(action{op: acquire, n: 1, context: slices.Index(contexts[:], background)}); v != nil {
			t.Fatal(v)
		}
		if v := p.rest(); v != nil {
			t.Fatal(v)
		}
		p.closable, p.resizable = nil, nil
		v := p.finish()
		p.abilities = all
		p.cleanUp()
		if v == nil || v.invariant != delivery || !strings.HasPrefix(v.detail, "request 1 still waits") {
			t.Errorf("finish() = %v, want a violation of %q for request 1", v, delivery)
		}
	})
}
