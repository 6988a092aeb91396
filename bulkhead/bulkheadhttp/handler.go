package bulkheadhttp

import (
	"net/http"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// NewHandler returns next guarded by b: a request goes on to next with a permit,
// for which it waits as long as b's MaxWait, or the handle, says. One that gets
// none is answered as opts say and does not reach next.
//
// Nor does one whose context ends while it waits. That its client has left is
// taken from a context canceled without a cause, as net/http does it; nobody
// reads the answer then, a bare status 499 for those who log. A deadline, or a
// context canceled with a cause, is the server's own doing, and the client is
// answered as one that is rejected.
//
// The permit comes back exactly once: when next has ended, be it by returning,
// by a panic, which goes on to the server as it is, or by runtime.Goexit; or
// before, by [ReleaseEarly]. So it is held while next reads the request's body
// and writes the response, as long as the client takes for that, and a server
// wants ReadTimeout and WriteTimeout, or ReleaseEarly. WriteTimeout runs while a
// request waits, too, so MaxWait should be well below it: once it has passed, no
// answer reaches the client, not even a refusal. Taking over the connection with
// http.Hijacker changes nothing: what counts is that next ends.
//
// next gets the ResponseWriter as it is, and a copy of the request with another
// context. What next notes in the copy is not there for those who come after, a
// ServeMux's path values for instance, but for Pattern and MultipartForm. To
// limit how long next may run, put http.TimeoutHandler around the result and not
// around next: it answers without waiting for what it wraps, whose permit would
// be free while the work goes on.
//
// Three things are up to net/http. Over HTTP/1 it notices that a client has left
// only once the request's body, if it has one, is read, so such a request keeps
// its place in the queue. It takes a client for one that has left, too, if that
// closes its side of the connection once the request is sent, as nc -N does: so
// this one may get a bare 499. And before a refusal is sent it reads what the
// client still has to send, if that is not too much; one that sends slowly holds
// no permit meanwhile, and a Reject that sets "Connection: close" does not wait
// for it.
//
// Listeners are told of the request's context. A request whose next returns is
// Finished with OK, whatever it answered and whether or not its client is still
// there, for a handler has no error to return. One whose next panics or calls
// runtime.Goexit is Finished with Panicked, http.ErrAbortHandler included.
//
// It panics if b or next is nil, or if an option is out of range. The result is
// safe for concurrent use if next and the options' functions are.
func NewHandler(b bulkhead.Any, next http.Handler, opts HandlerOptions) http.Handler {
	refuseNil("NewHandler", b)
	if next == nil {
		panic("bulkheadhttp: NewHandler with a nil handler")
	}
	return &handler{bulkhead: b, next: next, opts: opts, refusal: newRefusal(opts)}
}

type handler struct {
	bulkhead bulkhead.Any
	next     http.Handler
	opts     HandlerOptions
	refusal  refusal
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.opts.Skip != nil && h.opts.Skip(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	permit, err := h.handle(r).Acquire(r.Context())
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.serve(w, r, permit)
}

// handle returns what weighs r.
func (h *handler) handle(r *http.Request) bulkhead.Any {
	if h.opts.Weight == nil {
		return h.bulkhead
	}
	return bulkhead.Weighing(h.bulkhead, h.opts.Weight(r))
}

// serve lets next have the request. Three may want to end the permit: next when
// it returns, next when it panics, and ReleaseEarly from whatever goroutine has
// the context. The first counts, by the permit itself (release once).
func (h *handler) serve(w http.ResponseWriter, r *http.Request, permit *bulkhead.Permit) {
	guarded := r.WithContext(&guardedContext{r.Context(), permit})
	returned := false
	defer func() {
		if returned {
			permit.Complete(nil)
		} else {
			permit.Panicked()
		}
	}()
	defer keepNotes(r, guarded)
	h.next.ServeHTTP(w, guarded)
	returned = true
}

// keepNotes takes over what next wrote into its copy of the request: who comes
// after it reads the original. The server removes the temporary files of
// MultipartForm, and middleware logs the Pattern.
func keepNotes(r, guarded *http.Request) {
	if guarded.MultipartForm != r.MultipartForm {
		r.MultipartForm = guarded.MultipartForm
	}
	if guarded.Pattern != r.Pattern {
		r.Pattern = guarded.Pattern
	}
}
