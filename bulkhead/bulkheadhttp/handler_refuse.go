package bulkheadhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// statusClientLeft is what nginx logs for a request whose client did not wait
// for the answer.
const statusClientLeft = 499

// refuse answers a request that got no permit, because of err.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	_, rejected := errors.AsType[bulkhead.RejectedError](err)
	_, canceled := errors.AsType[*bulkhead.CanceledError](err)
	switch {
	case canceled && clientLeft(r):
		// Hardly anybody reads it. But nothing would be 200 to whoever logs.
		w.WriteHeader(statusClientLeft)
	case h.opts.Reject != nil:
		h.opts.Reject(w, r, err)
	case rejected || canceled:
		h.refusal.answer(w, err)
	default:
		logf(r, "bulkheadhttp: %v", err)
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	}
}

// clientLeft reports whether r's context, which is done, ended because there is
// no client any more: the server says so without a cause. A deadline is
// somebody's on this side, whose client still waits, and so is what ends with
// a cause, such as a shutdown by signal.NotifyContext.
func clientLeft(r *http.Request) bool {
	return context.Cause(r.Context()) == context.Canceled
}

// logf logs as the server does.
func logf(r *http.Request, format string, args ...any) {
	if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && srv.ErrorLog != nil {
		srv.ErrorLog.Printf(format, args...)
		return
	}
	log.Printf(format, args...)
}

// refusal is the answer to a request that the bulkhead has rejected.
type refusal struct {
	status     int
	retryAfter string // empty: no header
	body       string
}

// newRefusal makes it of the options, and panics if they are out of range.
func newRefusal(o HandlerOptions) refusal {
	f := refusal{status: cmp.Or(o.Status, http.StatusServiceUnavailable)}
	if f.status < 400 || f.status > 599 {
		panic(fmt.Sprintf("bulkheadhttp: HandlerOptions.Status is %d, want 400 to 599", f.status))
	}
	if o.RetryAfter >= 0 {
		f.retryAfter = seconds(cmp.Or(o.RetryAfter, time.Second))
	}
	f.body = cmp.Or(o.Body, http.StatusText(f.status))
	return f
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) string {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return strconv.FormatInt(s, 10)
}

func (f refusal) answer(w http.ResponseWriter, err error) {
	if f.retryAfter != "" && roomMayCome(err) {
		w.Header().Set("Retry-After", f.retryAfter)
	}
	http.Error(w, f.body, f.status)
}

// roomMayCome reports whether err says that there was no room when the request
// came, or for as long as it could wait: later there may be.
func roomMayCome(err error) bool {
	return errors.Is(err, bulkhead.ErrFull) || errors.Is(err, context.DeadlineExceeded)
}
