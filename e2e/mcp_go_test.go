package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// goImage is the base image and the Go of this host, without what tests do not need.
func goImage(t *testing.T) string {
	t.Helper()
	needDocker(t)
	dir, tag := t.TempDir(), fmt.Sprintf("belljar-test/go:%d", time.Now().UnixNano())
	const files = `
		root=$(go env GOROOT)
		mkdir -p image/usr/local/bin image/usr/local/go
		ln -s ../go/bin/go image/usr/local/bin/go
		tar -C "$root" -c --exclude=src/cmd --exclude=testdata --exclude='*_test.go' VERSION go.env bin/go pkg/tool pkg/include src | tar -C image/usr/local/go -x --no-same-owner
		printf 'FROM belljar/base\nCOPY image/ /\n' >Dockerfile`
	make := exec.Command("bash", "-euo", "pipefail", "-c", files)
	make.Dir = dir
	if out, err := make.CombinedOutput(); err != nil {
		t.Fatalf("copying Go: %v\n%s", err, out)
	}
	t.Cleanup(func() { must(t, "docker", "rmi", "--force", tag) })
	must(t, "docker", "build", "--quiet", "--tag", tag, dir)
	return tag
}

// An agent finds out why a Go test fails and fixes it. The session keeps what was compiled.
func TestAgentFixesGo(t *testing.T) {
	t.Parallel()
	dir := project(t, map[string]string{
		"go.mod":      "module sum\n\ngo 1.21\n",
		"sum.go":      "package sum\n\n// Sum adds.\nfunc Sum(a, b int) int { return a - b }\n",
		"sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif got := Sum(2, 3); got != 5 {\n\t\tt.Errorf(\"Sum(2, 3) is %d, want 5\", got)\n\t}\n}\n",
	})
	server := mcpServer(t, dir, "--write", "--image", goImage(t))
	settings := t.TempDir()
	if err := os.Mkdir(filepath.Join(settings, "belljar"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(settings, "belljar", "sandbox.yaml"), []byte("limits: {memory: 1g, tmp: 512m}\nidle_timeout: 30m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server.Env = append(server.Env, "XDG_CONFIG_HOME="+settings)
	a := startAgent(t, server)

	test := func() answered {
		got := a.run("go test -vet=off ./...", "session", "fix", "timeout_seconds", 1800, "yield_seconds", 50)
		for got.data["state"] == "running" {
			got = a.call("shell_output", map[string]any{"id": got.data["id"], "offset": got.data["next_offset"], "wait_seconds": 50})
		}
		return got
	}
	a.says(test(), false, "Status: error", "Exit code: 1", "Sum(2, 3) is -1, want 5", "sum_test.go:7")
	a.says(a.call("file_read", map[string]any{"session": "fix", "path": "sum.go"}), false, "return a - b")
	a.says(a.call("file_write", map[string]any{"session": "fix", "path": "sum.go", "content": "package sum\n\n// Sum adds.\nfunc Sum(a, b int) int { return a + b }\n"}), false, "sum.go")
	a.says(test(), false, "Status: success", "ok ")
	if len(a.asked) > 0 {
		t.Errorf("asked %q", a.asked)
	}
	if err := a.session.Close(); err != nil {
		t.Error(err)
	}
}
