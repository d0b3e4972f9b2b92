package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// withoutDocker runs a script where the default engine's socket cannot be reached, in the
// repository.
func withoutDocker(t *testing.T, script string) (string, error) {
	t.Helper()
	needRoot(t, "a mount namespace")
	const hide = `mount --make-rprivate / && if [ -e /var/run/docker.sock ]; then mount --bind /dev/null /var/run/docker.sock; fi && `
	cmd := exec.Command("unshare", "-m", "sh", "-c", hide+script, "sh", binary)
	cmd.Dir = ".."
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "DOCKER_") && !strings.HasPrefix(kv, "BELLJAR_ENGINE_KIND=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+t.TempDir(), "DOCKER_CONFIG="+t.TempDir(), "CI=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Where no Docker engine answers, auto is an OCI runtime, and doctor says so.
func TestWithoutDocker(t *testing.T) {
	needOnce(t)
	if !hasRuntime() {
		if os.Getenv("CI") != "" {
			t.Fatal("CI needs root, and crun or runc")
		}
		t.Skip("NOT TESTED: an engine without a daemon takes root, and crun or runc")
	}
	t.Parallel()
	for script, want := range map[string]string{
		`"$1" run 'echo "uid $(id -u)"; exit 3'; echo "status $?"`:  "uid 65534\nstatus 3\n",
		`"$1" run --format json true | grep -o '"engine":"[a-z]*"'`: `"engine":"oci"` + "\n",
		`"$1" doctor`: "engine.kind is auto, and Docker does not answer",
		`BELLJAR_ENGINE_KIND=docker "$1" run true || echo refused`:                                         "refused",
		`DOCKER_HOST=unix:///no.sock "$1" run true || echo refused`:                                        "no engine at unix:///no.sock",
		`PATH=/none; "$1" run true || echo refused`:                                                        "without Docker, engine.kind oci: this host has no OCI runtime: neither crun nor runc",
		`"$1" run --network bridge true || echo refused`:                                                   "none",
		`scripts/engine start && scripts/engine with "$1" run 'echo hello'`:                                "hello",
		`"$1" run --session x 'echo 1 >n' && "$1" run --session x 'cat n' && "$1" session rm x && "$1" ps`: "1\n",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			if out, err := withoutDocker(t, script); err != nil || !strings.Contains(out, want) {
				t.Errorf("%v, want %q: %s", err, want, out)
			}
		})
	}
}
