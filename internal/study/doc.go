// Package study holds programs that measure what Turnstile is for, and draw the
// pictures of it: what becomes of an overloaded service, and what calls cost that
// queue. See README.md. It is a module of its own, so that whoever imports
// Turnstile never downloads what draws.
package study
