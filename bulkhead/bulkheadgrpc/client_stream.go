package bulkheadgrpc

import (
	"context"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// clientStream is a stream that holds a permit until it ends. Its user, its
// context and its connection may end it, at the same time; the first counts
// (release once).
//
// gRPC has a call option for this, OnFinish, and alone it would do, but for an
// interceptor further in that tries again: then gRPC finishes one stream after
// another, and only what the user sees of them says that it was the last.
type clientStream struct {
	grpc.ClientStream

	ctx      context.Context // the call's
	conn     *grpc.ClientConn
	permit   *bulkhead.Permit
	oneReply bool // the server sends one message, after which nothing comes

	// unwatch ends the watch on ctx. It is set before watch looks at ended, and
	// end sets ended before it looks at unwatch: one sees the other, so nothing
	// stays behind in ctx. So it is with unfollow and conn.
	unwatch  atomic.Pointer[func() bool]
	unfollow atomic.Pointer[context.CancelFunc]
	ended    atomic.Bool
}

// open opens the stream by start, and returns s unless that fails.
func (s *clientStream) open(start func() (grpc.ClientStream, error)) (grpc.ClientStream, error) {
	returned := false
	defer func() {
		if !returned {
			s.permit.Panicked()
		}
	}()
	stream, err := start()
	if err == nil {
		s.ClientStream = stream
		s.watch()
	}
	returned = true
	if s.ClientStream == nil {
		s.end(err)
		return stream, err
	}
	return s, nil
}

// RecvMsg receives a message. An error ends the stream, and so does the only
// message that the server sends.
func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == io.EOF:
		s.end(nil)
	case err != nil || s.oneReply:
		s.end(err)
	}
	return err
}

// SendMsg sends a message. An error ends the stream, but io.EOF says only that
// RecvMsg has one.
func (s *clientStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	s.endIfBroken(err)
	return err
}

// Header waits for the server's headers. An error ends the stream. Without
// either, gRPC has finished it, and RecvMsg knows why.
func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	s.endIfBroken(err)
	if md == nil && err == nil && s.conn != nil {
		go s.follow(status.Error(codes.Canceled, "the connection is closed"))
	}
	return md, err
}

func (s *clientStream) endIfBroken(err error) {
	if err != nil && err != io.EOF {
		s.end(err)
	}
}

// watch lets the end of ctx end the stream.
func (s *clientStream) watch() {
	if s.ctx.Done() == nil {
		return // it cannot end, and would be watched for nothing
	}
	unwatch := context.AfterFunc(s.ctx, func() {
		aside(func() {
			defer s.permit.Release() // if ctx's Err panics
			s.end(s.ctx.Err())
		})
	})
	s.unwatch.Store(&unwatch)
	if s.ended.Load() {
		unwatch()
	}
}

// untilClosed returns a call option by which the end of the connection ends the
// stream. gRPC then finishes what is open, whoever uses it, and no interceptor
// can try again.
//
// What a timeout has ended before, be it of the service config or of an
// interceptor further in, gRPC does not finish again. If nobody receives, and so
// learns of it, the connection is all that is left to end the stream.
func (s *clientStream) untilClosed() grpc.CallOption {
	return grpc.OnFinish(func(err error) {
		code := status.Code(err)
		if code == codes.Canceled || code == codes.DeadlineExceeded || s.conn.GetState() == connectivity.Shutdown {
			go s.follow(err) // not on gRPC's goroutine, as a listener may block
		}
	})
}

// follow ends the stream with err when the connection is closed, if it has not
// ended until then.
func (s *clientStream) follow(err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if !s.unfollow.CompareAndSwap(nil, &cancel) {
		return // it is followed already
	}
	for state := s.conn.GetState(); !s.ended.Load(); state = s.conn.GetState() {
		if state == connectivity.Shutdown {
			aside(func() { s.end(err) })
			return
		}
		s.conn.WaitForStateChange(ctx, state)
	}
}

// end gives the permit back, unless it is, and leaves nothing behind in ctx.
func (s *clientStream) end(err error) {
	defer s.permit.Release() // if a method of ctx or err panics
	s.ended.Store(true)
	if unwatch := s.unwatch.Load(); unwatch != nil {
		(*unwatch)()
	}
	if unfollow := s.unfollow.Load(); unfollow != nil {
		(*unfollow)()
	}
	s.permit.Complete(outcome(s.ctx, err))
}

// aside calls f on a goroutine that nobody waits for.
func aside(f func()) {
	defer func() { _ = recover() }() // a listener's, or ctx's: there is nobody to tell
	f()
}
