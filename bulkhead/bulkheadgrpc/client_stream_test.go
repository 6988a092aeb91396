package bulkheadgrpc_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
	"github.com/turnstile-go/turnstile/event"
)

var errBoom = errors.New("boom")

// fakeStream is a stream whose every method returns err.
type fakeStream struct {
	grpc.ClientStream
	err error
}

func (s *fakeStream) Header() (metadata.MD, error) { return nil, s.err }
func (s *fakeStream) SendMsg(any) error            { return s.err }
func (s *fakeStream) RecvMsg(any) error            { return s.err }
func (s *fakeStream) CloseSend() error             { return s.err }
func (s *fakeStream) Context() context.Context     { return nil }
func (s *fakeStream) Trailer() metadata.MD         { return nil }

// openFake opens, through the bulkhead of s, a stream of the kind that desc
// says, by streamer.
func openFake(ctx context.Context, s *side, desc *grpc.StreamDesc, cc *grpc.ClientConn, streamer grpc.Streamer) (grpc.ClientStream, error) {
	return bulkheadgrpc.StreamClientInterceptor(s, bulkheadgrpc.Options{})(ctx, desc, cc, methodOf(desc), streamer)
}

// always returns what opens that stream.
func always(stream grpc.ClientStream, err error) grpc.Streamer {
	return func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
		return stream, err
	}
}

// Which answers of which methods end a stream is up to what gRPC's documentation
// says, whether or not its own streams give them.
func TestMethodsThatEndAStream(t *testing.T) {
	header := func(s grpc.ClientStream) { s.Header() }
	send := func(s grpc.ClientStream) { s.SendMsg(nil) }
	recv := func(s grpc.ClientStream) { s.RecvMsg(nil) }
	rest := func(s grpc.ClientStream) { s.CloseSend(); s.Context(); s.Trailer() }
	for _, tc := range []struct {
		reason string
		kind   string
		call   func(grpc.ClientStream)
		err    error
		want   string // empty: it goes on
	}{
		{"Header fails", both, header, errBoom, "failed"},
		{"Header knows nothing", both, header, nil, ""},
		{"Header finds the end", both, header, io.EOF, ""},
		{"SendMsg fails", both, send, errBoom, "failed"},
		{"SendMsg succeeds", both, send, nil, ""},
		{"SendMsg finds the end", both, send, io.EOF, ""},
		{"RecvMsg fails", both, recv, errBoom, "failed"},
		{"RecvMsg fails", upload, recv, errBoom, "failed"},
		{"RecvMsg finds the end", both, recv, io.EOF, "ok"},
		{"RecvMsg has one of many", both, recv, nil, ""},
		{"RecvMsg has one of many", download, recv, nil, ""},
		{"RecvMsg has the only one", upload, recv, nil, "ok"},
		{"what cannot fail fails", both, rest, errBoom, ""},
	} {
		t.Run(tc.reason+"/"+tc.kind, func(t *testing.T) {
			s := newSide("client", bulkhead.Config{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := openFake(ctx, s, kinds[tc.kind], nil, always(&fakeStream{err: tc.err}, nil))
			if err != nil {
				t.Fatal(err)
			}
			tc.call(stream)
			if tc.want == "" {
				s.wantActive(t, 1)
				cancel()
				s.wantEnd(t, "released")
			} else {
				s.wantActive(t, 0)
				s.wantEnd(t, tc.want)
				tc.call(stream) // again changes nothing
				cancel()
			}
			s.wantRest(t, 1)
		})
	}
}

func TestStreamThatDoesNotOpenHoldsNothing(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	for _, tc := range []struct {
		reason   string
		ctx      context.Context
		streamer grpc.Streamer
		err      error
		want     string
	}{
		{"it fails", t.Context(), always(nil, errBoom), errBoom, "failed"},
		{"it is canceled", canceled, func(ctx context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			cancel()
			return nil, errStatusCanceled
		}, errStatusCanceled, "released"},
		{"there is neither a stream nor an error", t.Context(), always(nil, nil), nil, "ok"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := newSide("client", bulkhead.Config{})
			stream, err := openFake(tc.ctx, s, kinds[both], nil, tc.streamer)
			if stream != nil || err != tc.err {
				t.Errorf("got %v, %v, want no stream, %v", stream, err, tc.err)
			}
			s.wantEnd(t, tc.want)
			s.wantRest(t, 1)
		})
	}
}

var errStatusCanceled = status.Error(codes.Canceled, "context canceled")

// On a connection that is closed, gRPC tells of the failure twice: to whoever
// opens the stream, and by OnFinish.
func TestStreamDoesNotOpenOnAClosedConnection(t *testing.T) {
	s := newSite(t, answering(nil), siteConfig{})
	s.conn.Close()
	_, err := s.open(t.Context(), kinds[both])
	wantCode(t, "open", err, codes.Canceled)
	s.client.wantEnd(t, "failed")
	s.client.wantRest(t, 1)
}

func TestPanicWhileOpeningAStreamFreesThePermit(t *testing.T) {
	for reason, leave := range map[string]func(){
		"panic":  func() { panic("boom") },
		"goexit": runtime.Goexit,
	} {
		t.Run(reason, func(t *testing.T) {
			s := newSide("client", bulkhead.Config{Listener: event.Listener{
				Finished: func(context.Context, event.Finished) { panic("a listener's, which must not replace it") },
			}})
			recovered := make(chan any, 1)
			go func() {
				defer func() { recovered <- recover() }()
				openFake(t.Context(), s, kinds[both], nil,
					func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
						leave()
						return nil, nil
					})
			}()
			if got := receive(t, "the goroutine to end", recovered); got != nil && got != "boom" {
				t.Errorf("recovered %v, want boom", got)
			}
			s.wantEnd(t, "panicked")
			s.wantRest(t, 1)
		})
	}
}

func TestStreamWithoutADescriptionCostsNoPermit(t *testing.T) {
	s := newSide("client", bulkhead.Config{})
	intercept := bulkheadgrpc.StreamClientInterceptor(s, bulkheadgrpc.Options{})
	if panicOf(func() { intercept(t.Context(), nil, nil, unaryMethod, always(&fakeStream{}, nil)) }) == nil {
		t.Error("no panic, want one")
	}
	s.wantRest(t, 0)
}

// A listener's panic goes to whoever ended the stream, and costs no permit. When
// that is nobody's call, it must not end the process.
func TestListenersPanicAtTheEndOfAStream(t *testing.T) {
	newPanicking := func() *side {
		var once sync.Once
		tell := func() { once.Do(func() { panic("listener") }) }
		return newSide("client", bulkhead.Config{Listener: event.Listener{
			Finished: func(context.Context, event.Finished) { tell() },
			Released: func(context.Context, event.Released) { tell() },
		}})
	}
	t.Run("RecvMsg", func(t *testing.T) {
		s := newPanicking()
		stream, err := openFake(t.Context(), s, kinds[both], nil, always(&fakeStream{err: io.EOF}, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := panicOf(func() { stream.RecvMsg(nil) }); got != "listener" {
			t.Errorf("RecvMsg: panic %v, want the listener's", got)
		}
		s.wantEnd(t, "ok")
		s.wantRest(t, 1)
	})
	t.Run("the context", func(t *testing.T) {
		s := newPanicking()
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := openFake(ctx, s, kinds[both], nil, always(&fakeStream{}, nil)); err != nil {
			t.Fatal(err)
		}
		cancel()
		s.wantEnd(t, "released")
		s.wantRest(t, 1)
	})
}

func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

// errHostile is an error that cannot be looked into.
type errHostile struct{ error }

func (errHostile) Unwrap() error { panic("hostile") }

func TestHostileErrorCostsNoPermit(t *testing.T) {
	hostile := errHostile{errBoom}
	t.Run("stream", func(t *testing.T) {
		s := newSide("client", bulkhead.Config{})
		stream, err := openFake(t.Context(), s, kinds[both], nil, always(&fakeStream{err: hostile}, nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := panicOf(func() { stream.RecvMsg(nil) }); got != "hostile" {
			t.Errorf("RecvMsg: panic %v, want the error's", got)
		}
		s.wantRest(t, 1)
	})
	t.Run("unary", func(t *testing.T) {
		s := newSide("server", bulkhead.Config{})
		intercept := bulkheadgrpc.UnaryServerInterceptor(s, bulkheadgrpc.Options{})
		handler := func(context.Context, any) (any, error) { return nil, hostile }
		if got := panicOf(func() { intercept(t.Context(), nil, info, handler) }); got != "hostile" {
			t.Errorf("the call: panic %v, want the error's", got)
		}
		s.wantRest(t, 1)
	})
}

// errPanics is a context whose Err panics once it is done.
type errPanics struct{ context.Context }

func (c errPanics) Err() error {
	if c.Context.Err() != nil {
		panic("hostile")
	}
	return nil
}

func TestHostileContextCostsNoPermit(t *testing.T) {
	s := newSide("client", bulkhead.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := openFake(errPanics{ctx}, s, kinds[both], nil, always(&fakeStream{}, nil)); err != nil {
		t.Fatal(err)
	}
	cancel()
	s.wantEnd(t, "released")
	s.wantRest(t, 1)
}

// watched is a context that knows how many watch it.
type watched struct {
	context.Context // for Deadline
	done            chan struct{}
	watchers        atomic.Int64
	onWatch         func() // called when somebody is about to watch
}

func newWatched() *watched {
	return &watched{Context: context.Background(), done: make(chan struct{}), onWatch: func() {}}
}

func (w *watched) Done() <-chan struct{} { return w.done }
func (w *watched) Err() error            { return nil }
func (w *watched) Value(any) any         { return nil }

func (w *watched) AfterFunc(func()) (stop func() bool) {
	w.onWatch()
	w.watchers.Add(1)
	return func() bool { w.watchers.Add(-1); return true }
}

func TestEndedStreamLeavesNothingInItsContext(t *testing.T) {
	s := newSide("client", bulkhead.Config{})
	ctx := newWatched()
	stream, err := openFake(ctx, s, kinds[both], nil, always(&fakeStream{err: io.EOF}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := ctx.watchers.Load(); got != 1 {
		t.Errorf("%d watch the context of an open stream, want 1", got)
	}
	stream.RecvMsg(nil)
	if got := ctx.watchers.Load(); got != 0 {
		t.Errorf("%d watch the context of a stream that has ended, want none", got)
	}
}

// The connection is closed at the very moment when the context is about to be
// watched.
func TestStreamThatEndsWhileItOpensLeavesNothingInItsContext(t *testing.T) {
	conn, err := grpc.NewClient("passthrough:///nowhere", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	s := newSide("client", bulkhead.Config{})
	var onFinish func(error)
	ctx := newWatched()
	ctx.onWatch = func() {
		onFinish(errBoom)
		s.wantEnd(t, "failed")
	}
	_, err = openFake(ctx, s, kinds[both], conn,
		func(_ context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			onFinish = opts[0].(grpc.OnFinishCallOption).OnFinish
			return &fakeStream{}, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if got := ctx.watchers.Load(); got != 0 {
		t.Errorf("%d watch the context of a stream that has ended, want none", got)
	}
	s.wantRest(t, 1)
}

// Closing the connection is one of the ways that gRPC gives to be done with a
// stream, also with one that it has finished before without anybody receiving.
func TestConnectionClosesWhatNobodyReceivedTheEndOf(t *testing.T) {
	for reason, tc := range map[string]struct {
		handler func(context.Context) error
		config  string
		use     func(*testing.T, *site, grpc.ClientStream)
	}{
		"a timeout of the service config": {
			untilDone, `{"methodConfig": [{"name": [{}], "timeout": "0.01s"}]}`,
			func(*testing.T, *site, grpc.ClientStream) {},
		},
		"no headers": {
			func(context.Context) error { return errBoom }, `{}`,
			func(t *testing.T, _ *site, stream grpc.ClientStream) {
				for range 2 {
					if md, err := stream.Header(); md != nil || err != nil {
						t.Errorf("Header = %v, %v, want neither", md, err)
					}
				}
			},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			finished := make(chan error, 1)
			s := newSite(t, answering(tc.handler), siteConfig{grpcClient: []grpc.DialOption{
				grpc.WithDefaultServiceConfig(tc.config),
				grpc.WithDefaultCallOptions(grpc.OnFinish(func(err error) { finished <- err })),
			}})
			stream, err := s.open(context.Background(), kinds[both])
			if err != nil {
				t.Fatal(err)
			}
			tc.use(t, s, stream)
			if err := receive(t, "gRPC to finish the stream", finished); err == nil {
				t.Error("gRPC finished the stream without an error")
			}
			s.client.wantActive(t, 1)
			s.conn.Close()
			s.client.wantEnd(t, "failed")
			s.client.wantRest(t, 1)
		})
	}
}

// What follows the connection is gone when the stream has ended.
func TestEndedStreamDoesNotFollowItsConnection(t *testing.T) {
	const streams = 20
	wide := bulkhead.Config{MaxConcurrent: streams}
	s := newSite(t, answering(func(context.Context) error { return errBoom }), siteConfig{client: wide, server: wide})
	following := func() int {
		stacks := make([]byte, 1<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "clientStream).follow(")
	}
	var opened []grpc.ClientStream
	for range streams {
		stream, err := s.open(context.Background(), kinds[both])
		if err != nil {
			t.Fatal(err)
		}
		stream.Header()
		opened = append(opened, stream)
	}
	await(t, "streams to follow the connection", func() bool { return following() == streams })
	for _, stream := range opened {
		wantCode(t, "RecvMsg", stream.RecvMsg(new(text)), codes.Unknown)
		stream.Header() // that again changes nothing
	}
	await(t, "them to stop", func() bool { return following() == 0 })
	s.client.wantRest(t, streams)
}

// The caller's options may be a part of a longer slice, and in use elsewhere.
func TestCallOptionsOfTheCallerAreNotOverwritten(t *testing.T) {
	s := newSide("client", bulkhead.Config{})
	opts := []grpc.CallOption{grpc.WaitForReady(true), grpc.StaticMethod()}
	want := opts[1]
	var got []grpc.CallOption
	_, err := bulkheadgrpc.StreamClientInterceptor(s, bulkheadgrpc.Options{})(t.Context(), kinds[both], nil, "/a/b",
		func(_ context.Context, _ *grpc.StreamDesc, _ *grpc.ClientConn, _ string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			got = opts
			return nil, errBoom
		}, opts[:1]...)
	if err != errBoom || opts[1] != want || len(got) != 2 || got[0] != opts[0] {
		t.Errorf("the caller's options are %v, passed on are %v, error %v", opts, got, err)
	}
}

// retrying is an interceptor that opens another stream when one has failed, as
// those of go-grpc-middleware do.
func retrying(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	open := func() (grpc.ClientStream, error) { return streamer(ctx, desc, cc, method, opts...) }
	stream, err := open()
	return &retryingStream{stream, open}, err
}

type retryingStream struct {
	grpc.ClientStream
	open func() (grpc.ClientStream, error)
}

func (s *retryingStream) RecvMsg(m any) error {
	for {
		err := s.ClientStream.RecvMsg(m)
		if status.Code(err) != codes.Unavailable {
			return err
		}
		if s.ClientStream, err = s.open(); err != nil {
			return err
		}
	}
}

// All tries count as one stream, whose permit goes from the first to the last.
func TestStreamThatIsTriedAgainKeepsItsPermit(t *testing.T) {
	var tries atomic.Int64
	let, last := make(chan struct{}), make(chan struct{})
	s := newSite(t, &service{stream: func(stream grpc.ServerStream) error {
		if tries.Add(1) < 3 {
			return status.Error(codes.Unavailable, "try again")
		}
		close(last)
		<-let
		return replies(nil, stream)
	}}, siteConfig{inner: retrying})
	stream, err := s.open(t.Context(), kinds[both])
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan error, 1)
	go func() { received <- stream.RecvMsg(new(text)) }()
	receive(t, "the last try", last)
	s.client.wantActive(t, 1)
	close(let)
	wantCode(t, "RecvMsg", receive(t, "a message", received), codes.OK)
	s.client.wantActive(t, 1)
	if err := stream.RecvMsg(new(text)); err != io.EOF {
		t.Errorf("RecvMsg = %v, want io.EOF", err)
	}
	s.client.wantEnd(t, "ok")
	s.client.wantRest(t, 1)
	s.server.wantRest(t, 3)
}

// Whoever ends a stream, and however many do at once, its permit comes back
// once.
func TestManyEndsOfAStreamAreOne(t *testing.T) {
	const rounds = 50
	s := newSite(t, &service{stream: func(stream grpc.ServerStream) error {
		return stream.RecvMsg(new(text))
	}}, siteConfig{client: bulkhead.Config{MaxConcurrent: 2}, server: bulkhead.Config{MaxConcurrent: rounds}})
	for range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := s.open(ctx, kinds[both])
		if err != nil {
			t.Fatal(err)
		}
		var ends sync.WaitGroup
		ends.Go(cancel)
		ends.Go(func() { stream.CloseSend(); stream.RecvMsg(new(text)) })
		ends.Go(func() { stream.Header() })
		ends.Wait()
		receive(t, "the end of the stream", s.client.ends)
	}
	for range rounds {
		receive(t, "the end of the handler", s.server.ends)
	}
	s.client.wantRest(t, rounds)
	s.server.wantRest(t, rounds)
}

// The context's end and a Recv that fails because of it are two ends at once.
// Whichever comes first, after Recv the next stream finds the permit.
func TestPermitIsBackWhenRecvMsgReturns(t *testing.T) {
	s := newSide("client", bulkhead.Config{})
	for range 5000 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := openFake(ctx, s, kinds[both], nil, always(&fakeStream{err: errStatusCanceled}, nil))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		stream.RecvMsg(nil)
		s.wantActive(t, 0)
		if t.Failed() {
			return
		}
		s.wantEnd(t, "released")
	}
}

// A listener may use the stream whose end it hears of. It gets what anybody gets
// after the end, and waits for nobody, itself least of all.
func TestListenerUsesTheStreamThatHasEnded(t *testing.T) {
	for reason, tc := range map[string]struct {
		handler func(context.Context) error
		end     func(*site, grpc.ClientStream, context.CancelFunc)
		want    string
	}{
		"RecvMsg": {
			func(context.Context) error { return nil },
			func(_ *site, stream grpc.ClientStream, _ context.CancelFunc) { stream.RecvMsg(new(text)) },
			"ok",
		},
		"SendMsg": {
			untilDone,
			func(_ *site, stream grpc.ClientStream, _ context.CancelFunc) { stream.SendMsg("nonsense") },
			"failed",
		},
		"the context": {
			untilDone,
			func(_ *site, _ grpc.ClientStream, cancel context.CancelFunc) { cancel() },
			"released",
		},
		"the connection": {
			untilDone,
			func(s *site, _ grpc.ClientStream, _ context.CancelFunc) { s.conn.Close() },
			"failed",
		},
	} {
		t.Run(reason, func(t *testing.T) {
			opened := make(chan grpc.ClientStream, 1)
			used := make(chan error, 1)
			use := sync.OnceFunc(func() {
				stream := <-opened
				stream.Header()
				stream.SendMsg(new(text))
				stream.CloseSend()
				used <- stream.RecvMsg(new(text))
			})
			s := newSite(t, answering(tc.handler), siteConfig{client: bulkhead.Config{Listener: event.Listener{
				Finished: func(context.Context, event.Finished) { use() },
				Released: func(context.Context, event.Released) { use() },
			}}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := s.open(ctx, kinds[both])
			if err != nil {
				t.Fatal(err)
			}
			opened <- stream
			go tc.end(s, stream, cancel)
			if err := receive(t, "the listener to have used the stream", used); err == nil {
				t.Error("RecvMsg after the end: got nil, want an error")
			}
			s.client.wantEnd(t, tc.want)
			s.client.wantRest(t, 1)
		})
	}
}

func untilDone(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
