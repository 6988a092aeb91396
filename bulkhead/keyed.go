package bulkhead

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/semaphore"
)

// Keyed bounds how many calls run at once for each key, such as a tenant or a
// host: one that is slow or greedy uses up its own limit and leaves the others
// alone. T is what the functions given to [Keyed.Execute] return.
//
// What a key needs is made when a call comes and dropped when none holds or
// waits for a permit any more, so keys may be as many as there are users: those
// without calls cost nothing. All keys share one name, and so their events and
// errors look alike.
//
// A Keyed is no [Any], and has no Stats, as it is as many limits as there are keys in
// use: it enters no [Registry]. Its listener hears of the calls of all keys.
//
// It is made by [NewKeyed]; the zero value is of no use. It is safe for
// concurrent use.
type Keyed[K comparable, T any] struct {
	limit    func(K) int64
	listener *event.Listener // nil if nobody listens

	// settings are those of the key made last. Most have the same limit, and
	// then share them.
	settings atomic.Pointer[settings]

	// live has a permit in flight for each entry, which is what Drain waits for.
	live *semaphore.Weighted

	// mu guards the rest, and refs of all entries. No user code runs under it,
	// and of what does, nothing waits.
	mu      sync.Mutex
	entries map[K]*entry
	most    int // entries since the map was made
	closed  bool
}

// entry is the bulkhead of one key while calls need it.
type entry struct {
	core

	// refs is how many calls use it. A call counts from before it asks for its
	// permit until after that is back. So at 0 nothing is in flight, and another
	// entry for the same key does not make its limit two.
	refs int
}

// NewKeyed returns a Keyed as cfg describes, which counts for each key by itself:
// MaxQueue, for instance, bounds how many wait for one key. Instead of
// MaxConcurrent, the limit of a key is what limit returns for it, and at least 1,
// unless limit is nil. It is asked when a key gets its first call, and again
// after there was none for a while; several calls may ask at once, and then one
// of the answers counts.
//
// The error names the field that is out of range and its value.
func NewKeyed[K comparable, T any](cfg Config, limit func(K) int64) (*Keyed[K, T], error) {
	if limit == nil {
		n := cfg.MaxConcurrent
		limit = func(K) int64 { return n }
	} else {
		cfg.MaxConcurrent = 1 // it is not used
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	k := &Keyed[K, T]{
		limit:    limit,
		listener: join(cfg.Listener),
		live:     semaphore.NewWeighted(math.MaxInt64),
		entries:  make(map[K]*entry),
	}
	k.settings.Store(newSettings(cfg))
	return k, nil
}

// MustNewKeyed is [NewKeyed] for a cfg that is known to be good, such as a
// package-level variable's. It panics if it is not.
func MustNewKeyed[K comparable, T any](cfg Config, limit func(K) int64) *Keyed[K, T] {
	k, err := NewKeyed[K, T](cfg, limit)
	if err != nil {
		panic(err)
	}
	return k
}

// Execute is [Bulkhead.Execute] with a permit of key. In addition it is an
// error, before anything is taken, if the limit of key is below 1, or if key is
// not equal to itself, as NaN is not.
func (k *Keyed[K, T]) Execute(ctx context.Context, key K, fn func(context.Context) (T, error)) (T, error) {
	e, err := k.enter(key)
	if err != nil {
		var none T
		return none, err
	}
	defer e.leave()
	return execute(ctx, e.handle(), fn)
}

// Run is [Keyed.Execute] for a function that returns only an error.
func (k *Keyed[K, T]) Run(ctx context.Context, key K, fn func(context.Context) error) error {
	e, err := k.enter(key)
	if err != nil {
		return err
	}
	defer e.leave()
	return run(ctx, e.handle(), fn)
}

// Acquire is [Bulkhead.Acquire] for a permit of key, with the errors of
// [Keyed.Execute].
func (k *Keyed[K, T]) Acquire(ctx context.Context, key K) (p *Permit, err error) {
	e, err := k.enter(key)
	if err != nil {
		return nil, err
	}
	defer func() {
		if p == nil { // or its end leaves
			e.leave()
		}
	}()
	return e.handle().acquire(ctx)
}

// Len returns for how many keys calls hold or wait for permits.
func (k *Keyed[K, T]) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.entries)
}

// Close does for every key, also for those that come later, what
// [Bulkhead.Close] does.
func (k *Keyed[K, T]) Close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, e := range k.entries {
		// Waiters may be many. Who comes while mu is free finds or makes an
		// entry that is closed, or that the loop has yet to come to.
		k.mu.Unlock()
		e.sem.Close()
		k.mu.Lock()
	}
}

// Drain waits until no call holds or waits for a permit of any key, and all ends
// are told, and returns nil; or returns ctx.Err() if ctx ends first. It closes
// nothing: other calls may start at the next moment.
func (k *Keyed[K, T]) Drain(ctx context.Context) error { return k.live.Drain(ctx) }

// Shutdown closes, then drains.
func (k *Keyed[K, T]) Shutdown(ctx context.Context) error {
	k.Close()
	return k.Drain(ctx)
}

// enter returns the entry of key, made if there is none, for a call to use until
// it leaves.
func (k *Keyed[K, T]) enter(key K) (*entry, error) {
	if same := key; same != key {
		return nil, fmt.Errorf("bulkhead %q: key is not equal to itself, as NaN, so no limit can be kept for it", k.name())
	}
	if e := k.use(key, nil); e != nil {
		return e, nil
	}
	made, err := k.newEntry(key)
	if err != nil {
		return nil, err
	}
	return k.use(key, made), nil
}

// use notes that another call uses the entry of key, made unless there is one.
func (k *Keyed[K, T]) use(key K, made *entry) *entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[key]
	if e == nil {
		if e = made; e == nil {
			return nil
		}
		if k.closed {
			e.sem.Close()
		}
		k.entries[key] = e
		k.most = max(k.most, len(k.entries))
		k.live.TryAcquire(1)
	}
	e.refs++
	return e
}

func (k *Keyed[K, T]) newEntry(key K) (*entry, error) {
	s := k.settings.Load()
	if n := k.limit(key); n != s.cfg.MaxConcurrent {
		if n < 1 {
			return nil, fmt.Errorf("bulkhead %q: the limit of a key is %d, want at least 1", k.name(), n)
		}
		cfg := s.cfg
		cfg.MaxConcurrent = n
		s = newSettings(cfg)
		k.settings.Store(s)
	}
	e := new(entry)
	e.left = func() { k.drop(key, e) }
	return e, e.init(s, k.listener)
}

// drop notes that one call less uses e, the entry of key. The last one takes it
// out.
func (k *Keyed[K, T]) drop(key K, e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.refs--; e.refs > 0 {
		return
	}
	delete(k.entries, key)
	// A map never gets smaller. Once nearly all of a crowd have gone, the few
	// that are left get one of their size; to wait for the last would be to wait
	// for ever where some key is always busy.
	if k.most >= 1024 && len(k.entries) <= k.most/64 {
		left := make(map[K]*entry, len(k.entries))
		maps.Copy(left, k.entries)
		k.entries, k.most = left, len(left)
	}
	k.live.Release(1)
}

func (k *Keyed[K, T]) name() string { return k.settings.Load().cfg.Name }

func (e *entry) handle() handle { return handle{core: &e.core, weight: 1} }
