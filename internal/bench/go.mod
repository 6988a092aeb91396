module github.com/turnstile-go/turnstile/internal/bench

go 1.26.0

replace github.com/turnstile-go/turnstile => ../..

require (
	github.com/cockroachdb/crlib v0.0.0-20260823170307-44ef894cf300
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/marusama/semaphore/v2 v2.5.0
	github.com/turnstile-go/turnstile v0.0.0
	golang.org/x/sync v0.25.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	golang.org/x/net v0.59.0 // indirect
)
