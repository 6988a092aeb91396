package bulkheadhttp

import (
	"fmt"
	"net/http"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// TransportOptions say how a [Transport] deals with its permits. The zero value
// has the defaults.
type TransportOptions struct {
	// UntilHeaders gives the permit back when the headers of the response have
	// arrived. The default is to hold it until the body is done, since until
	// then the server is busy with it. That is too long for bodies that take
	// their time by nature, such as a stream of events, which would use up the
	// limit while the server has little to do.
	UntilHeaders bool
}

// Transport is an [http.RoundTripper] that holds a permit of a bulkhead during
// each request, so that a client stops hammering a server that has become slow.
// It is made by [NewTransport] or [NewKeyedTransport], may be the Transport of
// any number of clients, and is safe for concurrent use.
//
// A request waits for its permit as the bulkhead says, and no longer than its
// context allows. If it gets none, no connection is made, its body is closed,
// and the error is the bulkhead's: a [bulkhead.RejectedError] or a
// [*bulkhead.CanceledError], unless a handle or a key has a weight, wait or limit
// that cannot be. The *url.Error of an [http.Client] wraps it:
//
//	resp, err := client.Get(url)
//	if errors.Is(err, bulkhead.ErrFull) {
//		// nothing was sent: shed the load, or try again later
//	}
//
// But once its Timeout has passed, a client may put an error of its own in the
// place of this one; a deadline in the request's context leaves it as it is.
//
// The permit goes back exactly once, at the first of these:
//
//   - the base fails, panics or calls runtime.Goexit;
//   - the headers have arrived and no body follows them, because it is empty
//     ([http.NoBody]), the method is HEAD, or the status is 204 or 304;
//   - the body was read to its end, failed, or is closed: before that Read or
//     Close returns;
//   - the request's context ends after the headers have arrived, whether or not
//     anybody reads: that ends the transfer, too.
//
// So a response's Body must be closed, as always; one that is forgotten keeps a
// permit, and its connection, until the context ends.
//
// After a status of 101 (Switching Protocols) the body is a connection that
// belongs to the caller. It is still an [io.Writer] if the base's body is one,
// and neither the end of what the server sends nor that of the context ends it:
// the permit goes back when it fails or is closed.
//
// Each hop of a redirect takes a permit of its own, after the one before it has
// given back its permit. What the base does on its own for one request, such as
// trying again on another connection, happens under one permit.
//
// Listeners hear of a request as of any call. It has failed with the error of
// the base or of the body; the status does not matter. Closing a body early is
// no failure: the caller has seen enough. A request whose context has ended
// before its response was complete is told as released, with the context's
// error. A listener's panic goes on out of the method that told it, RoundTrip,
// Read or Close; if it was the end of the context, there is nobody to tell, and
// it is dropped.
type Transport struct {
	acquire func(*http.Request) (*bulkhead.Permit, error)
	next    http.RoundTripper // nil for http.DefaultTransport
	opts    TransportOptions
}

// NewTransport returns a Transport whose requests take their permits from b and
// are then sent by base, or by what [http.DefaultTransport] is at that time if
// base is nil. It panics if b is nil.
//
// b may be a handle: [bulkhead.Waiting] makes requests wait longer than others,
// [bulkhead.Weighing] makes each count for several.
func NewTransport(b bulkhead.Any, base http.RoundTripper, opts TransportOptions) *Transport {
	refuseNil("NewTransport", b)
	acquire := func(r *http.Request) (*bulkhead.Permit, error) { return b.Acquire(r.Context()) }
	return &Transport{acquire, base, opts}
}

// RoundTrip sends the request with a permit held. See [Transport].
func (t *Transport) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	permit, err := t.permit(r)
	if err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // a panic or Goexit is on its way: the base's or a listener's
			permit.Panicked()
			discard(resp)
		}
	}()
	resp, err = t.send(r)
	switch {
	case err != nil:
		permit.Complete(outcome(r, err))
	case t.opts.UntilHeaders || !hasBody(r, resp):
		permit.Complete(nil)
	default:
		holdUntilDone(r, permit, resp)
	}
	returned = true
	return resp, err
}

// CloseIdleConnections does what the base's method of this name does, if it has
// one. It is what [http.Client.CloseIdleConnections] calls.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.next == nil {
		return http.DefaultTransport
	}
	return t.next
}

// permit obtains the permit for r. If there is none, it closes the body of r, as
// the base, which is not called then, would have done.
func (t *Transport) permit(r *http.Request) (p *bulkhead.Permit, err error) {
	defer func() {
		if p == nil && r.Body != nil { // after a listener's panic, too
			r.Body.Close()
		}
	}()
	return t.acquire(r)
}

// send lets the base send r. It takes care that there is a response or an error.
func (t *Transport) send(r *http.Request) (*http.Response, error) {
	base := t.base()
	resp, err := base.RoundTrip(r)
	if resp == nil && err == nil {
		err = fmt.Errorf("bulkheadhttp: the base, a %T, returned neither a response nor an error", base)
	}
	return resp, err
}

// discard closes the body of a response that nobody gets, if there is one.
func discard(resp *http.Response) {
	if resp != nil && resp.Body != nil {
		resp.Body.Close()
	}
}

// hasBody reports whether there is a body to wait for. A ContentLength of 0 alone
// does not say that there is none, as who makes responses by hand may leave it
// unset; but over HTTP/2 net/http sets it, and marks an empty body by nothing else.
func hasBody(r *http.Request, resp *http.Response) bool {
	switch {
	case resp.Body == nil, resp.Body == http.NoBody:
		return false
	case resp.ContentLength == 0 && resp.ProtoMajor == 2:
		return false
	case resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified:
		return false
	}
	return r.Method != http.MethodHead
}

// outcome returns what the bulkhead is to hear of r when its base or body has
// ended with err: once the context is done, that is why, whatever the base or the
// network made of it.
func outcome(r *http.Request, err error) error {
	ctx := r.Context()
	if timedOut(r) {
		select {
		case <-ctx.Done():
		case <-time.After(grace):
		}
	}
	if done := ctx.Err(); done != nil {
		return done
	}
	return err
}

// grace is how long a context may take to end once its deadline has passed. Most
// take no time. But one whose deadline is a time of day waits for it by another
// clock, and one that only names a deadline may never end.
const grace = time.Second

// timedOut reports whether the Timeout of an [http.Client] has passed, and with
// it the deadline of the context. The client tells a RoundTripper other than its
// own in two ways at that moment, and the base may have heard of it by Cancel
// before the context is done.
func timedOut(r *http.Request) bool {
	select {
	//lint:ignore SA1019 http.Client sets it
	case <-r.Cancel:
		deadline, ok := r.Context().Deadline()
		return ok && !time.Now().Before(deadline)
	default: // always, if there is no Cancel
		return false
	}
}
