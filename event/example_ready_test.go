package event_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

func nop(context.Context) error { return nil }

// A spell of rejections: the first is logged at once, the others in one line a
// second.
func ExampleSlog() {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{} // to have the same output each time
			}
			return a
		},
	}))
	payments := bulkhead.MustNew[any](bulkhead.Config{
		Name:          "payments",
		MaxConcurrent: 1,
		Listener:      event.Slog(logger),
		Clock:         func() time.Time { return now },
	})

	permit, _ := payments.TryAcquire() // a slow call
	for range 2000 {
		payments.Run(context.Background(), nop)
		now = now.Add(time.Millisecond)
	}
	permit.Complete(nil) // one second after the last line
	// Output:
	// level=WARN msg="bulkhead call rejected" bulkhead=payments reason=full weight=1 limit=1 waited=0s
	// level=WARN msg="bulkhead calls rejected" bulkhead=payments calls=1000 full=1000 first=2026-07-01T12:00:00.001Z last=2026-07-01T12:00:01.000Z
	// level=WARN msg="bulkhead calls rejected" bulkhead=payments calls=999 full=999 first=2026-07-01T12:00:01.001Z last=2026-07-01T12:00:01.999Z
}

func ExampleCounters() {
	counters := event.NewCounters()
	payments := bulkhead.MustNew[any](bulkhead.Config{
		Name:          "payments",
		MaxConcurrent: 1,
		Listener:      counters.Listener(),
	})
	ctx := context.Background()
	payments.Run(ctx, func(ctx context.Context) error {
		payments.Run(ctx, nop) // finds no second permit
		_, full := counters.FullSince()
		fmt.Println("full:", full)
		fmt.Println("running:", counters.Snapshot().Running().Calls)
		return errors.New("card declined")
	})
	payments.Run(ctx, nop)

	s := counters.Snapshot()
	fmt.Println("calls:", s.Calls().Calls)
	fmt.Println("rejected, full:", s.Rejected[event.Full].Calls)
	fmt.Println("finished, ok:", s.Finished[event.OK].Calls)
	fmt.Println("finished, failed:", s.Finished[event.Failed].Calls)
	_, full := counters.FullSince()
	fmt.Println("full:", full)
	// Output:
	// full: true
	// running: 1
	// calls: 3
	// rejected, full: 1
	// finished, ok: 1
	// finished, failed: 1
	// full: false
}

// Published as an expvar.Var, this is what /debug/vars shows.
func ExampleCounters_String() {
	counters := event.NewCounters()
	mail := bulkhead.MustNew[any](bulkhead.Config{Name: "mail", MaxConcurrent: 4, Listener: counters.Listener()})
	bulkhead.Weighing(mail, 3).Run(context.Background(), nop)
	// expvar.Publish("mail", counters)
	fmt.Println(counters)
	// Output: {"permitted":{"calls":1,"weight":3},"rejected":{"closed":{"calls":0,"weight":0},"full":{"calls":0,"weight":0},"queue_full":{"calls":0,"weight":0},"timed_out":{"calls":0,"weight":0},"too_heavy":{"calls":0,"weight":0}},"canceled":{"calls":0,"weight":0},"finished":{"failed":{"calls":0,"weight":0},"ok":{"calls":1,"weight":3},"panicked":{"calls":0,"weight":0}},"released":{"calls":0,"weight":0},"full_since":null}
}

// What happened last, for a page that is looked at when something is wrong.
func ExampleRing() {
	last := event.NewRing(3)
	mail := bulkhead.MustNew[any](bulkhead.Config{Name: "mail", MaxConcurrent: 1, Listener: last.Listener()})
	ctx := context.Background()
	for i := range 3 {
		mail.Run(ctx, func(context.Context) error { return fmt.Errorf("mailbox %d is full", i) })
	}
	for _, r := range last.Records() {
		fmt.Println(r.Name, r.Kind, r.Err)
	}
	// Output:
	// mail finished mailbox 1 is full
	// mail permitted <nil>
	// mail finished mailbox 2 is full
}

// A reader on a goroutine of its own may take its time.
func ExampleStream() {
	stream := event.NewStream(4)
	mail := bulkhead.MustNew[any](bulkhead.Config{Name: "mail", MaxConcurrent: 1, Listener: stream.Listener()})
	for range 3 {
		mail.Run(context.Background(), nop) // two events each
	}
	for range 4 {
		r := <-stream.C()
		fmt.Println(r.Name, r.Kind)
	}
	fmt.Println("dropped:", stream.Dropped())
	// Output:
	// mail permitted
	// mail finished
	// mail permitted
	// mail finished
	// dropped: 2
}
