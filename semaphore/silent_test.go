package semaphore_test

import (
	"context"
	"testing"

	"github.com/turnstile-go/turnstile/semaphore"
)

// silent is a context that is done and does not say why.
type silent struct{ context.Context }

func (silent) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func (silent) Err() error { return nil }

func TestDrainWithASilentContextIsNoSuccess(t *testing.T) {
	sem := semaphore.NewWeighted(1)
	sem.TryAcquire(1)
	if err := sem.Drain(silent{t.Context()}); err != context.Canceled {
		t.Errorf("Drain = %v with a permit in flight, want %v", err, context.Canceled)
	}
	sem.Release(1)
}
