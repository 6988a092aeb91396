// Package demo is what the examples have in common besides the library.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// timeLimit is for a whole program, which takes a few seconds.
const timeLimit = 20 * time.Second

// Run runs the program of that name and returns its exit status, 1 if it ends
// with an error. The program's context ends with ctx, or when it takes too long.
func Run(ctx context.Context, name string, stderr io.Writer, program func(context.Context) error) int {
	ctx, cancel := context.WithTimeoutCause(ctx, timeLimit, errors.New("not done within "+timeLimit.String()))
	defer cancel()
	if err := program(ctx); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
