package bulkheadhttp

import (
	"net/http"
	"time"
)

// HandlerOptions say how [NewHandler] treats requests. The zero value answers
// those without a permit with 503 and asks them to come back in a second.
type HandlerOptions struct {
	// Status answers a request that the bulkhead has rejected, from 400 to 599.
	// 0 means 503, Service Unavailable; a server may prefer 429, Too Many
	// Requests.
	Status int

	// RetryAfter is when a rejected client may come back, in the header of that
	// name in whole seconds, rounded up. It goes to requests rejected for lack of
	// room: where waiting cannot help, because the request is too heavy or the
	// bulkhead closed, there is no such header. 0 means a second, and a negative
	// duration no header.
	RetryAfter time.Duration

	// Body is the text of the answer, sent as text/plain with a newline after it.
	// Empty means the text of the status.
	Body string

	// Reject, unless nil, answers instead. err is a bulkhead.RejectedError; or a
	// *bulkhead.CanceledError, if the request's context ended for another reason
	// than that its client left; or it says what is wrong with the weight or wait
	// that was asked for, which is answered with 500 otherwise. Not writing
	// anything is an answer too: an empty 200.
	Reject func(w http.ResponseWriter, r *http.Request, err error)

	// Skip, unless nil, reports whether a request goes on to the handler without
	// a permit, such as a health check.
	Skip func(*http.Request) bool

	// Weight, unless nil, returns how many permits a request holds. A weight
	// below 1 is a fault of the server's, answered with 500 and logged.
	Weight func(*http.Request) int64
}
