package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// guard is what stands between a service and its downstream. It runs fn, or
// returns an error without having run it.
type guard func(ctx context.Context, fn func(context.Context) error) error

// guards are those that the study compares.
var guards = []string{"none", "semaphore", "bulkhead-0s", "bulkhead-20ms", "bulkhead-100ms"}

// newGuard returns the guard of that name, which lets at most so many calls
// through at once:
//
//	none           lets everybody through
//	semaphore      that of golang.org/x/sync, in which a call waits as long as
//	               its ctx allows
//	bulkhead-20ms  a bulkhead with that MaxWait, and no bound to its queue;
//	               bulkhead-forever is one without a bound to the wait either
func newGuard(name string, limit int) (guard, error) {
	switch name {
	case "none":
		return func(ctx context.Context, fn func(context.Context) error) error { return fn(ctx) }, nil
	case "semaphore":
		sem := semaphore.NewWeighted(int64(limit))
		return func(ctx context.Context, fn func(context.Context) error) error {
			if err := sem.Acquire(ctx, 1); err != nil {
				return err
			}
			defer sem.Release(1)
			return fn(ctx)
		}, nil
	}
	wait, ok := strings.CutPrefix(name, "bulkhead-")
	maxWait, err := time.ParseDuration(wait)
	if wait == "forever" {
		maxWait, err = bulkhead.Forever, nil
	}
	if !ok || err != nil {
		return nil, fmt.Errorf("no guard is called %q: want none, semaphore, or bulkhead- and a duration", name)
	}
	b, err := bulkhead.New[struct{}](bulkhead.Config{
		Name:          "downstream",
		MaxConcurrent: int64(limit),
		MaxWait:       maxWait,
	})
	if err != nil {
		return nil, err
	}
	return b.Run, nil
}
