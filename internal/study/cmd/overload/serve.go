package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

// The service runs in a process of its own, so that its memory, its goroutines
// and its garbage collector are not those of the clients. The process is this
// program again, whose first argument is then
const serveCommand = "serve"

// serve is that process. It prints where it serves and does so until in ends,
// as it does when the parent is gone.
func serve(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet(serveCommand, flag.ContinueOnError)
	name := flags.String("guard", "", "")
	capacity := flags.Int("capacity", 0, "")
	duration := flags.Duration("service", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	guard, err := newGuard(*name, *capacity)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &service{guard, &downstream{capacity: *capacity, service: *duration}, &meter{}}
	stop := make(chan struct{})
	defer close(stop)
	go s.meter.watch(10*time.Millisecond, stop)

	srv := &http.Server{Handler: s.handler()}
	defer srv.Close()
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	fmt.Fprintf(out, "http://%s/\n", l.Addr())

	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, in)
		close(ended)
	}()
	select {
	case err := <-failed:
		return err
	case <-ended:
		return nil
	}
}

// process is a service in a process of its own.
type process struct {
	url string
	cmd *exec.Cmd
	in  io.Closer
}

// start starts a service, which ends with ctx at the latest.
func (s study) start(ctx context.Context, guard string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, serveCommand,
		"-guard="+guard, fmt.Sprint("-capacity=", s.capacity), fmt.Sprint("-service=", s.service))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("the service of %s did not start: %w", guard, err)
	}
	p.url = strings.TrimSpace(line)
	return p, nil
}

// stop ends the process and waits until it has.
func (p *process) stop() error {
	p.in.Close()
	return p.cmd.Wait()
}

// figures asks the service for its own.
func (p *process) figures(ctx context.Context, client *http.Client) (figures, error) {
	var f figures
	status, body, err := get(ctx, client, p.url+"figures")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &f)
	}
	if err != nil {
		return figures{}, fmt.Errorf("the service's figures: %w", err)
	}
	return f, nil
}
