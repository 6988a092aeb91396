package bulkheadgrpc_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/bulkhead/bulkheadgrpc"
)

type text = wrapperspb.StringValue

// service is a gRPC service with a unary method and the three kinds of streams.
// It is written down as protoc would generate it.
type service struct {
	unary  func(context.Context, *text) (*text, error)
	stream func(grpc.ServerStream) error // of every kind
}

const unaryMethod = "/test.Service/Unary"

var description = grpc.ServiceDesc{
	ServiceName: "test.Service",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Unary", Handler: serveUnary}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Download", Handler: serveStream, ServerStreams: true},
		{StreamName: "Upload", Handler: serveStream, ClientStreams: true},
		{StreamName: "Talk", Handler: serveStream, ServerStreams: true, ClientStreams: true},
	},
}

// kinds of streams by their names.
var kinds = map[string]*grpc.StreamDesc{
	"server-streaming": &description.Streams[0],
	"client-streaming": &description.Streams[1],
	"bidirectional":    &description.Streams[2],
}

func methodOf(desc *grpc.StreamDesc) string { return "/test.Service/" + desc.StreamName }

func serveUnary(srv any, ctx context.Context, dec func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	in := new(text)
	if err := dec(in); err != nil {
		return nil, err
	}
	handler := func(ctx context.Context, req any) (any, error) { return srv.(*service).unary(ctx, req.(*text)) }
	if interceptor == nil {
		return handler(ctx, in)
	}
	return interceptor(ctx, in, &grpc.UnaryServerInfo{Server: srv, FullMethod: unaryMethod}, handler)
}

func serveStream(srv any, stream grpc.ServerStream) error { return srv.(*service).stream(stream) }

// site is a server on loopback and a connection to it, with a bulkhead on either
// side.
type site struct {
	server, client *side
	grpc           *grpc.Server
	conn           *grpc.ClientConn

	mu      sync.Mutex
	sockets []net.Conn // the client's
}

// siteConfig says what is on the way between client and handler. The zero value
// is a bulkhead of limit 1 on either side.
type siteConfig struct {
	server, client         bulkhead.Config
	serverOpts, clientOpts bulkheadgrpc.Options

	inner      grpc.StreamClientInterceptor // behind the bulkhead; may be nil
	grpcClient []grpc.DialOption
}

// newSite starts a site that ends with t, and then nothing of it may be left.
func newSite(t *testing.T, svc *service, cfg siteConfig) *site {
	t.Helper()
	noGoroutineLeft(t)
	s := &site{server: newSide("server", cfg.server), client: newSide("client", cfg.client)}
	s.grpc = grpc.NewServer(
		grpc.ChainUnaryInterceptor(recoverUnary, bulkheadgrpc.UnaryServerInterceptor(s.server, cfg.serverOpts)),
		grpc.ChainStreamInterceptor(recoverStream, bulkheadgrpc.StreamServerInterceptor(s.server, cfg.serverOpts)),
	)
	s.grpc.RegisterService(&description, svc)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.grpc.Serve(listener) // returns once the server is stopped
	t.Cleanup(s.grpc.Stop)
	streams := []grpc.StreamClientInterceptor{bulkheadgrpc.StreamClientInterceptor(s.client, cfg.clientOpts)}
	if cfg.inner != nil {
		streams = append(streams, cfg.inner)
	}
	s.conn, err = grpc.NewClient("passthrough:///"+listener.Addr().String(), append(cfg.grpcClient,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(s.dial),
		grpc.WithChainUnaryInterceptor(bulkheadgrpc.UnaryClientInterceptor(s.client, cfg.clientOpts)),
		grpc.WithChainStreamInterceptor(streams...),
	)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.conn.Close() })
	return s
}

// dial keeps the sockets it makes.
func (s *site) dial(ctx context.Context, addr string) (net.Conn, error) {
	socket, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sockets = append(s.sockets, socket)
	}
	return socket, err
}

// cut breaks the connection without a farewell.
func (s *site) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, socket := range s.sockets {
		socket.Close()
	}
}

// call makes a unary call.
func (s *site) call(ctx context.Context, in string, opts ...grpc.CallOption) (string, error) {
	out := new(text)
	err := s.conn.Invoke(ctx, unaryMethod, wrapperspb.String(in), out, opts...)
	return out.GetValue(), err
}

// open opens a stream.
func (s *site) open(ctx context.Context, desc *grpc.StreamDesc, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return s.conn.NewStream(ctx, desc, methodOf(desc), opts...)
}

// recoverUnary and recoverStream turn a panic into an error of the call, as
// servers do.
func recoverUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
	defer recoverInto(&err)
	return handler(ctx, req)
}

func recoverStream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer recoverInto(&err)
	return handler(srv, stream)
}

func recoverInto(err *error) {
	if v := recover(); v != nil {
		*err = status.Error(codes.Internal, fmt.Sprint("recovered: ", v))
	}
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: code %v (%v), want %v", what, got, err, want)
	}
}
