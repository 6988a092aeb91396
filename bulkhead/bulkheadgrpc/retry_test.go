package bulkheadgrpc_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What gRPC itself tries again happens under one permit; and a guarded stream is
// tried again like any other, which it is not once somebody has asked for its
// context.
func TestRetriesOfAServiceConfigAreOneCall(t *testing.T) {
	const policy = `{"methodConfig": [{"name": [{}], "retryPolicy": {
		"maxAttempts": 3, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1,
		"retryableStatusCodes": ["UNAVAILABLE"]}}]}`
	for form, call := range map[string]func(context.Context, *site) error{"unary": callers["unary"], "stream": readAll} {
		t.Run(form, func(t *testing.T) {
			var tries atomic.Int64
			var s *site
			s = newSite(t, answering(func(context.Context) error {
				s.client.wantActive(t, 1)
				if n := tries.Add(1); n < 3 {
					return status.Error(codes.Unavailable, fmt.Sprint("try ", n))
				}
				return nil
			}), siteConfig{grpcClient: []grpc.DialOption{grpc.WithDefaultServiceConfig(policy)}})
			wantCode(t, "the call", call(t.Context(), s), codes.OK)
			s.client.wantEnd(t, "ok")
			s.client.wantRest(t, 1)
			s.server.wantRest(t, 3)
		})
	}
}
