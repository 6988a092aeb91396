package linearize

import (
	"flag"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/turnstile-go/turnstile/semaphore"
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(2) // as many goroutines run at once on any machine
	os.Exit(m.Run())
}

var histories = flag.Int("histories", 500, "how many `histories` of each kind to run")

func TestHistories(t *testing.T) {
	inBothKinds(t, func(t *testing.T, waits bool) {
		var seen tally
		for seed := range uint64(*histories) {
			seen.add(linearizable(t, seed, waits))
		}
		t.Logf("%+v", seen)
		if *histories >= 500 {
			seen.require(t, waits)
		}
	})
}

// TestStressHistories goes on, with other scripts, for as long as STRESS says.
func TestStressHistories(t *testing.T) {
	if os.Getenv("STRESS") == "" {
		t.Skip("STRESS is not set")
	}
	each, err := time.ParseDuration(os.Getenv("STRESS"))
	if err != nil {
		t.Fatal(err)
	}
	inBothKinds(t, func(t *testing.T, waits bool) {
		first := uint64(time.Now().UnixNano())
		seed := first
		for begun := time.Now(); time.Since(begun) < each/2; seed++ {
			linearizable(t, seed, waits)
		}
		t.Logf("%d histories, from %d on", seed-first, first)
	})
}

func inBothKinds(t *testing.T, test func(t *testing.T, waits bool)) {
	t.Run("not waiting", func(t *testing.T) { test(t, false) })
	t.Run("waiting", func(t *testing.T) { test(t, true) })
}

// linearizable runs a history on the semaphore and returns it.
func linearizable(t *testing.T, seed uint64, waits bool) []porcupine.Operation {
	t.Helper()
	sc := scriptFor(seed, waits)
	s, err := semaphore.New(semaphore.Config{Limit: sc.limit, MaxWaiters: sc.maxWaiters})
	if err != nil {
		t.Fatal(err)
	}
	ops := sc.run(s)
	if got := sc.check(ops); got != porcupine.Ok {
		t.Fatalf("history of %+v: got %s, want %s\n%s", sc, got, porcupine.Ok, describe(ops))
	}
	return ops
}
