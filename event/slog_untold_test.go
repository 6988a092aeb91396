package event

import (
	"io"
	"log/slog"
	"testing"
	"time"
)

// Once everything is told, events of calls that go well leave the mutex alone.
func TestSlogReturnsToTheFastPath(t *testing.T) {
	l := &slogger{logger: slog.New(slog.NewTextHandler(io.Discard, nil)), spells: map[string]*spell{}}
	start := time.Now()
	for _, name := range []string{"db", "mail"} {
		l.rejected(t.Context(), Rejected{Time: start, Name: name})
		l.rejected(t.Context(), Rejected{Time: start, Name: name})
		l.rejected(t.Context(), Rejected{Time: start, Name: name})
	}
	if got := l.untold.Load(); got != 2 {
		t.Errorf("%d bulkheads have something to tell, want 2", got)
	}
	for _, name := range []string{"db", "mail"} {
		l.permitted(t.Context(), Permitted{Time: start.Add(time.Second), Name: name})
	}
	if got := l.untold.Load(); got != 0 {
		t.Errorf("when all is told, %d bulkheads have something to tell, want none", got)
	}
}
