package event_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/event"
)

func ExampleListener() {
	// Only the functions that are set are called.
	listener := event.Listener{
		Rejected: func(_ context.Context, e event.Rejected) {
			fmt.Printf("%s rejected a call: %v\n", e.Name, e.Reason)
		},
	}

	// A bulkhead with this listener in its Config does this:
	listener.Rejected(context.Background(), event.Rejected{Name: "payments", Reason: event.QueueFull})
	// Output: payments rejected a call: queue_full
}

func ExampleAll() {
	history := event.All(func(_ context.Context, r event.Record) {
		switch r.Kind {
		case event.KindPermitted:
			fmt.Printf("%v after %v\n", r.Kind, r.Waited)
		case event.KindFinished:
			fmt.Printf("%v %v after %v: %v\n", r.Kind, r.Outcome, r.Elapsed, r.Err)
		}
	})

	ctx := context.Background()
	history.Permitted(ctx, event.Permitted{Name: "payments", Waited: 3 * time.Millisecond})
	history.Finished(ctx, event.Finished{
		Name:    "payments",
		Outcome: event.Failed,
		Elapsed: 20 * time.Millisecond,
		Err:     errors.New("card declined"),
	})
	// Output:
	// permitted after 3ms
	// finished failed after 20ms: card declined
}

func ExampleJoin() {
	rejected := 0
	both := event.Join(
		event.Listener{
			Rejected: func(context.Context, event.Rejected) { rejected++ },
		},
		event.All(func(_ context.Context, r event.Record) { fmt.Println(r.Name, r.Kind) }),
	)

	both.Rejected(context.Background(), event.Rejected{Name: "payments", Reason: event.Full})
	fmt.Println("rejected:", rejected)
	// Output:
	// payments rejected
	// rejected: 1
}
