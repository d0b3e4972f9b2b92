package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belljar/eval/run"
)

// builtTask writes a task folder whose image a Dockerfile makes.
func (e *evaluating) builtTask(t *testing.T, name, dockerfile, settings string) {
	t.Helper()
	for file, text := range map[string]string{
		"task.toml":              "[environment]\nnetwork_mode = \"no-network\"\n" + settings,
		"instruction.md":         "Copy what the image has.\n",
		"environment/Dockerfile": dockerfile,
		"tests/test.sh":          "grep -qx built-as-0 out && [ \"$KIND\" = plain ] && echo 1 >/logs/verifier/reward.txt\n",
		"solution/solve.sh":      "cp made out\n",
	} {
		at := filepath.Join(e.dir, name, file)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Docker's engine builds the image of a task whose Dockerfile runs something, if that is allowed, within bounds and
// without a network.
func TestEvalBuild(t *testing.T) {
	needDocker(t)
	t.Parallel()
	needEvalImage(t)
	e := &evaluating{t.TempDir(), append(os.Environ(), "BELLJAR_ENGINE_KIND=docker")}
	const from = "FROM " + evalImage + "\n"
	e.builtTask(t, "builds", from+"ENV KIND=plain\nWORKDIR /srv/work\nRUN echo built-as-$(id -u) >made && \\\n    ! grep -q eth0 /proc/net/dev\n", "")
	e.builtTask(t, "fails", from+"RUN echo no such step >&2; exit 3\n", "")
	e.builtTask(t, "hangs", from+"RUN sleep 1000\n", "build_timeout_sec = 2.0\n")
	e.builtTask(t, "base", "FROM belljar/nosuch:1\nRUN true\n", "")
	if said := e.run(t, 125, "run", "builds", "--agent", "oracle", "--out", "none"); !strings.Contains(said, "which needs an image to be built (run it with --allow-build") {
		t.Errorf("without --allow-build: %s", said)
	}
	for task, want := range map[string]string{"fails": "exit 3' returned a non-zero code: 3", "hangs": "not built within 2s", "base": `"belljar/nosuch:1" is not present`} {
		if said := e.run(t, 125, "run", task, "--agent", "oracle", "--out", "none", "--allow-build"); !strings.Contains(said, want) || !strings.Contains(said, `task "`+task+`"`) {
			t.Errorf("%s: %s, want %q", task, said, want)
		}
	}
	t.Cleanup(func() {
		if d, err := run.Open(filepath.Join(e.dir, "out")); err == nil {
			exec.Command("docker", "image", "rm", d.Run.Tasks[0].Image).Run()
		}
	})
	if said := e.run(t, 0, "run", "builds", "--agent", "oracle", "--out", "out", "--allow-build"); !strings.Contains(said, "1 of 1 trial passed") {
		t.Errorf("built: %s", said)
	}
	if said := e.run(t, 125, "regrade", "out"); !strings.Contains(said, "name it again: --allow-build") {
		t.Errorf("graded again without --allow-build: %s", said)
	}
	if said := e.run(t, 0, "regrade", "out", "--allow-build"); !strings.Contains(said, "1 verdicts are the same") {
		t.Errorf("graded again: %s", said)
	}
	e.env = append(e.env, "BELLJAR_ENGINE_KIND=oci", "XDG_STATE_HOME="+t.TempDir())
	if hasRuntime() && os.Getuid() == 0 {
		if said := e.run(t, 125, "run", "builds", "--agent", "oracle", "--out", "none", "--allow-build"); !strings.Contains(said, "only Docker's engine can do (use Docker's engine") {
			t.Errorf("without a daemon: %s", said)
		}
	}
}
