package bulkhead_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// A bulkhead of two, and a third call while both permits are in flight.
func Example() {
	payments := bulkhead.MustNew[string](bulkhead.Config{
		Name:          "payments",
		MaxConcurrent: 2,
	})
	ctx := context.Background()
	charge := func(context.Context) (string, error) { return "receipt 17", nil }

	receipt, err := payments.Execute(ctx, charge)
	fmt.Println(receipt, err)

	for range 2 { // two slow calls
		permit, _ := payments.TryAcquire()
		defer permit.Release()
	}
	_, err = payments.Execute(ctx, charge)
	fmt.Println(err)
	fmt.Println("shed the load:", errors.Is(err, bulkhead.ErrFull))
	// Output:
	// receipt 17 <nil>
	// bulkhead "payments": rejected, full (weight 1, limit 2, max wait 0s, waited 0s)
	// shed the load: true
}

func ExampleNew() {
	_, err := bulkhead.New[string](bulkhead.Config{Name: "payments", MaxWait: time.Second})
	fmt.Println(err)
	// Output: bulkhead "payments": Config.MaxConcurrent is 0, want at least 1
}

// One bulkhead guards a database whose calls have different results.
func ExampleDo() {
	db := bulkhead.MustNew[any](bulkhead.Config{Name: "db", MaxConcurrent: 10})
	ctx := context.Background()

	n, err := bulkhead.Do(ctx, db, func(context.Context) (int, error) { return 3, nil })
	fmt.Println(n, err)
	names, err := bulkhead.Do(ctx, db, func(context.Context) ([]string, error) {
		return []string{"Ada", "Grace"}, nil
	})
	fmt.Println(names, err)
	// Output:
	// 3 <nil>
	// [Ada Grace] <nil>
}

func ExampleDecorateFunc() {
	mail := bulkhead.MustNew[any](bulkhead.Config{Name: "mail", MaxConcurrent: 4})
	send := func(_ context.Context, to string) (string, error) { return "sent to " + to, nil }

	// Whoever gets guarded does not know about the bulkhead.
	guarded := bulkhead.DecorateFunc(mail, send)
	fmt.Println(guarded(context.Background(), "ada@example.com"))
	// Output: sent to ada@example.com <nil>
}

// A batch weighs as much as it has entries.
func ExampleBulkhead_Weighing() {
	store := bulkhead.MustNew[int](bulkhead.Config{Name: "store", MaxConcurrent: 100})
	save := func(batch []string) (int, error) {
		return store.Weighing(int64(len(batch))).Execute(context.Background(),
			func(context.Context) (int, error) {
				fmt.Println("permits in flight:", store.Stats().Active)
				return len(batch), nil
			})
	}
	fmt.Println(save([]string{"a", "b", "c"}))
	// Output:
	// permits in flight: 3
	// 3 <nil>
}

// Users fail fast; the nightly report would rather wait.
func ExampleBulkhead_Waiting() {
	db := bulkhead.MustNew[string](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	patient := db.Waiting(time.Minute)

	permit, _ := db.TryAcquire()
	query := func(context.Context) (string, error) { return "rows", nil }
	_, err := db.Execute(context.Background(), query)
	fmt.Println("user:", errors.Is(err, bulkhead.ErrFull))

	time.AfterFunc(time.Millisecond, permit.Release)
	rows, err := patient.Execute(context.Background(), query)
	fmt.Println("report:", rows, err)
	// Output:
	// user: true
	// report: rows <nil>
}

// Where the work is not one function, a permit stands for it.
func ExampleBulkhead_Acquire() {
	streams := bulkhead.MustNew[any](bulkhead.Config{Name: "streams", MaxConcurrent: 2})
	serve := func(ctx context.Context) error {
		permit, err := streams.Acquire(ctx)
		if err != nil {
			return err
		}
		defer permit.Release() // for whatever way we leave
		// ... several steps that share the permit ...
		permit.Complete(nil)
		return nil
	}
	fmt.Println(serve(context.Background()), streams.Stats().Active)
	// Output: <nil> 0
}

func ExampleRejectedError() {
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 4, MaxWait: bulkhead.Forever})
	_, err := db.Weighing(5).Execute(context.Background(), func(context.Context) (int, error) { return 0, nil })

	// The value, not a pointer: errors.As into a *RejectedError never matches.
	if rejected, ok := errors.AsType[bulkhead.RejectedError](err); ok {
		fmt.Println(rejected.Name, rejected.Reason, rejected.Weight, ">", rejected.MaxConcurrent)
	}
	fmt.Println(err)
	// Output:
	// db too_heavy 5 > 4
	// bulkhead "db": rejected, too heavy (weight 5, limit 4, max wait forever, waited 0s)
}

// The caller went away while the call waited.
func ExampleCanceledError() {
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("client gone"))

	_, err := db.Execute(ctx, func(context.Context) (int, error) { return 0, nil })
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.Canceled), errors.Is(err, bulkhead.ErrFull))
	// Output:
	// bulkhead "db": canceled: context canceled: client gone (waited 0s)
	// true false
}

func ExampleBulkhead_Subscribe() {
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	unsubscribe := db.Subscribe(event.Listener{
		Finished: func(_ context.Context, e event.Finished) { fmt.Println(e.Name, e.Outcome, e.Err) },
	})
	db.Run(context.Background(), func(context.Context) error { return nil })
	db.Run(context.Background(), func(context.Context) error { return errors.New("no such table") })
	unsubscribe()
	db.Run(context.Background(), func(context.Context) error { return nil })
	// Output:
	// db ok <nil>
	// db failed no such table
}

func ExampleBulkhead_Config() {
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 10})
	db.SetMaxConcurrent(20)

	// Another bulkhead like it, with permits of its own.
	cfg := db.Config()
	cfg.Name = "replica"
	replica := bulkhead.MustNew[int](cfg)
	fmt.Println(replica.Name(), replica.Stats().Available)
	// Output: replica 20
}

func ExampleBulkhead_Shutdown() {
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 10})
	permit, _ := db.TryAcquire() // a call that runs

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	fmt.Println(db.Shutdown(ctx))

	permit.Complete(nil)
	fmt.Println(db.Shutdown(context.Background()))

	err := db.Run(context.Background(), func(context.Context) error { return nil })
	fmt.Println(errors.Is(err, bulkhead.ErrClosed))
	// Output:
	// context deadline exceeded
	// <nil>
	// true
}
