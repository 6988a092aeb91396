package browser

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// TestScreenshot makes pictures of the page, if SCREENSHOT names a directory for
// them; docs has those of the wide windows. The charts take two minutes to fill.
func TestScreenshot(t *testing.T) {
	dir := os.Getenv("SCREENSHOT")
	if dir == "" {
		t.Skip("SCREENSHOT does not name a directory for the pictures")
	}
	database := newBulkhead(t, bulkhead.Config{Name: "database", MaxConcurrent: 16, MaxWait: 250 * time.Millisecond, MaxQueue: 40})
	payments := newBulkhead(t, bulkhead.Config{Name: "payments", MaxConcurrent: 10})
	search := newBulkhead(t, bulkhead.Config{Name: "search", MaxConcurrent: 32, MaxWait: time.Second})
	_, srv := serve(t, database, payments, search, newBulkhead(t, bulkhead.Config{Name: "mail", MaxConcurrent: 4}))
	const span = 125 * time.Second
	end := time.Now().Add(span)
	// wave is a number of calls a second that is highest at the end.
	wave := func(period time.Duration, low, high float64) func() float64 {
		return func() float64 {
			phase := 2 * math.Pi * float64(time.Until(end)) / float64(period)
			return low + (high-low)*(1+math.Cos(phase))/2
		}
	}
	keepArriving(t, database, 80*time.Millisecond, wave(52*time.Second, 50, 250))
	keepArriving(t, payments, 30*time.Millisecond, wave(31*time.Second, 60, 420))
	keepArriving(t, search, 120*time.Millisecond, wave(83*time.Second, 60, 190))

	views := []look{{1200, 340, "light"}, {1200, 340, "dark"}, {360, 780, "light"}, {400, 780, "dark"}}
	var tabs []*tab
	for _, l := range views {
		tabs = append(tabs, open(t, srv.URL+path, l))
	}
	time.Sleep(time.Until(end))
	for i, tb := range tabs {
		png := run(tb, chromedp.CaptureScreenshot())
		if err := os.WriteFile(filepath.Join(dir, "status-"+views[i].String()+".png"), png, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// keepArriving calls b as often as rate says, calls a second, until the test ends.
// A call that is permitted takes d.
func keepArriving(t *testing.T, b bulkhead.Any, d time.Duration, rate func() float64) {
	ctx, cancel := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	calls.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Duration(float64(time.Second) / rate()))
			calls.Go(func() {
				b.Run(ctx, func(context.Context) error {
					time.Sleep(d)
					return nil
				})
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		calls.Wait()
	})
}
