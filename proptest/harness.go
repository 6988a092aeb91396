package proptest

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// Check plays random scripts on semaphores made by newSemaphore, each in a
// testing/synctest bubble of its own, one action at a time or a few at one
// instant, and compares every request, every permit and, if there are any, the
// Stats with a sequential model whenever the bubble is at rest. Two outcomes
// are accepted where two things happen at one instant, and nothing else is.
//
// A failure names the invariant that is broken and shows the shortest script
// found that breaks it, as a test to be pasted beside newSemaphore, which fails
// as long as the semaphore does so. It is
// reproduced with the seed or the file that rapid names. The number of scripts
// is set with -rapid.checks.
//
// newSemaphore is called in the bubble, but for one time before that is only to
// see what the semaphore can do.
func Check(t *testing.T, newSemaphore func(limit int64) Semaphore, opts Options) {
	t.Helper()
	c := newProperty(t, newSemaphore, opts)
	defer c.report() // rapid.Check does not return if it fails
	rapid.Check(t, c.check)
}

// property is what Check checks: that no script shows a violation.
type property struct {
	t            *testing.T
	newSemaphore func(limit int64) Semaphore
	opts         Options
	scripts      *rapid.Generator[script]
	hang         time.Duration // how long, in real time, a script may take
	watch        *time.Timer
	only         string        // the invariant to look at; any until one is found broken
	shortest     *violation    // of that, by its script
	script       script        // which showed the shortest
	shrinkTime   time.Duration // what rapid had for shrinking
}

func newProperty(t *testing.T, newSemaphore func(limit int64) Semaphore, opts Options) *property {
	return &property{
		t: t, newSemaphore: newSemaphore, opts: opts,
		scripts: scripts(abilitiesOf(newSemaphore(1))),
		hang:    20 * time.Second,
		watch:   time.NewTimer(0),
	}
}

// check fails rt if a script that it draws shows a violation.
//
// The script is then shortened here and not by rapid, which takes any failure
// for the same, and stops at a script that does not fail each time, as what
// happens at one instant need not happen in the same order again. So rapid gets
// no time for it, and when it plays the script again the answer is known.
func (c *property) check(rt *rapid.T) {
	s := c.scripts.Draw(rt, "script")
	if c.shortest == nil {
		if !c.fails(s, 1) {
			return
		}
		c.shorten()
		c.shrinkTime = shrinkTime(0)
	}
	rt.Fatal(c.only)
}

// shrinkTime sets the time that rapid has for shrinking, and returns what it
// was.
func shrinkTime(d time.Duration) (old time.Duration) {
	f := flag.Lookup("rapid.shrinktime").Value
	old = f.(flag.Getter).Get().(time.Duration)
	if err := f.Set(d.String()); err != nil {
		panic(err)
	}
	return old
}

// fails reports whether s shows, in one of a number of tries, a violation of the
// kind looked for, and keeps it if no shorter script is known.
func (c *property) fails(s script, tries int) bool {
	for range tries {
		v := c.play(s)
		if v == nil || c.only != "" && c.only != v.invariant {
			continue
		}
		c.only = v.invariant
		if c.shortest == nil || v.steps <= c.shortest.steps {
			c.shortest, c.script = v, s
		}
		return true
	}
	return false
}

// shorten takes out of the shortest script all actions that it fails without,
// one by one and then two by two, and makes the others simpler. It gives up when
// that takes long, as it does when the semaphore hangs. Then it looks which
// options would allow what is left.
func (c *property) shorten() {
	end := time.Now().Add(c.hang / 2)
	try := func(s script) bool {
		before := c.shortest
		return time.Now().Before(end) && c.fails(s, s.tries()) && c.shortest != before
	}
	for again := true; again; {
		again = false
		for i := len(c.script.actions) - 1; i >= 0; i-- {
			again = try(c.script.without(i)) || again
		}
		for i := len(c.script.actions) - 1; i >= 0 && !again; i-- {
			for j := i - 1; j >= 0 && !again; j-- {
				again = try(c.script.without(i).without(j))
			}
		}
	}
	try(script{1, c.script.actions})
	for i := range c.script.actions {
		for _, simplify := range simplifications {
			if s := c.script.clone(); simplify(&s.actions[i]) {
				try(s)
			}
		}
	}
	c.shortest.excuses = c.excuses()
}

// excuses names the options, of those not set, with which the shortest script is
// as it should be. A hang is looked at no further, and Unfair, which makes many
// a script uncertain, is for who gets past whom.
func (c *property) excuses() (names []string) {
	if c.only == lockOrder {
		return nil
	}
	for name, set := range map[string]func(*Options){
		"Unfair":         func(o *Options) { o.Unfair = c.only == noBarging || o.Unfair },
		"ParksOversized": func(o *Options) { o.ParksOversized = true },
		"LateWithdrawal": func(o *Options) { o.LateWithdrawal = true },
	} {
		other := *c
		other.only, other.shortest = "", nil
		if set(&other.opts); other.opts != c.opts && !other.fails(c.script, 100) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// report shows the shortest script found.
func (c *property) report() {
	if c.shortest != nil {
		shrinkTime(c.shrinkTime)
		fmt.Fprint(c.t.Output(), c.shortest.report())
	}
}

// play plays s and returns the first violation.
func (c *property) play(s script) *violation {
	p := newPlayer(s, &c.opts)
	v := c.watched(p)
	if v != nil {
		v.code, v.steps = p.code(v)
	}
	return v
}

// watched lets p play in a bubble, and does not wait for ever: a bubble does not
// see that a goroutine waits for a mutex in vain. It returns with p locked, for
// good: a player that is given up gets no further than its next step, and what it
// did can be looked at.
func (c *property) watched(p *player) *violation {
	returned := make(chan *violation, 1)
	go func() { returned <- c.bubble(p) }()
	c.watch.Reset(c.hang)
	select {
	case v := <-returned:
		p.mu.Lock()
		return v
	case <-c.watch.C:
		p.mu.Lock()
		return violated(lockOrder, "%s did not return in %v of real time", p.last(), c.hang)
	}
}

// bubble lets p play in a bubble. A bubble whose goroutines all wait for each
// other panics, here, and not where they wait: then they are lost, and what is
// known is said.
func (c *property) bubble(p *player) (v *violation) {
	over := false
	defer func() {
		switch r := recover(); {
		case r == nil:
		case !strings.HasPrefix(fmt.Sprint(r), "deadlock"):
			panic(r)
		case v != nil:
		case over:
			v = violated(delivery, "a goroutine is left that nothing ends")
		default:
			p.mu.Lock()
			defer p.mu.Unlock()
			v = p.blocked("for ever")
		}
	}()
	synctest.Test(c.t, func(*testing.T) {
		p.abilities = abilitiesOf(c.newSemaphore(p.script.limit))
		v = p.play()
		over = true
	})
	return v
}
