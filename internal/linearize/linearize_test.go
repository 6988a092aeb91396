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
	inEachKind(t, func(t *testing.T, k kind) {
		var seen tally
		for seed := range uint64(*histories) {
			seen.add(linearizable(t, seed, k))
		}
		t.Logf("%+v", seen)
		if *histories >= 500 {
			seen.require(t, k)
		}
	})
}

// TestStressHistories goes on, with other scripts, for as long as STRESS says.
func TestStressHistories(t *testing.T) {
	if os.Getenv("STRESS") == "" {
		t.Skip("STRESS is not set")
	}
	total, err := time.ParseDuration(os.Getenv("STRESS"))
	if err != nil {
		t.Fatal(err)
	}
	inEachKind(t, func(t *testing.T, k kind) {
		first := uint64(time.Now().UnixNano())
		seed := first
		for begun := time.Now(); time.Since(begun) < total/3; seed++ {
			linearizable(t, seed, k)
		}
		t.Logf("%d histories, from %d on", seed-first, first)
	})
}

func inEachKind(t *testing.T, test func(t *testing.T, k kind)) {
	for _, k := range []kind{notWaiting, inOrder, unfair} {
		t.Run(k.name, func(t *testing.T) { test(t, k) })
	}
}

// linearizable runs a history on the semaphore and returns it.
func linearizable(t *testing.T, seed uint64, k kind) (script, []porcupine.Operation) {
	t.Helper()
	sc := scriptFor(seed, k)
	s, err := semaphore.New(semaphore.Config{Limit: sc.limit, MaxWaiters: sc.maxWaiters, Unfair: sc.unfair})
	if err != nil {
		t.Fatal(err)
	}
	ops := sc.run(ours{s})
	if got := sc.check(ops); got != porcupine.Ok {
		t.Fatalf("history of %+v: got %s, want %s\n%s", sc, got, porcupine.Ok, describe(ops))
	}
	return sc, ops
}
