package bulkhead_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

// Each tenant has a limit of its own, and who pays gets more.
func ExampleKeyed() {
	paying := map[string]bool{"ada": true}
	tenants := bulkhead.MustNewKeyed[string, string](bulkhead.Config{Name: "tenants"}, func(tenant string) int64 {
		if paying[tenant] {
			return 20
		}
		return 1
	})
	ctx := context.Background()
	report := func(context.Context) (string, error) { return "report", nil }

	permit, _ := tenants.Acquire(ctx, "bob") // a slow call of bob's
	_, err := tenants.Execute(ctx, "bob", report)
	fmt.Println("bob:", err)
	got, err := tenants.Execute(ctx, "ada", report)
	fmt.Println("ada:", got, err)

	fmt.Println("tenants with calls:", tenants.Len())
	permit.Complete(nil)
	fmt.Println("tenants with calls:", tenants.Len())
	// Output:
	// bob: bulkhead "tenants": rejected, full (weight 1, limit 1, max wait 0s, waited 0s)
	// ada: report <nil>
	// tenants with calls: 1
	// tenants with calls: 0
}

// At most two downloads at once from any one host.
func ExampleKeyed_Run() {
	hosts := bulkhead.MustNewKeyed[string, any](bulkhead.Config{
		Name:          "hosts",
		MaxConcurrent: 2,
		MaxWait:       bulkhead.Forever,
	}, nil)
	download := func(ctx context.Context, host, path string) error {
		return hosts.Run(ctx, host, func(ctx context.Context) error {
			fmt.Println("from", host, path)
			return nil
		})
	}
	fmt.Println(download(context.Background(), "example.com", "/index.html"))
	// Output:
	// from example.com /index.html
	// <nil>
}

// All bulkheads of a service, to look at and to shut down.
func ExampleRegistry() {
	var registry bulkhead.Registry
	counters := event.NewCounters()
	for name, limit := range map[string]int64{"payments": 10, "db": 40, "mail": 4} {
		b, err := bulkhead.New[any](bulkhead.Config{Name: name, MaxConcurrent: limit})
		if err != nil {
			fmt.Println(err)
			return
		}
		b.Subscribe(counters.Listener()) // one for all
		if err := registry.Add(b); err != nil {
			fmt.Println(err)
			return
		}
	}
	if db, ok := registry.Get("db"); ok {
		permit, _ := db.TryAcquire()
		defer permit.Release()
	}

	for _, b := range registry.All() {
		s := b.Stats()
		fmt.Printf("%s: %d of %d in use\n", s.Name, s.Active, s.MaxConcurrent)
	}
	for _, b := range registry.All() {
		b.Close()
	}
	mail, _ := registry.Get("mail")
	err := mail.Run(context.Background(), func(context.Context) error { return nil })
	fmt.Println(errors.Is(err, bulkhead.ErrClosed))
	fmt.Println("calls:", counters.Snapshot().Calls().Calls)
	// Output:
	// db: 1 of 40 in use
	// mail: 0 of 4 in use
	// payments: 0 of 10 in use
	// true
	// calls: 2
}
