// Package repo holds the tests of what is true of the repository as a whole:
// its documentation, its imports and its go.mod.
package repo
