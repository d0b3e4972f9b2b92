package metrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sources are fakes of what a scrape reads.
type sources struct {
	pools    []sandbox.PoolStatus
	sessions func(ctx context.Context) ([]sandbox.SessionInfo, error)
}

func (s sources) Pools(context.Context) ([]sandbox.PoolStatus, error) { return s.pools, nil }

func (s sources) Sessions(ctx context.Context) ([]sandbox.SessionInfo, error) { return s.sessions(ctx) }

func (s sources) RemoveSession(context.Context, string) error { return errors.ErrUnsupported }

func (s sources) Load() (running, waiting, asking int) { return 3, 2, 1 }

func newMetrics() *Metrics {
	s := sources{
		pools:    []sandbox.PoolStatus{{Profile: "default", Ready: 2, Making: 1, Target: 4, Made: 10, Used: 7, Missed: 3, Lost: 1, Drained: 5, Error: "no image"}},
		sessions: func(context.Context) ([]sandbox.SessionInfo, error) { return make([]sandbox.SessionInfo, 5), nil },
	}
	m := New("v1.2.3", Sources{Pools: s, Sessions: s, Load: s})
	m.SetProfiles([]string{"build"})
	return m
}

func want(t *testing.T, m *Metrics, text string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

func ended(profile string) sandbox.Result {
	return sandbox.Result{
		Profile: profile, Status: sandbox.StatusError, Cause: sandbox.CauseOOMKilled,
		Stdout: sandbox.Output{Total: 1000}, Stderr: sandbox.Output{Total: 10},
		Lingering: make([]sandbox.Process, 2),
		Timing:    sandbox.Timing{Queued: time.Millisecond, Start: 2 * time.Millisecond, Total: time.Second},
		Container: sandbox.ContainerInfo{Warm: true},
	}
}

func TestEnded(t *testing.T) {
	m := newMetrics()
	m.Ended(ended("build"))
	m.Ended(ended(""))
	m.Ended(sandbox.Result{Status: sandbox.StatusFatal, Cause: sandbox.CauseEngineLost, Timing: sandbox.Timing{Total: time.Second}})
	want(t, m, `# HELP belljar_executions_total Commands that ended or were refused.
# TYPE belljar_executions_total counter
belljar_executions_total{cause="engine_lost",profile="default",status="fatal"} 1
belljar_executions_total{cause="oom_killed",profile="build",status="error"} 1
belljar_executions_total{cause="oom_killed",profile="default",status="error"} 1
# HELP belljar_output_bytes_total What commands wrote.
# TYPE belljar_output_bytes_total counter
belljar_output_bytes_total{stream="stderr"} 20
belljar_output_bytes_total{stream="stdout"} 2000
# HELP belljar_lingering_processes_total Processes that still ran when their command ended.
# TYPE belljar_lingering_processes_total counter
belljar_lingering_processes_total 4
# HELP belljar_engine_errors_total Commands that the engine or their image failed.
# TYPE belljar_engine_errors_total counter
belljar_engine_errors_total{cause="engine_error"} 0
belljar_engine_errors_total{cause="engine_lost"} 1
belljar_engine_errors_total{cause="image_error"} 0
`, "belljar_executions_total", "belljar_output_bytes_total", "belljar_lingering_processes_total", "belljar_engine_errors_total")
	for name, series := range map[string]int{
		"belljar_execution_duration_seconds": 3, "belljar_execution_queued_seconds": 2, "belljar_execution_start_seconds": 2,
	} {
		if n, err := testutil.GatherAndCount(m.registry, name); err != nil || n != series {
			t.Errorf("%s has %d series, %v; want %d: a command that never started has no time to start", name, n, err, series)
		}
	}
}

// Each duration is in a native histogram.
func TestNative(t *testing.T) {
	m := newMetrics()
	m.Ended(ended(""))
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			if h := metric.GetHistogram(); strings.HasPrefix(f.GetName(), namespace) && h != nil {
				found++
				if h.GetSampleCount() != 1 || len(h.GetPositiveSpan()) == 0 {
					t.Errorf("%s has %d samples in %d spans", f.GetName(), h.GetSampleCount(), len(h.GetPositiveSpan()))
				}
			}
		}
	}
	if found != 3 {
		t.Errorf("%d histograms, want 3", found)
	}
}

func TestRefused(t *testing.T) {
	m := newMetrics()
	m.Refused("build", &sandbox.Error{Cause: sandbox.CauseDenied})
	m.Refused("", &sandbox.Error{Cause: sandbox.CauseBusy})
	m.Refused("", errors.New("the engine failed"))
	for range 1000 {
		m.Refused(strings.Repeat("a caller's profile ", 1000), &sandbox.Error{Cause: sandbox.CauseInvalid})
	}
	want(t, m, `# HELP belljar_executions_total Commands that ended or were refused.
# TYPE belljar_executions_total counter
belljar_executions_total{cause="busy",profile="default",status="fatal"} 1
belljar_executions_total{cause="denied",profile="build",status="denied"} 1
belljar_executions_total{cause="engine_error",profile="default",status="fatal"} 1
belljar_executions_total{cause="invalid_command",profile="other",status="fatal"} 1000
`, "belljar_executions_total", "belljar_execution_duration_seconds", "belljar_execution_queued_seconds")
}

func TestSources(t *testing.T) {
	want(t, newMetrics(), `# HELP belljar_approvals_waiting Commands that wait for a person's approval.
# TYPE belljar_approvals_waiting gauge
belljar_approvals_waiting 1
# HELP belljar_executions_running Commands that run.
# TYPE belljar_executions_running gauge
belljar_executions_running 3
# HELP belljar_pool_containers Containers of a pool: ready, being made, and how many should be ready.
# TYPE belljar_pool_containers gauge
belljar_pool_containers{profile="default",state="making"} 1
belljar_pool_containers{profile="default",state="ready"} 2
belljar_pool_containers{profile="default",state="target"} 4
# HELP belljar_pool_failing 1 while the last try to make a container for the pool failed.
# TYPE belljar_pool_failing gauge
belljar_pool_failing{profile="default"} 1
# HELP belljar_pool_drained_total Containers removed because of age, because the image changed, or with their node, which is being drained.
# TYPE belljar_pool_drained_total counter
belljar_pool_drained_total{profile="default"} 5
# HELP belljar_pool_lost_total Containers that ended or hung before they were used.
# TYPE belljar_pool_lost_total counter
belljar_pool_lost_total{profile="default"} 1
# HELP belljar_pool_made_total Containers made for the pool.
# TYPE belljar_pool_made_total counter
belljar_pool_made_total{profile="default"} 10
# HELP belljar_pool_missed_total Commands that found none ready.
# TYPE belljar_pool_missed_total counter
belljar_pool_missed_total{profile="default"} 3
# HELP belljar_pool_used_total Containers given to a command.
# TYPE belljar_pool_used_total counter
belljar_pool_used_total{profile="default"} 7
# HELP belljar_queue_waiting Commands that wait for a free slot or for their session.
# TYPE belljar_queue_waiting gauge
belljar_queue_waiting 2
# HELP belljar_sessions Sessions that exist. Absent while the engine does not answer.
# TYPE belljar_sessions gauge
belljar_sessions 5
`, "belljar_approvals_waiting", "belljar_executions_running", "belljar_pool_containers", "belljar_pool_failing", "belljar_pool_drained_total",
		"belljar_pool_lost_total", "belljar_pool_made_total", "belljar_pool_missed_total", "belljar_pool_used_total", "belljar_queue_waiting", "belljar_sessions")
}

// However often a scrape comes, the engine is asked every ten seconds, and a scrape
// waits two for it.
func TestScrapesAreCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, hangs := 0, false
		s := sources{sessions: func(ctx context.Context) ([]sandbox.SessionInfo, error) {
			asked++
			if hangs {
				<-ctx.Done()
			}
			return make([]sandbox.SessionInfo, asked), ctx.Err()
		}}
		m := New("", Sources{Sessions: s})
		scrape := func(series, sessions int) {
			t.Helper()
			if n, err := testutil.GatherAndCount(m.registry, "belljar_sessions"); err != nil || n != series || asked != sessions {
				t.Errorf("%d series, %v, after %d questions to the engine; want %d and %d", n, err, asked, series, sessions)
			}
		}
		scrape(1, 1)
		time.Sleep(9 * time.Second)
		scrape(1, 1)
		time.Sleep(2 * time.Second)
		scrape(1, 2)
		time.Sleep(10 * time.Second)
		hangs = true
		began := time.Now()
		scrape(0, 3)
		if waited := time.Since(began); waited != askTimeout {
			t.Errorf("a scrape waited %v for the engine", waited)
		}
		scrape(0, 3)
	})
}

func TestNames(t *testing.T) {
	m := newMetrics()
	m.Ended(ended(""))
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestHandler(t *testing.T) {
	server := httptest.NewServer(newMetrics().Handler())
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`belljar_build_info{go_version="go1.`, `version="v1.2.3"} 1`, "go_goroutines ", "process_open_fds "} {
		if !strings.Contains(string(body), part) {
			t.Errorf("no %s in:\n%s", part, body)
		}
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Encoding") != "" {
		t.Errorf("%s, encoded as %q", response.Status, response.Header.Get("Content-Encoding"))
	}
}

func BenchmarkEnded(b *testing.B) {
	m, r := newMetrics(), ended("")
	for b.Loop() {
		m.Ended(r)
	}
}
