module github.com/turnstile-go/turnstile/internal/bench

go 1.26.0

replace github.com/turnstile-go/turnstile => ../..

require (
	github.com/cockroachdb/crlib v0.0.0-20260823170307-44ef894cf300
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/marusama/semaphore/v2 v2.5.0
	github.com/turnstile-go/turnstile v0.0.0
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
	golang.org/x/sync v0.25.0
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
)
