package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event"
)

func TestDownstreamGetsSlowerBeyondItsCapacity(t *testing.T) {
	for _, tc := range []struct {
		others int64
		want   time.Duration
	}{
		{others: 0, want: 20 * time.Millisecond},
		{others: 7, want: 20 * time.Millisecond},
		{others: 8, want: 25 * time.Millisecond},
		{others: 47, want: 220 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := &downstream{capacity: 8, service: 20 * time.Millisecond}
			for range tc.others {
				d.inside.Enter()
			}
			start := time.Now()
			if price, err := d.price(t.Context(), 3); price != 121 || err != nil {
				t.Errorf("price(3) = %d, %v, want 121, nil", price, err)
			}
			if got := time.Since(start); got != tc.want {
				t.Errorf("beside %d others: took %v, want %v", tc.others, got, tc.want)
			}
			if got := d.inside.Highest(); got != tc.others+1 {
				t.Errorf("highest concurrency %d, want %d", got, tc.others+1)
			}
			if got := d.inside.Inside(); got != tc.others {
				t.Errorf("%d are running at the end, want %d", got, tc.others)
			}
		})
	}
}

func TestDownstreamStopsWhenItsCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Millisecond)
		defer cancel()
		d := &downstream{capacity: 8, service: 20 * time.Millisecond}
		start := time.Now()
		if _, err := d.price(ctx, 3); err != context.DeadlineExceeded {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
		if got := time.Since(start); got != 7*time.Millisecond {
			t.Errorf("took %v, want 7ms", got)
		}
	})
}

func TestServiceAnswers(t *testing.T) {
	lookup := func(_ context.Context, item int) (int, error) {
		switch item {
		case 1:
			return 107, nil
		case 2:
			return 0, bulkhead.RejectedError{Reason: event.QueueFull}
		}
		return 0, errors.New("boom")
	}
	for _, tc := range []struct {
		reason, path, body string
		status             int
	}{
		{"served", "/price/1", "107", http.StatusOK},
		{"rejected", "/price/2", "queue_full\n", http.StatusServiceUnavailable},
		{"failed", "/price/3", "boom\n", http.StatusInternalServerError},
		{"no item", "/price/x", "an item is a number\n", http.StatusBadRequest},
	} {
		srv := &service{lookup: lookup}
		w := httptest.NewRecorder()
		srv.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.path, nil))
		if w.Code != tc.status || w.Body.String() != tc.body {
			t.Errorf("%s: %d %q, want %d %q", tc.reason, w.Code, w.Body, tc.status, tc.body)
		}
		if got, want := w.Header().Get("Retry-After") != "", tc.reason == "rejected"; got != want {
			t.Errorf("%s: told to retry: %t, want %t", tc.reason, got, want)
		}
	}
}
