package eventprom_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const rules = "alerts/turnstile.yml"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var ruleExpr = regexp.MustCompile(`(?s)- alert: (\w+).*?expr: \|\n(.*?)\n +for:`)

func TestRulesNameWhatIsScraped(t *testing.T) {
	names, labels := scraped(t)
	exprs := ruleExpr.FindAllStringSubmatch(read(t, rules), -1)
	if len(exprs) != 2 {
		t.Fatalf("found %d rules, want 2", len(exprs))
	}
	for _, rule := range exprs {
		checkNames(t, rule[1], rule[2], names, labels)
	}
}

// tool returns the path of a program of Debian's package prometheus, or skips
// the test.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed; it is in Debian's package prometheus", name)
	}
	return path
}

func TestRules(t *testing.T) {
	promtool := tool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", rules}, {"test", "rules", "alerts/turnstile_test.yml"}} {
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestRulesAreTested breaks the rules, each time in one place, which the unit
// tests of the rules must notice.
func TestRulesAreTested(t *testing.T) {
	t.Parallel()
	promtool := tool(t, "promtool")
	good, tests := read(t, rules), read(t, "alerts/turnstile_test.yml")
	changes := []struct{ from, to string }{
		{"> 0.05", "> 0.03"},
		{"> 0.05", "> 0.5"},
		{"            + rate(turnstile_bulkhead_canceled_calls_total[5m])\n", ""},
		{"            + rate(turnstile_bulkhead_permitted_calls_total[5m])\n", ""},
		{`{reason!="closed"}`, ""},
		{"sum without (reason)", "max without (reason)"},
		{"for: 10m", "for: 1m"},
		{"for: 10m", "for: 20m"},
		{">= turnstile", "> turnstile"},
		{"turnstile_bulkhead_waiting_calls > 0", "turnstile_bulkhead_waiting_calls > 1"},
		{"turnstile_bulkhead_waiting_calls > 0", "turnstile_bulkhead_waiting_calls >= 0"},
		{"sum without (outcome)", "min without (outcome)"},
		{"            + increase(turnstile_bulkhead_released_calls_total[3m])\n", ""},
		{"for: 2m", "for: 30s"},
		{"for: 2m", "for: 10m"},
		{"severity: critical", "severity: warning"},
		{"$labels.instance", "$labels.job"},
	}
	args := []string{"test", "rules"}
	for _, change := range changes {
		bad := strings.ReplaceAll(good, change.from, change.to)
		if bad == good {
			t.Fatalf("there is no %q in the rules", change.from)
		}
		dir := t.TempDir()
		for name, text := range map[string]string{"turnstile.yml": bad, "turnstile_test.yml": tests} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		args = append(args, filepath.Join(dir, "turnstile_test.yml"))
	}
	// All in one run, since it is starting that takes promtool its time. What it
	// says of a file comes after the file's name.
	out, err := exec.Command(promtool, args...).CombinedOutput()
	results := strings.Split(string(out), "Unit Testing:")[1:]
	if err == nil || len(results) != len(changes) {
		t.Fatalf("%d results for %d changes, %v:\n%s", len(results), len(changes), err, out)
	}
	for i, change := range changes {
		if !strings.Contains(results[i], "FAILED:") || !strings.Contains(results[i], "exp:") {
			t.Errorf("with %q for %q the rules still pass:%s", change.to, change.from, results[i])
		}
	}
}
