// Drain is a web server that stops in good order. When it gets SIGTERM, or an
// interrupt, it takes no more work, refuses the requests that wait, and lets
// what runs end, for as long as -deadline says.
//
//	go build -o /tmp/drain ./examples/drain
//	/tmp/drain &
//	curl -X POST --data-binary @FILE --limit-rate 1k http://127.0.0.1:PORT/uploads &
//	curl -X POST 'http://127.0.0.1:PORT/jobs?for=5s'
//	kill -TERM %1
//	wait %1; echo $?
//
// It exits with status 0 if everything could end, and with status 1 if the
// deadline cut something off. A second signal ends it at once. (Under go run,
// SIGTERM ends the go command and not the wait for what runs, and its status
// is lost.)
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "where to listen")
	limit := flag.Int64("limit", 8, "uploads and jobs at once")
	deadline := flag.Duration("deadline", 10*time.Second, "how long what runs may take to end")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal is not waited for
	if err := run(ctx, *addr, *limit, *deadline); err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends, and then until what runs has ended, too.
func run(ctx context.Context, addr string, limit int64, deadline time.Duration) error {
	s, err := newServer(limit)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Printf("listening on http://%s", l.Addr())
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	stats := s.work.Stats()
	log.Printf("%v; in flight: %d, waiting: %d", context.Cause(ctx), stats.Active, stats.Waiting)
	if err := s.drain(deadline); err != nil {
		return err
	}
	log.Print("drained")
	return nil
}
