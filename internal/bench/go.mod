module github.com/turnstile-go/turnstile/internal/bench

go 1.26.0

replace (
	github.com/turnstile-go/turnstile => ../..
	github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc => ../../bulkhead/bulkheadgrpc
)

require (
	github.com/cockroachdb/crlib v0.0.0-20260823170307-44ef894cf300
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/marusama/semaphore/v2 v2.5.0
	github.com/turnstile-go/turnstile v0.0.0
	github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc v0.0.0
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da
	golang.org/x/sync v0.25.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)
