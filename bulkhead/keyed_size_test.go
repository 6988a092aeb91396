//go:build !race

package bulkhead_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/turnstile-go/turnstile/bulkhead"
)

func TestMillionKeysTouchedOnceLeaveNothing(t *testing.T) {
	const keys = 1_000_000
	k := bulkhead.MustNewKeyed[string, int](bulkhead.Config{Name: "tenants", MaxConcurrent: 1}, nil)
	before := heapInUse()
	for i := range keys {
		if err := k.Run(t.Context(), strconv.Itoa(i), nop); err != nil {
			t.Fatal(err)
		}
	}
	if got := int64(heapInUse() - before); got > 32<<10 {
		t.Errorf("%d keys left %d B behind, want nothing", keys, got)
	}
	checkNoKeys(t, k)
	runtime.KeepAlive(k)
}

// A map that has grown stays so. The keys of a crowd must not cost memory for
// ever, even if some key is always in use.
func TestCrowdOfKeysLeavesNothing(t *testing.T) {
	const keys = 200_000
	k := bulkhead.MustNewKeyed[int, int](bulkhead.Config{Name: "tenants", MaxConcurrent: 1}, nil)
	always, _ := k.Acquire(t.Context(), -1)
	permits := make([]*bulkhead.Permit, keys)
	before := heapInUse()
	for i := range permits {
		permits[i], _ = k.Acquire(t.Context(), i)
	}
	if got := k.Len(); got != keys+1 {
		t.Errorf("%d keys in use, want %d", got, keys+1)
	}
	t.Logf("a key in use takes %d B, with its permit", int64(heapInUse()-before)/keys)
	for i, p := range permits {
		p.Release()
		permits[i] = nil
	}
	if got := int64(heapInUse() - before); got > 256<<10 {
		t.Errorf("%d keys at once left %d B behind, want next to nothing", keys, got)
	}
	if got := k.Len(); got != 1 {
		t.Errorf("%d keys in use, want 1", got)
	}
	if err := k.Run(t.Context(), -1, nop); err == nil {
		t.Error("the key that is always in use lost its limit")
	}
	ctx := t.Context()
	if got := testing.AllocsPerRun(100, func() { k.Run(ctx, 1, nop) }); got > 3 {
		t.Errorf("after the crowd, a call of a new key costs %v allocations, want at most 3", got)
	}
	always.Release()
	checkNoKeys(t, k)
	runtime.KeepAlive(permits)
}
