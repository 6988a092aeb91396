package bulkheadhttp_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// BenchmarkStatusAsked is a call to a bulkhead on a page that nobody asks, and on
// one that somebody does, and so counts.
func BenchmarkStatusAsked(b *testing.B) {
	for _, asked := range []bool{false, true} {
		b.Run(fmt.Sprintf("asked=%t", asked), func(b *testing.B) {
			db := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 1})
			page := bulkheadhttp.StatusPage(registryOf(b, db))
			if asked {
				look(page, "GET", "/?format=json")
			}
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				db.Execute(ctx, func(context.Context) (int, error) { return 0, nil })
			}
		})
	}
}

// BenchmarkStatus is one answer for many bulkheads.
func BenchmarkStatus(b *testing.B) {
	for _, format := range []string{"json", "html"} {
		b.Run(fmt.Sprintf("format=%s/bulkheads=200", format), func(b *testing.B) {
			r := new(bulkhead.Registry)
			for i := range 200 {
				if err := r.Add(bulkhead.MustNew[int](bulkhead.Config{Name: fmt.Sprint("db-", i), MaxConcurrent: 1})); err != nil {
					b.Fatal(err)
				}
			}
			page := bulkheadhttp.StatusPage(r)
			b.ReportAllocs()
			for b.Loop() {
				look(page, "GET", "/?format="+format)
			}
		})
	}
}
