// Package bulkheadhttp bounds HTTP requests with a bulkhead: those that a server
// takes, and those that a client sends.
//
// # Servers
//
// [NewHandler] guards a handler. A request that finds no permit, or none in
// time, is answered with 503 and Retry-After, which costs next to nothing, and
// those that run are not slowed down by those that cannot:
//
//	api := bulkhead.MustNew[struct{}](bulkhead.Config{
//		Name:          "api",
//		MaxConcurrent: 100,
//		MaxWait:       50 * time.Millisecond,
//		MaxQueue:      200,
//	})
//	srv := &http.Server{Handler: bulkheadhttp.NewHandler(api, mux, bulkheadhttp.HandlerOptions{})}
//
// The permit is held until the handler ends, however it ends. What goes on for
// long and is little work meanwhile, such as server-sent events, a websocket or
// a download by a slow client, gives it back before with [ReleaseEarly].
//
// To stop in good order, close the bulkhead, so that requests that wait are
// refused, then let http.Server.Shutdown wait for those that run, then Drain the
// bulkhead, for what goes on when its request is answered; see examples/drain.
//
// # Clients
//
// [NewTransport] guards an http.RoundTripper, so that a client stops hammering a
// server that has become slow. It does not wait for a response alone: the permit
// is held until the body is read or closed.
//
//	client := &http.Client{Transport: bulkheadhttp.NewTransport(payments, nil, bulkheadhttp.TransportOptions{})}
//	resp, err := client.Get(url)
//	if errors.Is(err, bulkhead.ErrFull) {
//		// nothing was sent
//	}
//
// [NewKeyedTransport] does so with one limit for each host.
//
// # Operators
//
// [StatusPage] shows what the bulkheads of a process are doing, to people and to
// machines.
//
// # What all of them keep
//
// A request takes its permit through the bulkhead it is given, which may be a
// handle from bulkhead.Weighing or bulkhead.Waiting, under its own context: a
// client that leaves, or a deadline, ends its wait, and what has been granted in
// that moment is not lost. The permit comes back exactly once. Listeners are
// told of requests as of any other call.
package bulkheadhttp
