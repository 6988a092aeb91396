package bulkhead

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/semaphore"
)

// core is all the state of a bulkhead. It knows no result type, so bulkheads
// and their handles, of whatever type, share one.
type core struct {
	name  string
	clock func() time.Time
	sem   *semaphore.Weighted

	// listener is everybody who listens, joined; nil while nobody does, which
	// is all that a call has to find out then.
	listener atomic.Pointer[event.Listener]

	settings atomic.Pointer[settings]

	// mu guards subscribed, and every change of listener and settings, so that
	// two setters leave semaphore and settings with the same limit. No listener
	// runs under it.
	mu         sync.Mutex
	subscribed []*event.Listener

	// left, unless nil, is called when a Permit has ended.
	left func()
}

// settings is what a setter may change. It is never changed itself but
// replaced, so one load gives values that belong together.
type settings struct {
	cfg Config

	// rejections are ready-made errors by reason, for calls of weight 1 that
	// did not wait: what an overloaded bulkhead answers most costs no
	// allocation.
	rejections [event.Closed + 1]error
}

func newSettings(cfg Config) *settings {
	s := &settings{cfg: cfg}
	s.rejections[event.Full] = s.newRejection(event.Full, 1, 0, 0)
	s.rejections[event.QueueFull] = s.newRejection(event.QueueFull, 1, cfg.MaxWait, 0)
	s.rejections[event.Closed] = s.newRejection(event.Closed, 1, cfg.MaxWait, 0)
	return s
}

// rejection returns the error for a rejected call, ready-made if it can be.
func (s *settings) rejection(reason event.Reason, weight int64, maxWait, waited time.Duration) error {
	if weight == 1 && waited == 0 && (maxWait == s.cfg.MaxWait || reason == event.Full) {
		if err := s.rejections[reason]; err != nil {
			return err
		}
	}
	return s.newRejection(reason, weight, maxWait, waited)
}

func (s *settings) newRejection(reason event.Reason, weight int64, maxWait, waited time.Duration) error {
	return RejectedError{
		Name:          s.cfg.Name,
		Reason:        reason,
		MaxConcurrent: s.cfg.MaxConcurrent,
		MaxWait:       maxWait,
		Waited:        waited,
		Weight:        weight,
	}
}

func newCore(cfg Config) (*core, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := new(core)
	if err := c.init(newSettings(cfg), join(cfg.Listener)); err != nil {
		return nil, err
	}
	return c, nil
}

// init readies a core. It may share its settings and its listener with others.
func (c *core) init(s *settings, l *event.Listener) error {
	sem, err := semaphore.New(semaphore.Config{
		Limit:      s.cfg.MaxConcurrent,
		MaxWaiters: s.cfg.MaxQueue,
		Unfair:     s.cfg.Unfair,
	})
	if err != nil {
		return err
	}
	c.name, c.clock, c.sem = s.cfg.Name, s.cfg.Clock, sem
	c.settings.Store(s)
	c.listener.Store(l)
	return nil
}

func (c *core) config() Config { return c.settings.Load().cfg }

func (c *core) stats() Stats {
	s := c.sem.Stats()
	return Stats{
		Name:          c.name,
		MaxConcurrent: s.Limit,
		Active:        s.InUse,
		Available:     s.Available,
		Waiting:       s.Waiting,
		Closed:        s.Closed,
	}
}

func (c *core) setMaxConcurrent(n int64) error {
	from, err := c.reconfigure(func(cfg *Config) { cfg.MaxConcurrent = n })
	if err != nil || from.MaxConcurrent == n {
		return err
	}
	if l := c.listener.Load(); l != nil && l.LimitChanged != nil {
		l.LimitChanged(context.Background(), event.LimitChanged{
			Time: c.stamp(time.Now()),
			Name: c.name,
			From: from.MaxConcurrent,
			To:   n,
		})
	}
	return nil
}

func (c *core) setMaxWait(d time.Duration) error {
	_, err := c.reconfigure(func(cfg *Config) { cfg.MaxWait = d })
	return err
}

// reconfigure applies change, unless the result breaks Config's rules, and
// returns what was before.
func (c *core) reconfigure(change func(*Config)) (from Config, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	from = c.config()
	to := from
	change(&to)
	if err := to.validate(); err != nil {
		return from, err
	}
	// A call that a lower limit evicts reports that limit, so the settings come
	// first; and one that only the old limit refuses reports the old.
	if to.MaxConcurrent > from.MaxConcurrent {
		c.sem.SetLimit(to.MaxConcurrent)
	}
	c.settings.Store(newSettings(to))
	c.sem.SetLimit(to.MaxConcurrent)
	return from, nil
}

func (c *core) subscribe(l event.Listener) (unsubscribe func()) {
	sub := &l
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribed = append(c.subscribed, sub)
	c.joinLocked()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := slices.Index(c.subscribed, sub); i >= 0 {
			c.subscribed = slices.Delete(c.subscribed, i, i+1)
			c.joinLocked()
		}
	}
}

// joinLocked makes one listener of those who listen, Config's first.
func (c *core) joinLocked() {
	all := []event.Listener{c.config().Listener}
	for _, l := range c.subscribed {
		all = append(all, *l)
	}
	c.listener.Store(join(all...))
}

// join makes one listener of all, or nil if they listen to nothing.
func join(all ...event.Listener) *event.Listener {
	l := event.Join(all...)
	if l.Permitted == nil && l.Rejected == nil && l.Canceled == nil &&
		l.Finished == nil && l.Released == nil && l.LimitChanged == nil {
		return nil
	}
	return &l
}

// leave says that a Permit has ended.
func (c *core) leave() {
	if c.left != nil {
		c.left()
	}
}

// stamp returns the Time of an event that happened now.
func (c *core) stamp(now time.Time) time.Time {
	if c.clock != nil {
		return c.clock()
	}
	return now
}
