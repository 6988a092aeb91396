package main

import (
	"context"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
)

// connect serves h inside a testing/synctest bubble and returns a client that
// reaches it, whatever the address. There is no network, so that time can be
// fake. Both are gone when the test ends.
func connect(t *testing.T, h http.HandlerFunc) *http.Client {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: h}
	go srv.Serve(l)
	client := newClient()
	transport := client.Transport.(*http.Transport)
	transport.DialContext = l.dial
	t.Cleanup(func() {
		synctest.Wait() // for connections to come to rest, as only those at rest are closed
		transport.CloseIdleConnections()
		srv.Shutdown(context.Background()) // once the handlers have returned
	})
	return client
}

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }
