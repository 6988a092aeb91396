package proptest

import (
	"math/rand/v2"
	"testing"

	"github.com/turnstile-go/turnstile/semaphore"
	"pgregory.net/rapid"
)

// FuzzCheck plays scripts that are drawn from the input, as Check does from
// random numbers. Its first byte chooses the kind of semaphore.
func FuzzCheck(f *testing.F) {
	configs := []semaphore.Config{{}, {MaxWaiters: 2}, {Unfair: true}, {Unfair: true, MaxWaiters: 2}}
	for i := range configs {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		input := []byte{byte(i)}
		for range 8192 { // enough for most scripts; a script cut short counts as none
			input = append(input, byte(rng.Uint32()))
		}
		f.Add(input)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		if len(input) == 0 {
			return
		}
		cfg := configs[int(input[0])%len(configs)]
		c := newProperty(t, func(limit int64) Semaphore {
			cfg.Limit = limit
			s, err := semaphore.New(cfg)
			if err != nil {
				panic(err)
			}
			return s
		}, Options{MaxWaiters: cfg.MaxWaiters, Unfair: cfg.Unfair})
		defer c.report()
		rapid.MakeFuzz(c.check)(t, input[1:])
	})
}
