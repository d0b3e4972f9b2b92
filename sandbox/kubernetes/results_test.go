//go:build kubernetes

package kubernetes_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// told is what belljar run --format json prints.
type told struct {
	Status, Cause, Message, Stdout string
	ExitCode                       int `json:"exit_code"`
	Error                          struct{ Hint string }
}

// ended is belljar run, and its exit status.
type ended struct {
	told
	status int
}

// runs is belljar run in a namespace.
type runs struct {
	cmd         *exec.Cmd
	out, errors bytes.Buffer
}

func belljar(t *testing.T, in string, args ...string) *runs {
	t.Helper()
	name, err := program()
	if err != nil {
		t.Fatal(err)
	}
	r := &runs{cmd: exec.Command(name, append([]string{"run", "--format", "json", "--memory", "64m"}, args...)...)}
	r.cmd.Env = environ("XDG_STATE_HOME="+t.TempDir(), "BELLJAR_ENGINE_KIND=kubernetes", "BELLJAR_ENGINE_KUBERNETES_NAMESPACE="+in,
		"BELLJAR_ENGINE_KUBERNETES_IMAGE=localhost/belljar:test", "BELLJAR_ENGINE_KUBERNETES_PULL=never", "BELLJAR_IMAGE="+baseImage)
	r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = t.TempDir(), &r.out, &r.errors
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *runs) wait(t *testing.T) (e ended) {
	t.Helper()
	stop := time.AfterFunc(3*time.Minute, func() { r.cmd.Process.Kill() })
	defer stop.Stop()
	r.cmd.Wait()
	if err := json.Unmarshal(r.out.Bytes(), &e.told); err != nil {
		t.Fatalf("%v: %s %s", err, &r.out, &r.errors)
	}
	e.status = r.cmd.ProcessState.ExitCode()
	return e
}

// podThatRuns is the one pod of a namespace, once it runs its command.
func podThatRuns(t *testing.T, in string) (name string) {
	t.Helper()
	await(t, time.Minute, "a pod runs", func() bool {
		text := mustKubectl(t, "-n", in, "get", "pods", "-l", "belljar.dev/kind!=image", "-o", `jsonpath={range .items[*]}{.metadata.name}={.status.phase}{"\n"}{end}`)
		var runs bool
		name, runs = strings.CutSuffix(text, "=Running")
		return runs && !strings.Contains(name, "\n")
	})
	await(t, time.Minute, "the command runs", func() bool {
		logs, err := kubectl("-n", in, "logs", name)
		return err == nil && strings.Contains(logs, "begun")
	})
	return name
}

// What belljar says of a command when something happens to its pod: its status, its cause, its exit status, and what it had written.
func TestResults(t *testing.T) {
	t.Parallel()
	const long = "echo begun; sleep 100"
	pod := func(t *testing.T, in string, args ...string) { mustKubectl(t, append([]string{"-n", in}, args...)...) }
	for name, row := range map[string]struct {
		before func(t *testing.T, in string)
		args   []string
		during func(t *testing.T, in, pod string) // nil: it ends by itself
		want   ended
		says   string
	}{
		"exit status": {args: []string{"echo begun; exit 3"}, want: ended{told{Status: "error", Cause: "exited", Stdout: "begun\n", ExitCode: 3}, 3}},
		"timeout":     {args: []string{"--timeout", "2s", long}, want: ended{told{Status: "timeout", Cause: "wall_timeout", Stdout: "begun\n", ExitCode: -1}, 124}, says: "still running after 2s"},
		"out of memory": {args: []string{"echo begun; tail /dev/zero"}, want: ended{told{Status: "error", Cause: "oom_killed", Stdout: "begun\n", ExitCode: 137}, 137},
			says: "out of memory"},
		"deleted": {
			args: []string{long}, during: func(t *testing.T, in, name string) { pod(t, in, "delete", "pod", name, "--wait=false") },
			want: ended{told{Status: "fatal", Cause: "engine_lost", Stdout: "begun\n", ExitCode: -2}, 125}, says: "deleted the pod",
		},
		"evicted": {
			args: []string{long}, during: func(t *testing.T, in, name string) { evict(t, in, name) },
			want: ended{told{Status: "fatal", Cause: "engine_lost", Stdout: "begun\n", ExitCode: -2}, 125}, says: "EvictionByEvictionAPI",
		},
		"deadline": {
			args: []string{long},
			during: func(t *testing.T, in, name string) {
				pod(t, in, "patch", "pod", name, "-p", `{"spec":{"activeDeadlineSeconds":1}}`)
			},
			want: ended{told{Status: "fatal", Cause: "engine_lost", Stdout: "begun\n", ExitCode: -2}, 125}, says: "DeadlineExceeded",
		},
		"more than a quota": {
			before: func(t *testing.T, in string) { quota(t, in, "pods=0") },
			args:   []string{"true"}, want: ended{told{Status: "fatal", Cause: "invalid_command", ExitCode: -2}, 125}, says: "exceeded quota",
		},
		"quota in use": {
			before: func(t *testing.T, in string) {
				first := belljar(t, in, "--timeout", "30s", long)
				t.Cleanup(func() { first.wait(t) })
				podThatRuns(t, in)
				quota(t, in, "pods=1")
			},
			args: []string{"true"}, want: ended{told{Status: "fatal", Cause: "busy", ExitCode: -2}, 125}, says: "exceeded quota",
		},
		"no image": {
			args: []string{"--image", "localhost/none:1", "--pull", "never", "true"}, want: ended{told{Status: "fatal", Cause: "image_error", ExitCode: -2}, 125}, says: "localhost/none:1",
		},
		"root": {args: []string{"--user", "root", "true"}, want: ended{told{Status: "fatal", Cause: "invalid_command", ExitCode: -2}, 125}, says: "root"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := ownNamespace(t, "result-"+strings.ReplaceAll(name, " ", "-"))
			if row.before != nil {
				row.before(t, in)
			}
			r := belljar(t, in, row.args...)
			if row.during != nil {
				row.during(t, in, podThatRuns(t, in))
			}
			got := r.wait(t)
			want := row.want
			if got.Status != want.Status || got.Cause != want.Cause || got.ExitCode != want.ExitCode || got.status != want.status || got.Stdout != want.Stdout || !strings.Contains(got.Message, row.says) {
				t.Errorf("%+v, want %+v, which says %q", got, want, row.says)
			}
			if (got.Status == "fatal") != (got.Error.Hint != "") {
				t.Errorf("its hint is %q", got.Error.Hint)
			}
			await(t, time.Minute, "nothing is left", func() bool { return left(in) == "" })
		})
	}
}
