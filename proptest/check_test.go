package proptest_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/proptest"
	"github.com/turnstile-go/turnstile/semaphore"
)

// configurations are all the kinds of semaphore this library has.
var configurations = []semaphore.Config{
	{},
	{MaxWaiters: 2},
	{Unfair: true},
	{Unfair: true, MaxWaiters: 2},
}

func TestCheck(t *testing.T) {
	for _, cfg := range configurations {
		t.Run(fmt.Sprintf("waiters=%d/unfair=%t", cfg.MaxWaiters, cfg.Unfair), func(t *testing.T) {
			proptest.Check(t, constructor(cfg), proptest.Options{
				MaxWaiters: cfg.MaxWaiters, Unfair: cfg.Unfair,
			})
		})
	}
}

// TestStress runs for as long as the environment's STRESS says.
func TestStress(t *testing.T) {
	var duration time.Duration
	if s := os.Getenv("STRESS"); s != "" {
		var err error
		if duration, err = time.ParseDuration(s); err != nil {
			t.Fatalf("STRESS: %v", err)
		}
	}
	for _, cfg := range configurations {
		t.Run(fmt.Sprintf("waiters=%d/unfair=%t", cfg.MaxWaiters, cfg.Unfair), func(t *testing.T) {
			proptest.Stress(t, constructor(cfg), proptest.Options{
				MaxWaiters: cfg.MaxWaiters, Unfair: cfg.Unfair, Duration: duration,
			})
		})
	}
}

// constructor returns a constructor of semaphores that differ in their limit.
func constructor(cfg semaphore.Config) func(limit int64) proptest.Semaphore {
	return func(limit int64) proptest.Semaphore {
		cfg.Limit = limit
		s, err := semaphore.New(cfg)
		if err != nil {
			panic(err)
		}
		return s
	}
}
