package bench

import (
	"flag"
	"slices"
	"testing"
)

// A contender makes what is measured, of one implementation. Its name is the
// value of the impl key in benchmark names, of which benchstat -col /impl makes
// columns.
type contender[New any] struct {
	name string
	new  New
}

// rotate makes another contender the first of each row, so that over the runs
// none is favoured by its place: the first finds a clean heap, the last a warm
// processor.
var rotate = flag.Int("rotate", 0, "begin each row with the contender at this `position`, modulo their number")

// inTurn returns the contenders in the order of this run.
func inTurn[New any](cs []contender[New]) []contender[New] {
	first := *rotate % len(cs)
	return slices.Concat(cs[first:], cs[:first])
}

// run runs one row: the contenders one right after another, because noise of
// the machine that lasts longer than a row is the same for all of them and
// cancels in their ratio.
func run[New any](b *testing.B, cs []contender[New], f func(b *testing.B, construct New)) {
	for _, c := range inTurn(cs) {
		b.Run("impl="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			f(b, c.new)
		})
	}
}
