package bulkhead

import (
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/event"
	"github.com/turnstile-go/turnstile/semaphore"
)

// Forever as a maximum wait means: as long as the context allows.
const Forever = semaphore.Forever

// Config says what bulkhead [New] makes. It is a value: take it from
// [Bulkhead.Config], change a field, and New makes another, independent
// bulkhead of it.
type Config struct {
	// Name labels events, errors and metrics, so it should be constant and one
	// of few. Required.
	Name string

	// MaxConcurrent is the limit: the permits in circulation, and so the most
	// calls of weight 1 that run at once. At least 1.
	MaxConcurrent int64

	// MaxWait is how long a call may wait for its permit. 0 means that it
	// fails at once if it would have to wait, [Forever] that only its context
	// ends the wait.
	MaxWait time.Duration

	// MaxQueue is the most calls that may wait at once; one more is rejected.
	// 0 means no bound. Whether a call waits at all is up to MaxWait.
	MaxQueue int

	// Unfair lets new calls overtake waiting ones, for throughput where calls are
	// very short; see package semaphore. For calls over a network it gains
	// nothing.
	Unfair bool

	// Listener is told of every call. Its functions run in line; see package
	// event.
	Listener event.Listener

	// Clock gives the Time of events, and nothing else: waits, and the Waited
	// and Elapsed of events and errors, go by the monotonic clock. It is not
	// called while nobody listens, and must not panic. nil means time.Now.
	Clock func() time.Time
}

// validate returns an error that names the first field out of range and its
// value.
func (cfg Config) validate() error {
	switch {
	case cfg.Name == "":
		return fmt.Errorf("bulkhead: Config.Name is %q, want a name", cfg.Name)
	case cfg.MaxConcurrent < 1:
		return fmt.Errorf("bulkhead %q: Config.MaxConcurrent is %d, want at least 1", cfg.Name, cfg.MaxConcurrent)
	case cfg.MaxWait < 0:
		return fmt.Errorf("bulkhead %q: Config.MaxWait is %v, must not be negative", cfg.Name, cfg.MaxWait)
	case cfg.MaxQueue < 0:
		return fmt.Errorf("bulkhead %q: Config.MaxQueue is %d, must not be negative", cfg.Name, cfg.MaxQueue)
	}
	return nil
}
