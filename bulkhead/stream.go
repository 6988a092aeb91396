package bulkhead

import (
	"context"
	"iter"
)

// Seq returns seq guarded by b: each iteration over the result holds a permit
// from its start, obtained as by [Do], until its end, be that the end of seq, a
// break, or a panic in seq or in the loop's body. The call counts as ended with
// the error of the last pair, if that had one.
//
// If no permit is to be had, seq is not started, and the only pair is a zero
// value with the error. An iteration driven through iter.Pull2 holds its permit
// until stop is called, or the sequence has ended.
//
// If seq is nil, the only pair is a zero value with an error that says so.
func Seq[V any](ctx context.Context, b Any, seq iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var run func(context.Context) (struct{}, error)
		started := false
		if seq != nil {
			run = func(context.Context) (_ struct{}, last error) {
				started = true
				for v, err := range seq {
					last = err
					if !yield(v, err) {
						break
					}
				}
				return struct{}{}, last
			}
		}
		if _, err := Do(ctx, b, run); !started {
			var none V
			yield(none, err)
		}
	}
}

// DecorateChan returns fn guarded by b, for an operation that goes on after fn
// has returned: the permit is held until the channel that fn returned is closed
// and its values are received. If fn fails, or returns a nil channel, the call
// has ended with that.
//
// The values are passed on through the channel returned, which is closed when
// fn's is, or when ctx is done: from then on values are discarded, but for what
// is on its way at that moment, and the permit is held until fn's channel is
// closed all the same, as that is when the operation has ended. So fn must see
// to it that it is. The caller receives until the channel is closed, or ends
// ctx.
//
// Once fn has returned a channel, listeners run on a goroutine of the bulkhead's
// own, and one that panics there is not heard of.
func DecorateChan[R any](b Any, fn func(context.Context) (<-chan R, error)) func(context.Context) (<-chan R, error) {
	return func(ctx context.Context) (_ <-chan R, err error) {
		h := b.handle()
		if fn == nil {
			return nil, h.nilFunc()
		}
		done := ctx.Done() // before anything is held, as it may panic
		p, err := h.acquire(ctx)
		if err != nil {
			return nil, err
		}
		c := &p.call
		returned, open := false, false
		defer func() {
			if !open {
				c.end(ctx, returned, err)
			}
		}()
		in, err := fn(ctx)
		returned = true
		if err != nil {
			return nil, err
		}
		out := make(chan R)
		if in == nil {
			close(out)
			return out, nil
		}
		open = true
		go func() {
			defer func() { _ = recover() }() // a listener's, or ctx's: there is nobody to tell
			var err error
			defer func() { c.end(ctx, true, err) }()
			if !pass(done, in, out) {
				err = errOf(ctx)
			}
		}()
		return out, nil
	}
}

// pass passes on what comes from in until in is closed or done is, then closes
// out, and returns when in is closed. It reports whether it passed on all.
func pass[R any](done <-chan struct{}, in <-chan R, out chan<- R) (all bool) {
	for {
		select {
		case v, ok := <-in:
			if !ok {
				close(out)
				return true
			}
			select {
			case out <- v:
				continue
			case <-done:
			}
		case <-done:
		}
		close(out)
		for range in {
		}
		return false
	}
}
