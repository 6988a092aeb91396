package event

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Slog returns a listener that logs. Rejections come in spells, and a line for
// each would make an overload worse, so a bulkhead's first rejection is logged
// at Warn, and those after it are counted: while they go on, one line a second
// at Warn says how many they were, and for which reasons. A spell is over when a
// second has passed without a rejection. What is not told by then is told with
// the next event of that bulkhead, whichever it is, which may be much later: the
// line says when they were. So a bulkhead logs at most two such lines a second,
// however many calls it rejects.
//
// Everything else is logged at Debug, the rejections that are counted too. A
// level that the logger does not handle costs next to nothing.
//
// The bulkhead's name is the attribute "bulkhead", and tells spells apart. The
// seconds are those of the events' Time: nothing runs in the background. A
// Clock that goes back by a second or more ends a spell, too.
//
// It panics if logger is nil.
func Slog(logger *slog.Logger) Listener {
	if logger == nil {
		panic("event: Slog of a nil Logger")
	}
	l := &slogger{logger: logger, spells: map[string]*spell{}}
	return Listener{
		Permitted:    l.permitted,
		Rejected:     l.rejected,
		Canceled:     l.canceled,
		Finished:     l.finished,
		Released:     l.released,
		LimitChanged: l.limitChanged,
	}
}

// slogger is the listener that [Slog] returns.
type slogger struct {
	logger *slog.Logger

	// untold is how many bulkheads have rejections that no line has told. While
	// it is 0, which is nearly always, other events leave mu alone.
	untold atomic.Int64

	// mu guards spells. It is a leaf: lines are logged after it is unlocked,
	// since a handler may block, panic, or call the bulkhead.
	mu     sync.Mutex
	spells map[string]*spell // the last of each bulkhead
}

// spell is a series of rejections by one bulkhead, the next within a second.
type spell struct {
	line   time.Time // when it was last logged
	last   time.Time // its last rejection
	untold rejections
}

// rejections are those of a spell that no line has told.
type rejections struct {
	calls       int64
	by          [Closed + 1]int64 // reason
	first, last time.Time
}

// apart reports whether two times are a second or more apart. The later one may
// come first: by a little if two calls tell their events at once, and by a lot
// if a clock was set back, such as from one testing/synctest bubble to another,
// and then to wait for time to catch up could take for ever.
func apart(a, b time.Time) bool {
	d := b.Sub(a)
	return d >= time.Second || d <= -time.Second
}

// enter takes note of e, and reports whether it starts a spell, in which case it
// is not counted, as a line of its own will tell it. It returns what is due to
// be told before.
func (l *slogger) enter(e Rejected) (due rejections, starts bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.spells[e.Name]
	if !ok {
		s = new(spell)
		l.spells[e.Name] = s
	}
	starts = !ok || apart(s.last, e.Time)
	s.last = e.Time
	if starts {
		due = l.takeLocked(s)
		s.line = e.Time
		return due, true
	}
	u := &s.untold
	if u.calls == 0 {
		u.first = e.Time
		l.untold.Add(1)
	}
	u.last = e.Time
	u.calls++
	u.by[known(e.Reason, Closed)]++
	return l.dueLocked(s, e.Time), false
}

// dueLocked is takeLocked if a second has passed since s was logged.
func (l *slogger) dueLocked(s *spell, now time.Time) (due rejections) {
	if !apart(s.line, now) {
		return due
	}
	s.line = now
	return l.takeLocked(s)
}

// takeLocked takes what is to be told of s, if anything is.
func (l *slogger) takeLocked(s *spell) (due rejections) {
	if s.untold.calls != 0 {
		due, s.untold = s.untold, due
		l.untold.Add(-1)
	}
	return due
}

// debugs reports whether an event other than a rejection is to be logged, and
// reminds first.
func (l *slogger) debugs(ctx context.Context, name string, now time.Time) bool {
	l.remind(ctx, name, now)
	return l.logger.Enabled(ctx, slog.LevelDebug)
}

// remind logs what is due to be told of a bulkhead's rejections.
func (l *slogger) remind(ctx context.Context, name string, now time.Time) {
	if l.untold.Load() == 0 {
		return
	}
	var due rejections
	l.mu.Lock()
	if s := l.spells[name]; s != nil {
		due = l.dueLocked(s, now)
	}
	l.mu.Unlock()
	l.tell(ctx, name, due)
}

// tell logs rejections, if there are any.
func (l *slogger) tell(ctx context.Context, name string, r rejections) {
	if r.calls == 0 {
		return
	}
	attrs := []slog.Attr{slog.String("bulkhead", name), slog.Int64("calls", r.calls)}
	for reason, n := range r.by {
		if n != 0 {
			attrs = append(attrs, slog.Int64(Reason(reason).String(), n))
		}
	}
	attrs = append(attrs, slog.Time("first", r.first), slog.Time("last", r.last))
	l.logger.LogAttrs(ctx, slog.LevelWarn, "bulkhead calls rejected", attrs...)
}

func (l *slogger) rejected(ctx context.Context, e Rejected) {
	level := slog.LevelDebug
	if l.logger.Enabled(ctx, slog.LevelWarn) {
		due, starts := l.enter(e)
		l.tell(ctx, e.Name, due)
		if starts {
			level = slog.LevelWarn
		}
	}
	if l.logger.Enabled(ctx, level) {
		l.logger.LogAttrs(ctx, level, "bulkhead call rejected",
			slog.String("bulkhead", e.Name),
			slog.String("reason", e.Reason.String()),
			slog.Int64("weight", e.Weight),
			slog.Int64("limit", e.MaxConcurrent),
			slog.Duration("waited", e.Waited))
	}
}

func (l *slogger) permitted(ctx context.Context, e Permitted) {
	if l.debugs(ctx, e.Name, e.Time) {
		l.logger.LogAttrs(ctx, slog.LevelDebug, "bulkhead call permitted",
			slog.String("bulkhead", e.Name),
			slog.Int64("weight", e.Weight),
			slog.Int64("active", e.Active),
			slog.Duration("waited", e.Waited))
	}
}

func (l *slogger) canceled(ctx context.Context, e Canceled) {
	if l.debugs(ctx, e.Name, e.Time) {
		l.logger.LogAttrs(ctx, slog.LevelDebug, "bulkhead call canceled",
			slog.String("bulkhead", e.Name),
			slog.Int64("weight", e.Weight),
			slog.Duration("waited", e.Waited),
			errorAttr(e.Err))
	}
}

func (l *slogger) finished(ctx context.Context, e Finished) {
	if l.debugs(ctx, e.Name, e.Time) {
		l.logger.LogAttrs(ctx, slog.LevelDebug, "bulkhead call finished",
			slog.String("bulkhead", e.Name),
			slog.Int64("weight", e.Weight),
			slog.Int64("active", e.Active),
			slog.Duration("elapsed", e.Elapsed),
			slog.String("outcome", e.Outcome.String()),
			errorAttr(e.Err))
	}
}

func (l *slogger) released(ctx context.Context, e Released) {
	if l.debugs(ctx, e.Name, e.Time) {
		l.logger.LogAttrs(ctx, slog.LevelDebug, "bulkhead call released",
			slog.String("bulkhead", e.Name),
			slog.Int64("weight", e.Weight),
			slog.Int64("active", e.Active),
			slog.Duration("elapsed", e.Elapsed),
			errorAttr(e.Err))
	}
}

func (l *slogger) limitChanged(ctx context.Context, e LimitChanged) {
	if l.debugs(ctx, e.Name, e.Time) {
		l.logger.LogAttrs(ctx, slog.LevelDebug, "bulkhead limit changed",
			slog.String("bulkhead", e.Name),
			slog.Int64("from", e.From),
			slog.Int64("to", e.To))
	}
}

// errorAttr returns an attribute for err, or the empty one, which handlers leave
// out.
func errorAttr(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.Any("error", err)
}
