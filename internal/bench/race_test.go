//go:build race

package bench

// underRace says that the race detector slows what benchmarks measure.
const underRace = true
