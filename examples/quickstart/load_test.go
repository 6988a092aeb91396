package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestClientsJudgeTheirAnswers(t *testing.T) {
	for _, tc := range []struct {
		reason   string
		answer   http.HandlerFunc
		patience time.Duration
		kind     kind
		detail   string // the beginning
	}{
		{
			reason:   "the right price",
			answer:   func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, 149) },
			patience: time.Minute,
			kind:     served,
		},
		{
			reason:   "another item's price",
			answer:   func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, 156) },
			patience: time.Minute,
			kind:     wrong,
			detail:   `item 7: status 200, "156"`,
		},
		{
			reason: "the right price with the wrong status",
			answer: func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				fmt.Fprintln(w, 149)
			},
			patience: time.Minute,
			kind:     wrong,
			detail:   `item 7: status 500, "149"`,
		},
		{
			reason: "a rejection",
			answer: func(w http.ResponseWriter, r *http.Request) {
				http.Error(w, "timed_out", http.StatusServiceUnavailable)
			},
			patience: time.Minute,
			kind:     rejected,
			detail:   "timed_out",
		},
		{
			reason:   "no answer in time",
			answer:   func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			patience: 10 * time.Millisecond,
			kind:     gaveUp,
		},
		{
			reason:   "a connection that breaks",
			answer:   func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
			patience: time.Minute,
			kind:     wrong,
			detail:   "Get ",
		},
	} {
		srv := httptest.NewServer(tc.answer)
		client := &http.Client{Timeout: tc.patience}
		start := time.Now()
		got := ask(t.Context(), client, srv.URL+"/", 7)
		if took := time.Since(start); got.took <= 0 || got.took > took {
			t.Errorf("%s: took %v, want something up to %v", tc.reason, got.took, took)
		}
		if got.kind != tc.kind || !strings.HasPrefix(got.detail, tc.detail) {
			t.Errorf("%s: kind %d, %q, want kind %d, %q", tc.reason, got.kind, got.detail, tc.kind, tc.detail)
		}
		client.CloseIdleConnections()
		srv.Close()
	}
}

func TestLoadIsOneRequestForEachClient(t *testing.T) {
	var asked [20]atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var item int
		fmt.Sscanf(r.URL.Path, "/%d", &item)
		asked[item].Add(1)
		fmt.Fprint(w, priceOf(item))
	}))
	defer srv.Close()

	var shown []int
	progress := func(done, of int) { shown = append(shown, done, of) }
	answers := load{clients: 20, patience: time.Minute}.send(t.Context(), srv.URL+"/", progress)
	if len(answers) != 20 {
		t.Errorf("%d answers, want 20", len(answers))
	}
	for _, a := range answers {
		if a.kind != served {
			t.Errorf("answer %+v, want it served", a)
		}
	}
	for item := range asked {
		if n := asked[item].Load(); n != 1 {
			t.Errorf("item %d asked for %d times, want once", item, n)
		}
	}
	for i := range 21 {
		if done, of := shown[2*i], shown[2*i+1]; done != i || of != 20 {
			t.Errorf("progress %d shows %d of %d, want %d of 20", i, done, of, i)
		}
	}
}
