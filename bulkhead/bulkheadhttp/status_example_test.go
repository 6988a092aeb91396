package bulkheadhttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
)

// A page for people at /debug/bulkheads is JSON for a program that asks for it.
func ExampleStatusPage() {
	database := bulkhead.MustNew[int](bulkhead.Config{Name: "database", MaxConcurrent: 8})
	var registry bulkhead.Registry
	if err := registry.Add(database); err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/bulkheads", bulkheadhttp.StatusPage(&registry))
	srv := httptest.NewServer(mux)
	defer srv.Close()

	permit, _ := database.Weighing(6).TryAcquire()
	defer permit.Release()

	resp, err := http.Get(srv.URL + "/debug/bulkheads?format=json")
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	var status struct {
		Bulkheads []struct {
			Name   string
			Limit  int64 `json:"max_concurrent"`
			Active int64
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		panic(err)
	}
	for _, b := range status.Bulkheads {
		fmt.Printf("%s: %d of %d in use\n", b.Name, b.Active, b.Limit)
	}
	// Output:
	// database: 6 of 8 in use
}
