// Package bulkheadgrpc bounds gRPC calls with a bulkhead, those that a server
// takes and those that a client makes.
//
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(recovery, bulkheadgrpc.UnaryServerInterceptor(b, bulkheadgrpc.Options{})),
//		grpc.ChainStreamInterceptor(recoveryOfStreams, bulkheadgrpc.StreamServerInterceptor(b, bulkheadgrpc.Options{})),
//	)
//
//	conn, err := grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(bulkheadgrpc.UnaryClientInterceptor(b, bulkheadgrpc.Options{})),
//		grpc.WithChainStreamInterceptor(bulkheadgrpc.StreamClientInterceptor(b, bulkheadgrpc.Options{})),
//	)
//
// Unary calls and streams may share a bulkhead or have one each. A permit is held
// until the call has ended, which for a stream may be long after it was opened.
//
// # Rejections
//
// Whatever the reason, the status of a rejected call has the code
// ResourceExhausted, the bulkhead's error as its text, and in its details a
// google.rpc.ErrorInfo with the reason, such as FULL or TIMED_OUT, this
// package's [Domain], and the bulkhead's name, as "bulkhead" in the metadata. So
// clients in any language can tell a bulkhead that is full from a weight too
// heavy or a server that is closing, where trying the same again does not help.
// Whoever may call learns the name and, from the text, the numbers; what must
// not be known outside is for an interceptor further out to replace.
//
// On the side of the bulkhead the error matches as it does without gRPC, by
// errors.Is and [bulkhead.ErrFull], or errors.AsType and
// [bulkhead.RejectedError]; interceptors further out, which log or count, see it
// so on the server. On the client such an error means that a bulkhead of its own
// refused the call and nothing was sent. What the server's refused is found by
// [RemoteRejection].
//
// A call whose context ends while it waits for a permit has the status Canceled
// or DeadlineExceeded, and on its side the error is a [*bulkhead.CanceledError].
//
// # Outcomes
//
// What the handler, or the server, returns is passed on untouched. For listeners,
// a call whose context is done and whose status says so counts as canceled: it
// is released, not finished, and Err wraps both the status and the context's
// error. Canceled and DeadlineExceeded say so; and Unavailable, which a handler
// gets for sending over a broken connection, does if the context was canceled.
// Every other status but OK is a call that failed, for the client also one that
// the server has rejected.
//
// # Order
//
// On a server, recovery and logging belong before the bulkhead in a chain, what
// is part of the work after it. On a client, an interceptor that tries again
// makes all its tries under one permit if it comes after the bulkhead, and takes
// a permit for each if it comes before; then the pause between two tries holds
// none, which is the better choice.
package bulkheadgrpc
