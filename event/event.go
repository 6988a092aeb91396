package event

import (
	"fmt"
	"time"
)

// Permitted says that a call has its permits. It is told before the call's
// function runs.
type Permitted struct {
	Time   time.Time
	Name   string        // the bulkhead's
	Weight int64         // permits the call holds
	Active int64         // permits in flight, these included; best effort
	Waited time.Duration // 0 if the permits were free
}

// Rejected says that the bulkhead refused a call, which held nothing: its
// function does not run. A TryAcquire that reports false is a rejected call.
type Rejected struct {
	Time          time.Time
	Name          string        // the bulkhead's
	Weight        int64         // permits the call asked for
	MaxConcurrent int64         // the limit when it was refused
	MaxWait       time.Duration // how long the call was willing to wait
	Waited        time.Duration // how long it did wait
	Reason        Reason
}

// Canceled says that the caller gave a call up before it had its permits: its
// context ended while it waited, or had ended before, or it called Cancel. Such a call is never
// also [Rejected].
type Canceled struct {
	Time   time.Time
	Name   string        // the bulkhead's
	Weight int64         // permits the call asked for
	Waited time.Duration // 0 if the context was done from the start
	Err    error         // the context's error, or context.Canceled
}

// Finished says that a permitted call has ended and its permits are back.
type Finished struct {
	Time    time.Time
	Name    string        // the bulkhead's
	Weight  int64         // permits the call held
	Active  int64         // permits in flight without them; best effort
	Elapsed time.Duration // since they were granted
	Outcome Outcome
	Err     error // the function's error; nil for OK and Panicked
}

// Released says that the permits of a permitted call are back although the
// call did not finish: its context ended and it returned that context's error,
// a permit was given back unused, or a listener's panic kept it from starting.
type Released struct {
	Time    time.Time
	Name    string        // the bulkhead's
	Weight  int64         // permits the call held
	Active  int64         // permits in flight without them; best effort
	Elapsed time.Duration // since they were granted
	Err     error         // the canceled call's error; nil if it never ran
}

// LimitChanged says that a bulkhead's limit was set to another value.
type LimitChanged struct {
	Time     time.Time
	Name     string // the bulkhead's
	From, To int64
}

// Reason says why a call was rejected. The zero value is no reason.
type Reason uint8

// The reasons, each of which points at another remedy.
const (
	Full      Reason = iota + 1 // no permit was free, and the call does not wait
	TimedOut                    // no permit came within the call's maximum wait
	QueueFull                   // as many calls as may wait were waiting
	TooHeavy                    // the weight is above the limit: waiting cannot help
	Closed                      // the bulkhead was closed, before the call or while it waited
)

// String returns the reason in lower case with underscores, as metrics label
// it: "full", "timed_out", "queue_full", "too_heavy" or "closed".
func (r Reason) String() string {
	return name("Reason", uint8(r), "full", "timed_out", "queue_full", "too_heavy", "closed")
}

// Outcome says how a finished call ended. The zero value is no outcome.
type Outcome uint8

// The outcomes.
const (
	OK       Outcome = iota + 1 // it returned no error
	Failed                      // it returned an error
	Panicked                    // it panicked or called runtime.Goexit
)

// String returns "ok", "failed" or "panicked".
func (o Outcome) String() string {
	return name("Outcome", uint8(o), "ok", "failed", "panicked")
}

// Kind says which event a [Record] holds. The zero value is no event.
type Kind uint8

// The kinds of events.
const (
	KindPermitted Kind = iota + 1
	KindRejected
	KindCanceled
	KindFinished
	KindReleased
	KindLimitChanged
)

// String returns "permitted", "rejected", "canceled", "finished", "released" or
// "limit_changed".
func (k Kind) String() string {
	return name("Kind", uint8(k), "permitted", "rejected", "canceled", "finished", "released", "limit_changed")
}

// name returns the word for v, which counts from 1.
func name(kind string, v uint8, words ...string) string {
	if v == 0 || int(v) > len(words) {
		return fmt.Sprintf("%s(%d)", kind, v)
	}
	return words[v-1]
}

// Record is any one of the events, flat: Kind says which, and the fields that
// this event lacks are zero. It is for those who keep events or pass them on,
// and is made by [All].
type Record struct {
	Kind          Kind
	Time          time.Time
	Name          string
	Weight        int64
	Active        int64
	MaxConcurrent int64
	MaxWait       time.Duration
	Waited        time.Duration
	Elapsed       time.Duration
	Reason        Reason
	Outcome       Outcome
	Err           error
	From, To      int64
}
