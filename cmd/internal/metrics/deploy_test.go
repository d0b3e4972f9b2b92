package metrics

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deploy = "../../../deploy/"

// promtool runs it, and fails where it does. In CI it must be installed.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("promtool is missing: see scripts/setup")
		}
		t.Skip("NOT TESTED: promtool is missing: install Debian's prometheus package")
	}
	c := exec.Command("promtool", args...)
	c.Stdin = strings.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %v\n%s", args, err, out)
	}
}

func TestRules(t *testing.T) {
	promtool(t, "", "check", "rules", deploy+"prometheus-rules.yaml")
	promtool(t, "", "test", "rules", "testdata/rules_test.yaml")
}

// TestScrape checks prometheus.yaml as it would be installed, with its token.
func TestScrape(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"prometheus.yaml", "prometheus-rules.yaml"} {
		text, err := os.ReadFile(deploy + name)
		if err != nil {
			t.Fatal(err)
		}
		installed := strings.ReplaceAll(string(text), "/etc/prometheus/", dir+"/")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(installed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "belljar-token"), []byte("a token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "config", filepath.Join(dir, "prometheus.yaml"))
}

// full has every metric.
func full() *Metrics {
	m := newMetrics()
	m.Ended(ended(""))
	routes := http.NewServeMux()
	m.Requests(routes, routes).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	return m
}

func TestPromtoolLikesMetrics(t *testing.T) {
	page := httptest.NewRecorder()
	full().Handler().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	promtool(t, page.Body.String(), "check", "metrics")
}

// labels are those of each metric, and what Prometheus adds.
func labels(t *testing.T) map[string][]string {
	t.Helper()
	families, err := full().registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for _, f := range families {
		list := []string{"instance", "job"}
		for _, l := range f.GetMetric()[0].GetLabel() {
			list = append(list, l.GetName())
		}
		all[f.GetName()] = list
		if f.GetMetric()[0].GetHistogram() != nil {
			all[f.GetName()+"_bucket"] = append(list, "le")
		}
	}
	return all
}

var (
	metric = regexp.MustCompile(`\b((?:belljar|process|go)_[a-z_]+)(?:\{([^}]*)\})?`)
	label  = regexp.MustCompile(`([a-z_]+) *(?:=~|!~|!=|=)`)
)

// checkMetrics wants that every metric in the query exists, with the labels that select.
func checkMetrics(t *testing.T, all map[string][]string, query string) {
	t.Helper()
	found := metric.FindAllStringSubmatch(query, -1)
	if len(found) == 0 && !strings.HasPrefix(query, "up{") {
		t.Errorf("%s has no metric of belljar's", query)
	}
	for _, m := range found {
		known, ok := all[m[1]]
		if !ok {
			t.Errorf("there is no metric %s: %s", m[1], query)
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(known, l[1]) {
				t.Errorf("%s has no label %s: %s", m[1], l[1], query)
			}
		}
	}
}

func TestAlertsHaveMetrics(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	text, err := os.ReadFile(deploy + "prometheus-rules.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := labels(t)
	for _, rule := range file.Groups[0].Rules {
		checkMetrics(t, all, rule.Expr)
	}
}

// TestDashboard checks each query: its metrics, and its syntax as a rule's.
func TestDashboard(t *testing.T) {
	var board struct {
		UID, Title string
		Panels     []struct {
			ID      int
			Type    string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Definition string }
		}
	}
	text, err := os.ReadFile(deploy + "grafana-dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	var rules strings.Builder
	rules.WriteString("groups: [{name: dashboard, rules: [\n")
	all, ids, places := labels(t), map[int]bool{}, map[[2]int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("panel %d is there twice, or has no query", p.ID)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				place := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if places[place] || place[0] >= 24 {
					t.Errorf("panel %d covers another at %v", p.ID, place)
				}
				places[place] = true
			}
		}
		for i, target := range p.Targets {
			checkMetrics(t, all, target.Expr)
			query := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$profile", ".*").Replace(target.Expr)
			fmt.Fprintf(&rules, "{record: \"panel:%d:%d\", expr: %q},\n", p.ID, i, query)
		}
	}
	for _, v := range board.Templating.List {
		if v.Definition != "" {
			checkMetrics(t, all, v.Definition)
		}
	}
	rules.WriteString("]}]\n")
	name := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(name, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", name)
	if len(board.Panels) < 20 || board.UID != "belljar" {
		t.Errorf("dashboard %q has %d panels", board.UID, len(board.Panels))
	}
}

// TestDocumented: docs/deploy.md has every metric, with its labels.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, name := range metric.FindAllString(cells[1], -1) {
				documented[name] = strings.TrimSpace(cells[2])
			}
		}
	}
	for name, list := range labels(t) {
		if !strings.HasPrefix(name, namespace) || strings.HasSuffix(name, "_bucket") {
			continue
		}
		found, ok := documented[name]
		delete(documented, name)
		have := strings.Split(found, ", ")
		if found == "" {
			have = nil
		}
		list = slices.Clone(list[2:])
		slices.Sort(have)
		slices.Sort(list)
		if !ok || !slices.Equal(have, list) {
			t.Errorf("docs/deploy.md has %s with the labels %q, want %q", name, have, list)
		}
	}
	for name := range documented {
		t.Errorf("docs/deploy.md has %s, which does not exist", name)
	}
}
