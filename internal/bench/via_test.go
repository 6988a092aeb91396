package bench

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// vias are the ways to make a call of a bulkhead: on b itself, or on any, which
// is a handle to it made once.
var vias = []struct {
	name     string
	listener event.Listener
	call     func(ctx context.Context, b *bulkhead.Bulkhead[int], handle bulkhead.Any) error
}{
	{name: "execute", call: execute},
	{name: "fresh-handle", call: func(ctx context.Context, b *bulkhead.Bulkhead[int], _ bulkhead.Any) error {
		_, err := b.Weighing(1).Execute(ctx, nothing)
		return err
	}},
	{name: "do", call: func(ctx context.Context, b *bulkhead.Bulkhead[int], handle bulkhead.Any) error {
		_, err := bulkhead.Do(ctx, handle, nothing)
		return err
	}},
	{name: "do-fresh-handle", call: func(ctx context.Context, b *bulkhead.Bulkhead[int], _ bulkhead.Any) error {
		_, err := bulkhead.Do(ctx, bulkhead.Weighing(b, 1), nothing)
		return err
	}},
	{name: "permit", call: func(ctx context.Context, b *bulkhead.Bulkhead[int], _ bulkhead.Any) error {
		p, err := b.Acquire(ctx)
		p.Complete(nil)
		return err
	}},
	{name: "async", call: func(ctx context.Context, b *bulkhead.Bulkhead[int], _ bulkhead.Any) error {
		_, err := b.ExecuteAsync(ctx, nothing).Get(ctx)
		return err
	}},
	{name: "execute-listened", listener: counting(), call: execute},
	{name: "execute-counters", listener: event.NewCounters().Listener(), call: execute},
	{name: "execute-ring", listener: event.NewRing(100).Listener(), call: execute},
	{name: "execute-stream", listener: event.NewStream(100).Listener(), call: execute},                          // which nobody reads
	{name: "execute-slog", listener: event.Slog(slog.New(slog.NewTextHandler(io.Discard, nil))), call: execute}, // nothing to log
}

func execute(ctx context.Context, b *bulkhead.Bulkhead[int], _ bulkhead.Any) error {
	_, err := b.Execute(ctx, nothing)
	return err
}

// counting is about the least that a listener can do.
func counting() event.Listener {
	var permitted, finished atomic.Int64
	return event.Listener{
		Permitted: func(context.Context, event.Permitted) { permitted.Add(1) },
		Finished:  func(context.Context, event.Finished) { finished.Add(1) },
	}
}

// BenchmarkVia is what each way costs with permits free. There are no peers in
// it; its columns are made by -col /via.
func BenchmarkVia(b *testing.B) {
	for _, via := range vias {
		b.Run("via="+via.name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			bh := bulkhead.MustNew[int](bulkhead.Config{
				Name:          "bench",
				MaxConcurrent: 16,
				Listener:      via.listener,
			})
			handle := bulkhead.Weighing(bh, 1)
			b.ReportAllocs()
			for b.Loop() {
				if err := via.call(ctx, bh, handle); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
