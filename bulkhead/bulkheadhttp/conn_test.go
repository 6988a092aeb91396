package bulkheadhttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadhttp"
	"github.com/turnstile-go/turnstile/event"
)

// echo switches protocols and sends back what it gets, line by line, until the
// client has written its last byte. Then it says good-bye.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "echo")
	w.WriteHeader(http.StatusSwitchingProtocols)
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer c.Close()
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			break
		}
		io.WriteString(c, line)
	}
	io.WriteString(c, "bye\n")
}

// dial asks for the protocol echo.
func dial(t *testing.T, ctx context.Context, client *http.Client, url string) (*http.Response, io.ReadWriteCloser) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "echo")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	c, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%s with a body of type %T, want a connection", resp.Status, resp.Body)
	}
	return resp, c
}

// say writes a line and fails the test unless it comes back.
func say(t *testing.T, c io.ReadWriteCloser, line string) {
	t.Helper()
	fmt.Fprintln(c, line)
	got := make([]byte, len(line)+1)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != line+"\n" {
		t.Errorf("read %q, %v, want %q", got, err, line)
	}
}

// A connection that has switched protocols holds its permit for its whole life
// (https://github.com/graphql-hive/router/issues/1335), which neither the end of
// the context nor that of reading ends.
func TestConnectionHoldsItsPermitUntilItIsClosed(t *testing.T) {
	rig := newRig(t, "HTTP/1.1", bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, echo)
	handshake, cancel := context.WithCancel(t.Context())
	_, c := dial(t, handshake, rig.client, rig.srv.URL)
	cancel() // as libraries for websockets do after the handshake
	say(t, c, "hello")
	rig.wantActive(1, "while the connection is open")
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(c); string(rest) != "bye\n" || err != nil {
		t.Errorf("read %q, %v, want bye", rest, err)
	}
	rig.wantActive(1, "after the server's last byte")
	c.Close()
	rig.wantActive(0, "after Close")
	c.Close()
	rig.wantEnds("ok")
}

func TestConnectionHoldsNoPermitAfterTheHeadersIfToldSo(t *testing.T) {
	rig := newRig(t, "HTTP/1.1", bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{UntilHeaders: true}, echo)
	for range 2 { // the first stays open
		_, c := dial(t, t.Context(), rig.client, rig.srv.URL)
		rig.wantActive(0, "while the connection is open")
		say(t, c, "hello")
		defer c.Close()
	}
	rig.wantEnds("ok", "ok")
}

// Even after the end of the context of the handshake, whose error it is not.
func TestConnectionThatFailsGivesThePermitBack(t *testing.T) {
	for what, fail := range map[string]func(io.ReadCloser) error{
		"in Read":  func(c io.ReadCloser) error { _, err := c.Read(nil); return err },
		"in Close": io.ReadCloser.Close,
	} {
		body := pipe{&fakeBody{
			read:  func([]byte) (int, error) { return 0, errBoom },
			close: func() error { return errBoom },
		}}
		rig := newFakeRig(switching(body), bulkheadhttp.TransportOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		resp, err := rig.RoundTrip(newRequest(ctx, nil))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := fail(resp.Body); err != errBoom {
			t.Errorf("%s: got %v, want boom", what, err)
		}
		rig.wantEnd(t, "failed", errBoom)
	}
}

// pipe is a body that can be written to, and has no CloseWrite.
type pipe struct{ *fakeBody }

func (pipe) Write(p []byte) (int, error) { return len(p), nil }

func switching(body io.ReadCloser) tripper {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: body}, nil
	}
}

func TestBodyIsAWriterOnlyIfTheBasesIsOne(t *testing.T) {
	for _, tc := range []struct {
		reason string
		base   tripper
		want   bool
	}{
		{"a connection", switching(pipe{new(fakeBody)}), true},
		{"a status that promises one and a body that is none", switching(new(fakeBody)), false},
		{"a body that could be one, of an ordinary response", okWith(pipe{new(fakeBody)}), false},
	} {
		rig := newFakeRig(tc.base, bulkheadhttp.TransportOptions{})
		resp, err := rig.RoundTrip(newRequest(t.Context(), nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := resp.Body.(io.Writer); ok != tc.want {
			t.Errorf("%s: is a Writer %v, want %v", tc.reason, ok, tc.want)
		}
		if !tc.want {
			io.ReadAll(resp.Body) // ends it, as it does not a connection
		} else if err := resp.Body.(interface{ CloseWrite() error }).CloseWrite(); err == nil ||
			err.Error() != "CloseWrite: feature not supported" {
			t.Errorf("CloseWrite of a connection that has none = %v, want not supported", err)
		} else {
			resp.Body.Close()
		}
		rig.wantEnd(t, "ok", nil)
	}
}

// A reverse proxy that sends its requests through the transport passes upgraded
// connections on, one direction after the other.
func TestReverseProxyPassesConnectionsOn(t *testing.T) {
	rig := newRig(t, "HTTP/1.1", bulkhead.Config{MaxConcurrent: 1}, bulkheadhttp.TransportOptions{}, echo)
	target, err := url.Parse(rig.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: rig.transport,
	})
	t.Cleanup(front.Close)

	c, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: front\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("got %v, %v, want status 101", resp, err)
	}
	say(t, struct {
		io.Reader
		io.WriteCloser
	}{in, c}, "hello")
	rig.wantActive(1, "while the connection is open")
	c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(in); string(rest) != "bye\n" || err != nil {
		t.Errorf("read %q, %v, want bye", rest, err)
	}
	rig.tape.wait(t, 1, event.KindFinished)
	rig.wantActive(0, "after the connection was closed")
}
