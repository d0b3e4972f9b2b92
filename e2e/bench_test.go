package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// benchRow is what these tests read of a row.
type benchRow struct {
	Name      string
	N         int
	Peer      string
	P50       float64 `json:"p50_ms"`
	PeerP50   float64 `json:"peer_p50_ms"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_ms"`
	PeerCPU   float64 `json:"peer_cpu_ms"`
}

// benchCommand uses a new directory for temporary files.
func benchCommand(t *testing.T, args ...string) (cmd *exec.Cmd, temp string) {
	t.Helper()
	needDocker(t)
	temp = t.TempDir()
	cmd = exec.Command(binary, append([]string{"bench"}, args...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	return cmd, temp
}

// peers are the containers of the docker side.
func peers(pid int) string {
	var mine []string
	for line := range strings.Lines(containers("label=dev.belljar.bench")) {
		if strings.Contains(line, "dev.belljar.bench="+strconv.Itoa(pid)+"-") {
			mine = append(mine, line)
		}
	}
	return strings.Join(mine, "")
}

func checkBenchLeftNothing(t *testing.T, pid int, temp string) {
	t.Helper()
	if left := owned(pid) + peers(pid); left != "" {
		t.Errorf("containers are left over:\n%s", left)
	}
	files, err := os.ReadDir(temp)
	if err != nil || len(files) > 0 {
		t.Errorf("temporary files are left over: %v, %v", files, err)
	}
	out, err := exec.Command(binary, "session", "ls").CombinedOutput()
	if err != nil || strings.Contains(string(out), "bench-"+strconv.Itoa(pid)+"-") {
		t.Errorf("a session is left over: %v\n%s", err, out)
	}
}

// TestBench runs the real benchmark with few commands. Its figures mean nothing.
func TestBench(t *testing.T) {
	t.Parallel()
	cmd, temp := benchCommand(t, "session", "session_burst", "kill", "warm", "cold", "throughput_1", "sustained_4", "create", "http", "mcp", "cli_via_sidecar", "-n", "1", "--format", "json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	checkBenchLeftNothing(t, cmd.Process.Pid, temp)
	var report struct {
		Host map[string]any
		Rows []benchRow
	}
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s", err, &stdout)
	}
	want := []benchRow{
		{Name: "cold", N: 1, Peer: "docker run"},
		{Name: "warm", N: 1, Peer: "docker run"},
		{Name: "session", N: 1, Peer: "docker exec"},
		{Name: "session_burst", N: 4, Peer: "docker exec"},
		{Name: "kill", N: 5, Peer: "docker kill"},
		{Name: "throughput_1", N: 12, Peer: "docker run"},
		{Name: "sustained_4", N: -1, Peer: "docker run"}, // as many as it could
		{Name: "create", N: 1, Peer: "docker run"},
		{Name: "http", N: 1, Peer: "library"},
		{Name: "mcp", N: 1, Peer: "library"},
		{Name: "cli_via_sidecar", N: 1, Peer: "docker run"},
	}
	for i, row := range report.Rows {
		if i >= len(want) || row.Name != want[i].Name || row.N != want[i].N && (want[i].N >= 0 || row.N < 4) || row.Peer != want[i].Peer {
			t.Errorf("row %d is %+v", i, row)
		}
		if row.P50 <= 0 || row.PeerP50 <= 0 || row.PerSecond <= 0 {
			t.Errorf("nothing was measured: %+v", row)
		}
		if measured := row.CPU > 0 && row.PeerCPU > 0; measured != (row.Name == "create") {
			t.Errorf("processor time: %+v", row)
		}
	}
	if len(report.Rows) != len(want) || report.Host["engine"] == "" || report.Host["runtime"] == "" {
		t.Errorf("%s", &stdout)
	}
}

// Ctrl-C ends the bench while both sides have containers.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	for _, row := range []string{"session", "kill"} {
		t.Run(row, func(t *testing.T) {
			cmd, temp := benchCommand(t, row, "-n", "10000")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill() })
			eventually(t, "docker's side began", func() bool { return peers(cmd.Process.Pid) != "" })
			cmd.Process.Signal(syscall.SIGINT)
			if code := exitCode(t, cmd.Wait()); code != exitCanceled || !strings.Contains(stderr.String(), "belljar: canceled") {
				t.Errorf("exit %d, stderr %q", code, &stderr)
			}
			checkBenchLeftNothing(t, cmd.Process.Pid, temp)
		})
	}
}

// An engine that does not know the runtime says so, before anything is measured.
func TestBenchUnknownRuntime(t *testing.T) {
	t.Parallel()
	cmd, temp := benchCommand(t, "--runtime", "no-such-runtime")
	out, err := cmd.CombinedOutput()
	if code := exitCode(t, err); code != 125 || !strings.Contains(string(out), "no-such-runtime") {
		t.Errorf("exit %d\n%s", code, out)
	}
	checkBenchLeftNothing(t, cmd.Process.Pid, temp)
}

// The benchmark needs the docker command.
func TestBenchWithoutDocker(t *testing.T) {
	t.Parallel()
	cmd, temp := benchCommand(t, "cold")
	cmd.Env = append(cmd.Env, "PATH=/nowhere")
	out, err := cmd.CombinedOutput()
	if code := exitCode(t, err); code != 125 || !strings.Contains(string(out), "install it: apt-get install") {
		t.Errorf("exit %d\n%s", code, out)
	}
	checkBenchLeftNothing(t, cmd.Process.Pid, temp)
}

// evalImage is the image of the rows of eval, with bash and Python.
const evalImage = "belljar/debian:eval"

// needEvalImage makes sure that Docker's engine has it. CI builds it.
var evalImageOnce sync.Mutex

func needEvalImage(t *testing.T) {
	t.Helper()
	evalImageOnce.Lock()
	defer evalImageOnce.Unlock()
	if exec.Command("docker", "image", "inspect", evalImage).Run() == nil {
		return
	}
	if os.Getenv("CI") == "" {
		t.Skipf("NOT TESTED: without the image: belljar images build debian --packages python3,python3-pytest,git --tag %s", evalImage)
	}
	build := exec.Command(binary, "images", "build", "debian", "--packages", "python3,python3-pytest,git", "--tag", evalImage)
	build.Env = append(os.Environ(), "BELLJAR_ENGINE_KIND=docker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestBenchEval runs the rows of eval with few tasks, all of which pass on both sides.
func TestBenchEval(t *testing.T) {
	t.Parallel()
	cmd, temp := benchCommand(t, "eval", "-n", "1", "--engine", "docker", "--format", "json")
	needEvalImage(t)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	checkBenchLeftNothing(t, cmd.Process.Pid, temp)
	var report struct{ Rows []benchRow }
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatalf("%v\n%s", err, &stdout)
	}
	if len(report.Rows) != 2 {
		t.Errorf("%s", &stdout)
	}
	for i, row := range report.Rows {
		want := benchRow{Name: []string{"eval_plain", "eval_controls"}[i%2], N: 5, Peer: "2 x docker run"}
		if row.Name != want.Name || row.N != want.N || row.Peer != want.Peer || row.P50 <= 0 || row.PeerP50 <= 0 || row.PerSecond <= 0 {
			t.Errorf("row %d is %+v", i, row)
		}
	}
}
