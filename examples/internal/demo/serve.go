package demo

import (
	"context"
	"net"
	"net/http"
)

// Serve serves h on a free port of the loopback interface until stop, which
// returns when every request has been dealt with.
func Serve(h http.Handler) (url string, stop func(context.Context) error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: h}
	go srv.Serve(l) // returns once Shutdown is called
	return "http://" + l.Addr().String(), srv.Shutdown, nil
}
