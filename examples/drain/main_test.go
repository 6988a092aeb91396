package main

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long the test waits for what must come soon.
const patience = 20 * time.Second

// TestMain is the program itself in a process that a test has started.
func TestMain(m *testing.M) {
	if os.Getenv("DRAIN_PROGRAM") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program is the program in a process of its own.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  chan string // line by line; closed at the end
	exit chan error
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM on Windows")
	}
	p := &program{t: t, cmd: exec.Command(os.Args[0], args...), log: make(chan string, 100), exit: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), "DRAIN_PROGRAM=1")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			_, text, _ := strings.Cut(lines.Text(), " ") // date
			_, text, _ = strings.Cut(text, " ")          // and time
			p.log <- text
		}
		close(p.log)
		p.exit <- p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill() // it is over, unless the test has failed
		http.DefaultClient.CloseIdleConnections()
	})
	url, ok := strings.CutPrefix(receive(t, p.log), "listening on ")
	if !ok {
		t.Fatalf("it says %q first, want where it listens", url)
	}
	p.url = url
	return p
}

// receive returns what comes from c, and fails the test if nothing does.
func receive[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("nothing came within %v", patience)
	}
	return v
}

// answer is what became of a request.
type answer struct {
	status int
	body   string
	err    error
}

// post sends a request, and returns where its answer will be.
func (p *program) post(path string, body io.Reader) <-chan answer {
	c := make(chan answer, 1)
	go func() {
		resp, err := http.Post(p.url+path, "text/plain", body)
		if err != nil {
			c <- answer{err: err}
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		c <- answer{resp.StatusCode, string(text), err}
	}()
	return c
}

// untilStats waits until the program says that so much runs and waits.
func (p *program) untilStats(want string) {
	p.t.Helper()
	p.until(want, func() bool {
		resp, err := http.Get(p.url + "/stats")
		if err != nil {
			p.t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return string(text) == want
	})
}

func (p *program) until(what string, cond func() bool) {
	p.t.Helper()
	for start := time.Now(); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Since(start) > patience {
			p.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// wantLog reads the log to its end, and fails the test unless it is this.
func (p *program) wantLog(want ...string) {
	p.t.Helper()
	var got []string
	for line := range p.log {
		got = append(got, line)
	}
	if !slices.Equal(got, want) {
		p.t.Errorf("it logs\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (p *program) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && err != os.ErrProcessDone {
		p.t.Fatal(err)
	}
}

// What runs when SIGTERM comes can end, what waits is refused, and who comes
// later finds nobody.
func TestServerDrainsOnSIGTERM(t *testing.T) {
	p := start(t, "-limit=2")
	if got := receive(t, p.post("/jobs?for=1s", nil)); got.status != http.StatusAccepted {
		t.Fatalf("a job: %+v, want it accepted", got)
	}
	body, pipe := io.Pipe()
	running := p.post("/uploads", body)
	io.WriteString(pipe, "half of ")
	p.untilStats("in flight: 2, waiting: 0")
	waiting := p.post("/uploads", nil)
	p.untilStats("in flight: 2, waiting: 1")

	p.terminate()
	if got := receive(t, waiting); got.status != http.StatusServiceUnavailable {
		t.Errorf("the request that waits: %+v, want 503", got)
	}
	p.until("nobody listens", func() bool {
		got := receive(t, p.post("/uploads", nil))
		return errors.Is(got.err, syscall.ECONNREFUSED)
	})
	io.WriteString(pipe, "the upload")
	pipe.Close()
	if got := receive(t, running); got.body != "18 bytes\n" {
		t.Errorf("the request that runs: %+v, want all of it", got)
	}
	if err := receive(t, p.exit); err != nil {
		t.Errorf("it ends with %v, want exit status 0", err)
	}
	p.wantLog("terminated signal received; in flight: 2, waiting: 1", "a job is done", "drained")
}

// What takes longer than the deadline is cut off, and the program says so.
func TestServerDoesNotWaitForEver(t *testing.T) {
	p := start(t, "-limit=2", "-deadline=50ms")
	body, pipe := io.Pipe()
	running := p.post("/uploads", body)
	io.WriteString(pipe, "half of ")
	p.untilStats("in flight: 1, waiting: 0")
	p.terminate()
	exit, ok := errors.AsType[*exec.ExitError](receive(t, p.exit))
	if !ok || exit.ExitCode() != 1 {
		t.Errorf("it ends with %v, want exit status 1", exit)
	}
	pipe.CloseWithError(io.ErrUnexpectedEOF)
	if got := receive(t, running); got.err == nil {
		t.Errorf("the request that runs: %+v, want no answer", got)
	}
	p.wantLog(
		"terminated signal received; in flight: 1, waiting: 0",
		"cut off after 50ms, in flight: 1: context deadline exceeded",
	)
}

// A second signal is not waited for.
func TestSecondSIGTERMEndsTheServerAtOnce(t *testing.T) {
	p := start(t, "-deadline=1h")
	if got := receive(t, p.post("/jobs?for=1h", nil)); got.status != http.StatusAccepted {
		t.Fatalf("a job: %+v, want it accepted", got)
	}
	p.terminate()
	if got, want := receive(t, p.log), "terminated signal received; in flight: 1, waiting: 0"; got != want {
		t.Errorf("it logs %q, want %q", got, want)
	}
	// The first signal is dealt with a moment after it is logged.
	for over := false; !over; {
		p.terminate()
		select {
		case err := <-p.exit:
			if over = true; err == nil || err.Error() != "signal: terminated" {
				t.Errorf("it ends with %v, want the signal", err)
			}
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// A client that sends its body slowly holds nobody up before it has a permit.
func TestJobDoesNotReadTheBody(t *testing.T) {
	s, err := newServer(1)
	if err != nil {
		t.Fatal(err)
	}
	body := &noted{Reader: strings.NewReader("for=0s")}
	r := httptest.NewRequest(http.MethodPost, "/jobs?for=0s", body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.http.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusAccepted || body.read {
		t.Errorf("status %d, body read %v; want 202 and not read", w.Code, body.read)
	}
	if err := s.drain(patience); err != nil {
		t.Error(err)
	}
}

// noted is a body that notes whether it was read.
type noted struct {
	io.Reader
	read bool
}

func (n *noted) Read(p []byte) (int, error) {
	n.read = true
	return n.Reader.Read(p)
}

func TestServerThatCannotBeMade(t *testing.T) {
	if err := run(t.Context(), "127.0.0.1:0", 0, time.Second); err == nil ||
		err.Error() != `bulkhead "work": Config.MaxConcurrent is 0, want at least 1` {
		t.Errorf("got %v, want an error about the limit", err)
	}
	if err := run(t.Context(), "127.0.0.1:-1", 1, time.Second); err == nil {
		t.Error("got no error about the address")
	}
}
