package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// needProgram fails in CI, where scripts/setup installs all of them.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s is missing: see scripts/setup", name)
	}
	t.Skipf("NOT TESTED: %s is missing", name)
}

// TestSystemd checks the units, with the binary where it is now.
func TestSystemd(t *testing.T) {
	needOnce(t)
	t.Parallel()
	needProgram(t, "systemd-analyze")
	dir := t.TempDir()
	for _, name := range []string{"belljar.service", "belljar.socket"} {
		text, err := os.ReadFile("../deploy/" + name)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/belljar", binary))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	service := filepath.Join(dir, "belljar.service")
	for _, args := range [][]string{
		{"verify", "--man=no", service, filepath.Join(dir, "belljar.socket")},
		{"security", "--offline=true", "--threshold=25", "--no-pager", service}, // of 100; 96 is a service without any restriction
	} {
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

// sidecarTree is what the image is built from: the repository, with a static binary. Its
// image has another name, for that of the user to stay.
func sidecarTree(t *testing.T, image string) (compose string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS("../deploy")); err != nil {
		t.Fatal(err)
	}
	tool(t, "cp", binary, filepath.Join(dir, "belljar"))
	ignored, err := os.ReadFile("../.dockerignore")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ".dockerignore"), ignored, 0o644)
	}
	compose = filepath.Join(dir, "deploy", "compose.yaml")
	text, e := os.ReadFile(compose)
	if err == nil {
		err = e
	}
	if err == nil {
		err = os.WriteFile(compose, []byte(strings.Replace(string(text), "image: belljar\n", "image: "+image+"\n", 1)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return compose
}

// TestImage builds the sidecar's image, and starts it as the files in deploy/ say.
func TestImage(t *testing.T) {
	t.Parallel()
	needDocker(t)
	needProgram(t, "docker-compose")
	needRoot(t, "reading a volume")
	project := fmt.Sprintf("belljar-e2e-%d", os.Getpid())
	image := project + "-image"
	compose := []string{"-p", project, "-f", sidecarTree(t, image)}
	t.Cleanup(func() {
		command("docker-compose", append(compose, "down", "-v", "-t", "40")...)
		command("docker", "rmi", image)
	})
	must(t, "docker-compose", append(compose, "config", "-q")...)
	must(t, "docker-compose", append(compose, "build", "-q", "belljar")...)
	t.Run("compose", func(t *testing.T) { tryCompose(t, project, image, compose) })
	t.Run("kubernetes", func(t *testing.T) { tryPod(t, project+"-pod", image) })
}

// command runs a program that knows the group of the engine's socket. The engine removes no
// image while other tests hold one of its containers.
func command(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "DOCKER_GID="+engineGroup())
	out, err := c.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := command(name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

func engineGroup() string {
	socket, err := os.Stat("/var/run/docker.sock")
	if err != nil {
		return err.Error()
	}
	return strconv.Itoa(int(socket.Sys().(*syscall.Stat_t).Gid))
}

// stopped ends a sidecar, and wants it to end well.
func stopped(t *testing.T, id string) {
	t.Helper()
	must(t, "docker", "stop", "-t", "40", id)
	if code := must(t, "docker", "inspect", "-f", "{{.State.ExitCode}}", id); code != "0" {
		t.Errorf("the sidecar ended with %s:\n%s", code, must(t, "docker", "logs", id))
	}
}

// tryCompose runs a command in the sidecar as a service next to it would.
func tryCompose(t *testing.T, project, image string, compose []string) {
	must(t, "docker-compose", append(compose, "up", "-d", "belljar")...)
	id := must(t, "docker-compose", append(compose, "ps", "-q", "belljar")...)
	eventually(t, "the sidecar is healthy", func() bool {
		return must(t, "docker", "inspect", "-f", "{{.State.Health.Status}}", id) == "healthy"
	})
	service := func(user string) []string {
		return []string{"run", "--rm", "--network", "none", "--user", user, "-v", project + "_run:/run/belljar", image, "health", "--ready"}
	}
	eventually(t, "the service is ready", func() bool {
		out, err := command("docker", service("65532:65532")...)
		return err == nil && out == "ready"
	})
	if out, err := command("docker", service("1000:1000")...); err == nil {
		t.Errorf("another user asks: %s", out)
	}
	volume := must(t, "docker", "volume", "inspect", "-f", "{{.Mountpoint}}", project+"_run")
	out := post(t, volume+"/belljar.sock", `{"command": "echo hello; sleep 100 &"}`)
	var r struct {
		Cause, Stdout string
		Lingering     []struct{ PID int }
		Evidence      struct{ Source string }
		Resources     struct {
			Memory int64 `json:"max_memory_bytes"`
		}
	}
	if err := json.Unmarshal(out, &r); err != nil || r.Cause != "exited" || r.Stdout != "hello\n" || len(r.Lingering) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if !strings.HasPrefix(r.Evidence.Source, "cgroup") || r.Resources.Memory == 0 || len(r.Lingering) == 1 && r.Lingering[0].PID == 0 {
		t.Errorf("with the host's processes and cgroups the sidecar does not see %s", out)
	}
	stopped(t, id)
}

// post asks for an execution over a socket, with a header if there is one, and returns its
// result.
func post(t *testing.T, socket, body string, header ...string) []byte {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/v1/executions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s, %v: %s", answer.Status, err, text)
	}
	return text
}
