package bulkhead

import (
	"context"
	"time"

	"github.com/turnstile-go/turnstile/event"
)

// Any is a bulkhead of any result type: every [*Bulkhead] is one, and nothing
// else can be but what embeds one. It is what to take where results do not
// matter. The methods are documented at [Bulkhead].
type Any interface {
	Run(ctx context.Context, fn func(context.Context) error) error
	Acquire(ctx context.Context) (*Permit, error)
	TryAcquire() (*Permit, bool)
	AcquireAsync(ctx context.Context) *PendingPermit
	Name() string
	Config() Config
	Stats() Stats
	SetMaxConcurrent(n int64) error
	SetMaxWait(d time.Duration) error
	Subscribe(l event.Listener) (unsubscribe func())
	Close()
	Drain(ctx context.Context) error
	Shutdown(ctx context.Context) error

	handle() handle
}

// Do is [Bulkhead.Execute] for a function of any result type, so that one
// bulkhead can guard a resource with many kinds of calls.
func Do[R any](ctx context.Context, b Any, fn func(context.Context) (R, error)) (R, error) {
	return execute(ctx, b.handle(), fn)
}

// Weighing is [Bulkhead.Weighing] for a bulkhead of any type.
func Weighing(b Any, n int64) Any {
	return &Bulkhead[struct{}]{b.handle().weighing(n)}
}

// Waiting is [Bulkhead.Waiting] for a bulkhead of any type.
func Waiting(b Any, d time.Duration) Any {
	return &Bulkhead[struct{}]{b.handle().waiting(d)}
}
