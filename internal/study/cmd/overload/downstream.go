package main

import (
	"container/list"
	"context"
	"math"
	"sync"
	"time"
)

// downstream stands for what a service depends on: a database, say, or another
// service. It is a shared processor. Up to its capacity, calls do not feel each
// other, and each takes the time of its service. Beyond, all that are inside
// share what there is, evenly: with twice as many calls as the capacity, each
// goes half as fast.
//
// This is as kind as an overloaded dependency can be. Whatever is asked of it, it
// does as much work per second as ever, where real ones do less, and a call whose
// caller has left ends there and then, where real ones often go on. So whatever
// becomes of its callers comes from the order in which they are let in, and not
// from how the downstream breaks down.
type downstream struct {
	capacity int
	service  time.Duration

	mu      sync.Mutex
	running list.List     // of *call: all need the same work, so who came first ends first
	worked  float64       // the work, in nanoseconds, that a call got which was there from the start
	asOf    time.Time     // when worked was right
	alarm   *time.Timer   // for when the first ends
	seen    downstreamLog // what has happened so far
}

// downstreamLog is what a downstream has seen.
type downstreamLog struct {
	Calls    int // that came
	Finished int // that were not left
	Highest  int // the most that were inside at once
}

// call is one call inside the downstream.
type call struct {
	until float64       // it ends when worked reaches this
	done  chan struct{} // closed then
}

// call does the work of one call, or gives up when ctx ends.
func (d *downstream) call(ctx context.Context) error {
	c, leave := d.enter()
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		leave()
		return ctx.Err()
	}
}

func (d *downstream) enter() (c *call, leave func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advance()
	c = &call{d.worked + float64(d.service), make(chan struct{})}
	element := d.running.PushBack(c)
	d.seen.Calls++
	d.seen.Highest = max(d.seen.Highest, d.running.Len())
	d.setAlarm()
	return c, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.advance()
		d.running.Remove(element) // does nothing if c has just ended
		d.setAlarm()
	}
}

// advance brings worked up to the present and ends the calls that are through.
// It goes from end to end, since with each the others get faster: an alarm that
// rings late changes when an end is told, and not when it is. d.mu is held.
func (d *downstream) advance() {
	now := time.Now()
	for d.running.Len() > 0 {
		left := d.untilFirst()
		if d.asOf.Add(left).After(now) {
			break
		}
		first := d.running.Remove(d.running.Front()).(*call)
		d.asOf, d.worked = d.asOf.Add(left), first.until
		close(first.done)
		d.seen.Finished++
	}
	if d.running.Len() > 0 {
		d.worked += float64(now.Sub(d.asOf)) * d.pace()
	}
	d.asOf = now
}

// pace is the work that each call gets in a nanosecond.
func (d *downstream) pace() float64 {
	return min(1, float64(d.capacity)/float64(d.running.Len()))
}

// untilFirst returns how long the call in front takes from asOf on, if nobody
// comes or goes before. What lies below a picosecond is rounding.
func (d *downstream) untilFirst() time.Duration {
	first := d.running.Front().Value.(*call)
	return time.Duration(math.Ceil((first.until-d.worked)/d.pace() - 1e-3))
}

// setAlarm sees to it that somebody looks when the call in front ends. d.mu is
// held, and worked is up to date.
func (d *downstream) setAlarm() {
	switch {
	case d.running.Len() == 0:
		if d.alarm != nil {
			d.alarm.Stop()
		}
	case d.alarm == nil:
		d.alarm = time.AfterFunc(d.untilFirst(), d.ring)
	default:
		d.alarm.Reset(d.untilFirst())
	}
}

func (d *downstream) ring() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advance()
	d.setAlarm()
}

// log returns what the downstream has seen.
func (d *downstream) log() downstreamLog {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen
}
