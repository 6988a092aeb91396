package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// Screen is where a program prints. On a terminal it has a line that shows
// progress; in a pipe or a file there is none.
type Screen struct {
	io.Writer
	Terminal bool
}

// NewScreen returns the screen behind f.
func NewScreen(f *os.File) Screen {
	info, err := f.Stat()
	return Screen{f, err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// Task returns a function that shows how many of the task's units, such as
// "pages", are done, until all of them are.
func (s Screen) Task(name, units string) (progress func(done, of int)) {
	if !s.Terminal {
		return func(done, of int) {}
	}
	const width = 20
	return func(done, of int) {
		bar := strings.Repeat("#", width*done/max(1, of))
		fmt.Fprintf(s, "\r%s: [%-*s] %d of %d %s done", name, width, bar, done, of, units)
		if done == of {
			fmt.Fprint(s, "\r\x1b[K") // erase the line
		}
	}
}
