// Package bench puts the same work over Turnstile and its peers, so that the
// ratios between them come from one run on one machine. It is a module of its
// own: whoever imports Turnstile never downloads the peers.
//
// The package holds nothing but benchmarks and the tests of their harness; see
// README.md for what each measures and how to read the results.
package bench
