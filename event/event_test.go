package event_test

import (
	"fmt"
	"testing"

	"github.com/turnstile-go/turnstile/event"
)

func TestWords(t *testing.T) {
	tests := []struct {
		v    fmt.Stringer
		want string
	}{
		{event.Full, "full"},
		{event.TimedOut, "timed_out"},
		{event.QueueFull, "queue_full"},
		{event.TooHeavy, "too_heavy"},
		{event.Closed, "closed"},
		{event.Reason(0), "Reason(0)"},
		{event.Reason(6), "Reason(6)"},
		{event.OK, "ok"},
		{event.Failed, "failed"},
		{event.Panicked, "panicked"},
		{event.Outcome(0), "Outcome(0)"},
		{event.Outcome(255), "Outcome(255)"},
		{event.KindPermitted, "permitted"},
		{event.KindRejected, "rejected"},
		{event.KindCanceled, "canceled"},
		{event.KindFinished, "finished"},
		{event.KindReleased, "released"},
		{event.KindLimitChanged, "limit_changed"},
		{event.Kind(0), "Kind(0)"},
		{event.Kind(7), "Kind(7)"},
	}
	for _, tt := range tests {
		if got := tt.v.String(); got != tt.want {
			t.Errorf("%T.String() = %q, want %q", tt.v, got, tt.want)
		}
	}
}
