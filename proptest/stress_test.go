package proptest

import (
	"testing"
	"time"
)

func TestStressSaysWhatItDid(t *testing.T) {
	for _, test := range []struct {
		rounds int
		taken  time.Duration
		want   string
	}{
		{1, 400 * time.Microsecond, "1 round in 0s"},
		{1234, 1000200 * time.Microsecond, "1234 rounds in 1s"},
	} {
		if got := (&stress{rounds: test.rounds}).done(test.taken); got != test.want {
			t.Errorf("done(%v) after %d rounds = %q, want %q", test.taken, test.rounds, got, test.want)
		}
	}
}
