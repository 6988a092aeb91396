package main

import (
	"fmt"
	"io"
	"os"
)

// screen is where the program prints. On a terminal it has a line that shows
// progress; in a pipe or a file there is none.
type screen struct {
	io.Writer
	terminal bool
}

func newScreen(f *os.File) screen {
	info, err := f.Stat()
	return screen{f, err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// task returns a function that shows how many requests of the task are done,
// until all of them are.
func (s screen) task(name string) (progress func(done, of int)) {
	if !s.terminal {
		return func(done, of int) {}
	}
	return func(done, of int) {
		fmt.Fprintf(s, "\r%s: %d of %d requests done", name, done, of)
		if done == of {
			fmt.Fprint(s, "\r\x1b[K") // erase the line
		}
	}
}
