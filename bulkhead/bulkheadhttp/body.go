package bulkheadhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// body is the body of a response, and holds the permit of its request until it
// is done. Three may end that: a Read that meets the end or fails, Close, and
// the end of the request's context. They may come at the same time; the
// permit's first Complete counts (release once), and the others find nothing to
// do.
type body struct {
	io.ReadCloser // the base's

	permit  *bulkhead.Permit
	request *http.Request

	// unwatch ends the watch on the request's context; nil if there is none. It
	// is set before anybody has the body but the watch itself, which has no use
	// for it.
	unwatch func() bool

	// closed is set before the base's body is closed. A Read that fails from
	// then on does so because of that, which is no failure of the request's.
	closed atomic.Bool
}

// holdUntilDone lets the body of resp hold the permit. It changes resp itself,
// since at the end of the body the base sets Trailer in the response it made,
// and a copy would not have it.
func holdUntilDone(r *http.Request, permit *bulkhead.Permit, resp *http.Response) {
	b := &body{ReadCloser: resp.Body, permit: permit, request: r}
	if w, ok := resp.Body.(io.Writer); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = conn{b, w}
		return
	}
	resp.Body = b
	if ctx := r.Context(); ctx.Done() != nil { // or it cannot end, and would be watched for nothing
		b.unwatch = context.AfterFunc(ctx, b.canceled)
	}
}

// Read reads from the base's body.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		b.end(nil)
	case !b.closed.Load():
		b.endBy(err)
	}
	return n, err
}

// Close closes the base's body and then gives the permit back.
func (b *body) Close() error {
	err := b.closeBase()
	b.endBy(err)
	return err
}

// closeBase closes the base's body. If that panics, it gives the permit back.
func (b *body) closeBase() error {
	returned := false
	defer func() {
		if !returned {
			b.permit.Panicked()
			b.stopWatch()
		}
	}()
	b.closed.Store(true)
	err := b.ReadCloser.Close()
	returned = true
	return err
}

// canceled gives the permit back when the context has ended. It runs on a
// goroutine of its own.
func (b *body) canceled() {
	defer func() { _ = recover() }() // a listener's: there is nobody to tell
	defer b.permit.Panicked()        // or the context's
	b.permit.Complete(b.request.Context().Err())
}

// endBy is end with what the base's body has said, unless it said so because the
// context ended.
func (b *body) endBy(err error) {
	defer b.permit.Panicked() // as in end
	b.end(outcome(b.request, err))
}

// end gives the permit back, unless it is, and leaves nothing behind in the
// context. It is back even if a method of the context panics, which is somebody
// else's code.
func (b *body) end(err error) {
	defer b.permit.Panicked() // nothing is left to do for it otherwise
	b.stopWatch()
	b.permit.Complete(err)
}

func (b *body) stopWatch() {
	if b.unwatch != nil {
		b.unwatch()
	}
}

// conn is the body of a response that has switched protocols: a connection that
// is the caller's from now on. What ends a response does not end it: net/http
// does not close it when the context ends, and after the server has sent its last
// byte the caller may go on writing. So the context is not watched, and the end
// of reading gives nothing back.
type conn struct {
	*body
	io.Writer // the base's body
}

// Read reads from the connection.
func (c conn) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && err != io.EOF && !c.closed.Load() {
		c.end(err)
	}
	return n, err
}

// Close closes the connection and then gives the permit back.
func (c conn) Close() error {
	err := c.closeBase()
	c.end(err)
	return err
}

// CloseWrite says that the caller has written its last byte, as the body of an
// [http.Transport] does; a reverse proxy asks for it.
func (c conn) CloseWrite() error {
	if w, ok := c.Writer.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return fmt.Errorf("CloseWrite: %w", http.ErrNotSupported)
}
