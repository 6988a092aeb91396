package bulkhead_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// A burst of calls queues behind the one that runs. By default nobody waits;
// through a handle that waits for ever, any number does.
func ExampleBulkhead_ExecuteAsync() {
	pages := bulkhead.MustNew[string](bulkhead.Config{Name: "pages", MaxConcurrent: 1})
	ctx := context.Background()
	fetch := func(n int) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return fmt.Sprintf("page %d", n), nil }
	}

	permit, _ := pages.TryAcquire() // a call that runs
	_, err := pages.ExecuteAsync(ctx, fetch(0)).Get(ctx)
	fmt.Println("not willing to wait:", errors.Is(err, bulkhead.ErrFull))

	var futures []*bulkhead.Future[string]
	for n := range 1000 {
		futures = append(futures, pages.Waiting(bulkhead.Forever).ExecuteAsync(ctx, fetch(n)))
	}
	fmt.Println("waiting:", pages.Stats().Waiting)

	permit.Release()
	for _, f := range futures[:3] {
		fmt.Println(f.Get(ctx))
	}
	fmt.Println(pages.Drain(ctx), pages.Stats().Waiting)
	// Output:
	// not willing to wait: true
	// waiting: 1000
	// page 0 <nil>
	// page 1 <nil>
	// page 2 <nil>
	// <nil> 0
}

// One bulkhead for calls of many result types, which may all wait.
func ExampleGo() {
	db := bulkhead.MustNew[any](bulkhead.Config{Name: "db", MaxConcurrent: 4})
	patient := bulkhead.Waiting(db, bulkhead.Forever)
	ctx := context.Background()

	count := bulkhead.Go(ctx, patient, func(context.Context) (int, error) { return 2, nil })
	names := bulkhead.Go(ctx, patient, func(context.Context) ([]string, error) { return []string{"Ada", "Grace"}, nil })
	fmt.Println(count.Get(ctx))
	fmt.Println(names.Get(ctx))
	// Output:
	// 2 <nil>
	// [Ada Grace] <nil>
}

// The caller no longer needs a result, and the call has not begun.
func ExampleFuture_Cancel() {
	db := bulkhead.MustNew[string](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
	ctx := context.Background()
	permit, _ := db.TryAcquire() // a call that runs

	report := db.ExecuteAsync(ctx, func(context.Context) (string, error) { return "rows", nil })
	fmt.Println("canceled:", report.Cancel())
	_, err := report.Get(ctx)
	fmt.Println(errors.Is(err, context.Canceled), errors.Is(err, bulkhead.ErrFull))

	permit.Release()
	report = db.ExecuteAsync(ctx, func(context.Context) (string, error) { return "rows", nil })
	fmt.Println(report.Get(ctx))
	fmt.Println("canceled:", report.Cancel())
	// Output:
	// canceled: true
	// true false
	// rows <nil>
	// canceled: false
}

// A panic in an asynchronous call reaches whoever asks for its result.
func ExamplePanicError() {
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	ctx := context.Background()
	f := db.ExecuteAsync(ctx, func(context.Context) (int, error) {
		panic("index is corrupt")
	})

	defer func() {
		err := recover().(*bulkhead.PanicError)
		fmt.Println(err.Value)
		fmt.Println("permits in flight:", db.Stats().Active)
	}()
	f.Get(ctx)
	// Output:
	// index is corrupt
	// permits in flight: 0
}

// An event loop asks for permits and goes on; here both are granted.
func ExampleBulkhead_AcquireAsync() {
	db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1, MaxWait: bulkhead.Forever})
	ctx := context.Background()

	first, second := db.AcquireAsync(ctx), db.AcquireAsync(ctx)
	_, err := second.Permit()
	fmt.Println(err)

	permit, err := first.Permit()
	fmt.Println("first:", err)
	permit.Complete(nil)

	<-second.Done()
	permit, err = second.Permit()
	fmt.Println("second:", err)
	permit.Complete(nil)
	// Output:
	// semaphore: pending
	// first: <nil>
	// second: <nil>
}

func ExampleDecorateAsync() {
	geo := bulkhead.MustNew[any](bulkhead.Config{Name: "geo", MaxConcurrent: 8})
	locate := func(context.Context) (string, error) { return "52.5 N, 13.4 E", nil }

	guarded := bulkhead.DecorateAsync(geo, locate)
	fmt.Println(guarded(context.Background()).Get(context.Background()))
	// Output: 52.5 N, 13.4 E <nil>
}

// The rows of a query hold their connection until the loop is left.
func ExampleSeq() {
	db := bulkhead.MustNew[any](bulkhead.Config{Name: "db", MaxConcurrent: 1})
	rows := func(yield func(string, error) bool) {
		for _, name := range []string{"Ada", "Grace", "Hedy"} {
			if !yield(name, nil) {
				return
			}
		}
	}

	for name, err := range bulkhead.Seq(context.Background(), db, rows) {
		fmt.Println(name, err, "permits in flight:", db.Stats().Active)
		if name == "Grace" {
			break
		}
	}
	fmt.Println("permits in flight:", db.Stats().Active)
	// Output:
	// Ada <nil> permits in flight: 1
	// Grace <nil> permits in flight: 1
	// permits in flight: 0
}

// A subscription holds its permit until the source closes its channel.
func ExampleDecorateChan() {
	feeds := bulkhead.MustNew[any](bulkhead.Config{Name: "feeds", MaxConcurrent: 1})
	ctx := context.Background()
	subscribe := bulkhead.DecorateChan(feeds, func(context.Context) (<-chan int, error) {
		prices := make(chan int)
		go func() {
			defer close(prices)
			for price := 100; price < 103; price++ {
				prices <- price
			}
		}()
		return prices, nil
	})

	prices, err := subscribe(ctx)
	fmt.Println(err)
	_, err = subscribe(ctx)
	fmt.Println("a second one:", errors.Is(err, bulkhead.ErrFull))
	for price := range prices {
		fmt.Println(price)
	}
	fmt.Println(feeds.Drain(ctx), feeds.Stats().Active)
	// Output:
	// <nil>
	// a second one: true
	// 100
	// 101
	// 102
	// <nil> 0
}
