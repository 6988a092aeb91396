package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestArrivalsAreAPoissonProcess(t *testing.T) {
	l := load{rate: 1000, patience: time.Second, warmUp: time.Second, window: 18 * time.Second, seed: 1}
	due := l.arrivals()
	if !slices.IsSorted(due) || due[len(due)-1] >= 20*time.Second {
		t.Errorf("not in order, or the last, at %v, not before the end at 20s", due[len(due)-1])
	}
	// Of 20,000 gaps the mean is within 4 standard errors of 1 ms, and as the
	// standard deviation of a random gap is its mean, so is that.
	n := float64(len(due))
	var sum, squares, last float64
	for _, at := range due {
		gap := ms(at) - last
		sum, squares, last = sum+gap, squares+gap*gap, ms(at)
	}
	mean := sum / n
	deviation := math.Sqrt(squares/n - mean*mean)
	if math.Abs(n-20000) > 4*math.Sqrt(20000) || math.Abs(deviation-mean) > 4*0.01 {
		t.Errorf("%v requests in 20s, with a mean gap of %v ms and a standard deviation of %v, want 20000, 1 and 1", n, mean, deviation)
	}

	if again := l.arrivals(); !slices.Equal(due, again) {
		t.Error("the same seed gives other moments")
	}
	l.seed = 2
	if others := l.arrivals(); slices.Equal(due, others) {
		t.Error("another seed gives the same moments")
	}
}

func TestClientsJudgeTheirAnswers(t *testing.T) {
	const patience = 100 * time.Millisecond
	write := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	after := func(d time.Duration, h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(d)
			h(w, r)
		}
	}
	for _, tc := range []struct {
		reason  string
		service http.HandlerFunc
		late    time.Duration // that the request is sent
		want    answer
	}{
		{
			reason:  "served",
			service: after(30*time.Millisecond, write(200, served)),
			want:    answer{kind: isServed, took: 30 * time.Millisecond},
		},
		{
			reason:  "the clock starts when the request was due, not when it was sent",
			service: after(30*time.Millisecond, write(200, served)),
			late:    40 * time.Millisecond,
			want:    answer{kind: isServed, late: 40 * time.Millisecond, took: 70 * time.Millisecond},
		},
		{
			reason:  "and so does patience",
			service: after(70*time.Millisecond, write(200, served)),
			late:    40 * time.Millisecond,
			want:    answer{kind: gaveUp, late: 40 * time.Millisecond, took: patience},
		},
		{
			reason:  "too late is not served",
			service: after(patience, write(200, served)),
			want:    answer{kind: gaveUp, took: patience},
		},
		{
			reason:  "no patience left when it is sent",
			service: write(200, served),
			late:    time.Second,
			want:    answer{kind: gaveUp, late: time.Second, took: time.Second},
		},
		{
			reason:  "refused",
			service: write(503, "full"),
			want:    answer{kind: isRefused},
		},
		{
			reason:  "another answer",
			service: write(200, "hello"),
			want:    answer{kind: failed, detail: "OK: hello"},
		},
		{
			reason:  "the service is at fault",
			service: write(500, "boom"),
			want:    answer{kind: failed, detail: "Internal Server Error: boom"},
		},
		{
			reason:  "a connection that breaks",
			service: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			want:    answer{kind: failed, detail: `Get "http://service/": EOF`},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := connect(t, tc.service)
			got := ask(t.Context(), client, "http://service/", time.Now().Add(-tc.late), patience)
			if got != tc.want {
				t.Errorf("%s: got %+v, want %+v", tc.reason, got, tc.want)
			}
		})
	}
}

// The service here answers nobody, and yet every request is sent when it is due.
func TestLoadDoesNotWaitForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var came atomic.Int64
		client := connect(t, func(_ http.ResponseWriter, r *http.Request) {
			came.Add(1)
			<-r.Context().Done()
		})
		l := load{rate: 500, patience: time.Second, warmUp: 100 * time.Millisecond, window: 200 * time.Millisecond, seed: 3}
		due := l.arrivals()
		answers := l.send(t.Context(), client, "http://service/")
		if len(answers) != len(due) || int(came.Load()) != len(due) {
			t.Errorf("%d answers, %d requests came, want %d of each", len(answers), came.Load(), len(due))
		}
		for i, a := range answers {
			if want := (answer{due: due[i], took: l.patience, kind: gaveUp}); a != want {
				t.Errorf("answer %d: %+v, want %+v", i, a, want)
			}
		}
	})
}

func TestLoadEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := connect(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		load{rate: 500, patience: time.Minute, window: time.Minute}.send(ctx, client, "http://service/")
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("took %v, want 50ms", took)
		}
	})
}
