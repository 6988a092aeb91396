package bulkheadgrpc_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
)

// readAll is a whole stream, whose handler sends one message.
func readAll(ctx context.Context, s *site) error {
	stream, err := s.open(ctx, kinds[both])
	if err != nil {
		return err
	}
	for {
		if err := stream.RecvMsg(new(text)); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Ten times as many callers as the limit, each calling again at once.
func TestOverload(t *testing.T) {
	const limit, callersAtOnce, callsEach = 8, 80, 10
	loads := map[string]func(context.Context, *site) error{"unary": callers["unary"], "stream": readAll}
	for form, call := range loads {
		for where, maxWait := range map[string]time.Duration{"at once": 0, "after a wait": 3 * time.Millisecond} {
			for _, guarding := range []string{"server", "client"} {
				t.Run(form+"/"+guarding+"/"+where, func(t *testing.T) {
					guard := bulkhead.Config{MaxConcurrent: limit, MaxWait: maxWait}
					wide := bulkhead.Config{MaxConcurrent: callersAtOnce}
					cfg := siteConfig{server: guard, client: wide}
					if guarding == "client" {
						cfg = siteConfig{server: wide, client: guard}
					}
					var inside, highest, handled, refused atomic.Int64
					svc := answering(func(context.Context) error {
						n := inside.Add(1)
						defer inside.Add(-1)
						for seen := highest.Load(); n > seen && !highest.CompareAndSwap(seen, n); seen = highest.Load() {
						}
						handled.Add(1)
						time.Sleep(time.Millisecond) // the work
						return nil
					})
					s := newSite(t, svc, cfg)
					var all sync.WaitGroup
					for range callersAtOnce {
						all.Go(func() {
							for range callsEach {
								err := call(t.Context(), s)
								if err == nil {
									continue
								}
								refused.Add(1)
								_, remote := bulkheadgrpc.RemoteRejection(err)
								if status.Code(err) != codes.ResourceExhausted || remote != (guarding == "server") || errors.Is(err, bulkhead.ErrFull) == remote {
									t.Errorf("a call: %v, want a rejection by the %s", err, guarding)
								}
							}
						})
					}
					all.Wait()
					if got := highest.Load(); got > limit {
						t.Errorf("%d calls at once in the handler, want at most %d", got, limit)
					}
					if refused.Load() == 0 {
						t.Error("no call was refused: this was no overload")
					}
					if got := handled.Load() + refused.Load(); got != callersAtOnce*callsEach {
						t.Errorf("%d handled + %d refused, want %d", handled.Load(), refused.Load(), callersAtOnce*callsEach)
					}
					reached := callersAtOnce * callsEach
					s.client.wantRest(t, reached)
					if guarding == "client" {
						reached = int(handled.Load())
					}
					s.server.wantRest(t, reached)
				})
			}
		}
	}
}
