package eventprom_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstile-go/turnstile/bulkhead"
	"github.com/turnstile-go/turnstile/event/eventprom"
)

// TestPrometheus has a real Prometheus scrape a service under load and evaluate
// every query of the dashboard, and the rules. One server takes the histograms'
// classic buckets, another one the native ones, and no classic ones then.
func TestPrometheus(t *testing.T) {
	t.Parallel() // a Prometheus looks for its targets after five seconds
	program := tool(t, "prometheus")
	m := eventprom.New(eventprom.Options{})
	target := serve(t, m)
	load(t, m)
	servers := map[string]server{
		"classic": startPrometheus(t, program, target),
		"native":  startPrometheus(t, program, target, "--enable-feature=native-histograms"),
	}
	for name, s := range servers {
		for _, panel := range readDashboard(t).Panels {
			for _, target := range panel.Targets {
				s.checkTarget(t, name+": "+panel.Title, target)
			}
		}
		s.checkRules(t)
	}
}

// load keeps a watched bulkhead busy in many ways until the test ends.
func load(t *testing.T, m *eventprom.Metrics) {
	t.Helper()
	b := bulkhead.MustNew[int](bulkhead.Config{Name: "db", MaxConcurrent: 2, MaxQueue: 1})
	if err := m.Watch(b); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for ctx.Err() == nil {
				b.Waiting(time.Second).Run(ctx, func(ctx context.Context) error { return pause(ctx, time.Millisecond) })
				b.Run(ctx, func(context.Context) error { return errors.New("boom") })
				b.Weighing(3).Run(ctx, nop)
				b.Run(ctx, func(ctx context.Context) error { // released
					ctx, cancel := context.WithCancel(ctx)
					cancel()
					return ctx.Err()
				})
			}
		})
	}
	t.Cleanup(func() {
		stop()
		callers.Wait()
	})
}

// pause is a call to something that takes its time.
func pause(ctx context.Context, d time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
	return nil
}

// server is a running Prometheus.
type server struct{ url string }

// startPrometheus starts a server that scrapes target, until the test ends.
func startPrometheus(t *testing.T, program, target string, flags ...string) server {
	t.Helper()
	dir := t.TempDir()
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := filepath.Abs(rules)
	if err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{ // which is YAML as well
		"global":     map[string]string{"scrape_interval": "100ms", "scrape_timeout": "100ms", "evaluation_interval": "100ms"},
		"rule_files": []string{alerts},
		"scrape_configs": []any{map[string]any{
			"job_name":       "service",
			"static_configs": []any{map[string]any{"targets": []string{at.Host}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, config, 0o666); err != nil {
		t.Fatal(err)
	}

	cmd := exec.Command(program, append(flags,
		"--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address=127.0.0.1:0")...)
	log := &serverLog{address: make(chan string, 1)}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	select {
	case address := <-log.address:
		return server{"http://" + address}
	case err := <-ended:
		ended <- err
		t.Fatalf("prometheus has ended: %v\n%s", err, log)
	case <-time.After(time.Minute):
		t.Fatalf("prometheus does not listen after a minute:\n%s", log)
	}
	panic("unreachable")
}

// serverLog is what a server says, and the address that it listens on.
type serverLog struct {
	mu      sync.Mutex
	text    strings.Builder
	address chan string
	found   bool
}

var listening = regexp.MustCompile(`Listening on"? address=(\S+)\n`)

func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	if m := listening.FindStringSubmatch(l.text.String()); m != nil && !l.found {
		l.found = true
		l.address <- m[1]
	}
	return len(p), nil
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ask has the answer to a question to the server's API put into data.
func (s server) ask(t *testing.T, path string, query url.Values, data any) error {
	t.Helper()
	resp, err := http.Get(s.url + path + "?" + query.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer := struct {
		Error string
		Data  any
	}{Data: data}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", resp.Status, err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// soon asks again and again until the answer is good, for up to half a minute.
func soon(t *testing.T, what string, good func() error) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	end := time.After(30 * time.Second)
	for {
		err := good()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-end:
			t.Errorf("%s: %v", what, err)
			return
		}
	}
}

// checkTarget fails t unless the server comes to have numbers for a panel, with
// the labels that its legend shows.
func (s server) checkTarget(t *testing.T, title string, of target) {
	t.Helper()
	expr := strings.NewReplacer("$bulkhead", ".*", "$__rate_interval", "1m").Replace(of.Expr)
	soon(t, title+": "+expr, func() error {
		var data struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
		if err := s.ask(t, "/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
			return err
		}
		if len(data.Result) == 0 {
			return errors.New("no data")
		}
		for _, series := range data.Result {
			for _, label := range placeholder.FindAllStringSubmatch(of.LegendFormat, -1) {
				if series.Metric[label[1]] == "" {
					return fmt.Errorf("%v has no label %s", series.Metric, label[1])
				}
			}
			if series.Value[1] == "NaN" {
				return fmt.Errorf("%v is not a number", series.Metric)
			}
		}
		return nil
	})
}

// checkRules fails t unless the server comes to evaluate both rules.
func (s server) checkRules(t *testing.T) {
	t.Helper()
	soon(t, "rules", func() error {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if err := s.ask(t, "/api/v1/rules", nil, &data); err != nil {
			return err
		}
		var good int
		for _, group := range data.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "ok" {
					return fmt.Errorf("%s is %s: %s", rule.Name, rule.Health, rule.LastError)
				}
				good++
			}
		}
		if good != 2 {
			return fmt.Errorf("%d are evaluated, want 2", good)
		}
		return nil
	})
}
