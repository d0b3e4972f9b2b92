//go:build kubernetes

package kubernetes_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
)

// The roles of the test program as another process.
const (
	dirEnv       = roleEnv + "_DIR"
	namespaceEnv = roleEnv + "_NAMESPACE"
	sessionEnv   = roleEnv + "_SESSION"
	ownEnv       = roleEnv + "_OWN"
)

// TestMaker is no test: it is the process that is killed.
func TestMaker(t *testing.T) {
	if os.Getenv(roleEnv) == "" {
		t.Skip("it is for other tests")
	}
	c := config()
	c.Namespace, c.Dir, c.OwnSessions = os.Getenv(namespaceEnv), os.Getenv(dirEnv), os.Getenv(ownEnv) != ""
	e, err := kubernetes.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	i, err := e.Resolve(t.Context(), baseImage, sandbox.PullMissing)
	if err != nil {
		t.Fatal(err)
	}
	s := sandbox.Spec{
		Command: "maker-" + fmt.Sprint(os.Getpid()), Session: os.Getenv(sessionEnv), Image: i, User: user, Workdir: "/work", Network: "none",
		Limits: sandbox.Limits{Memory: 64 << 20, CPUs: 1, Pids: 64, Tmp: 8 << 20, Files: 256}, Deadline: time.Now().Add(5 * time.Minute),
	}
	box, err := e.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Exec(t.Context(), sandbox.Exec{Script: "trap '' TERM HUP; sleep 300", Dir: "/work", User: user, Stdout: io.Discard, Stderr: io.Discard}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("made", box.Info().ID)
	select {}
}

// maker is another process with a pod. Killing it leaves what it leaves.
func maker(t *testing.T, in, dir, session string, own bool) (kill func(), id string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestMaker$", "-test.timeout=10m")
	cmd.Env = append(os.Environ(), roleEnv+"=maker", namespaceEnv+"="+in, dirEnv+"="+dir, sessionEnv+"="+session)
	if own {
		cmd.Env = append(cmd.Env, ownEnv+"=1")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Cleanup(kill)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if rest, made := strings.CutPrefix(lines.Text(), "made "); made {
			return kill, rest
		}
		t.Log(lines.Text())
	}
	t.Fatal("the other process made no pod")
	return nil, ""
}

// ownNamespace is one for a single test.
func ownNamespace(t *testing.T, suffix string) string {
	t.Helper()
	name := namespace + "-" + suffix
	if err := makeNamespace(name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kubectl("delete", "namespace", name, "--wait=false") })
	return name
}

// await waits until something is so.
func await(t *testing.T, limit time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !so() {
		if time.Since(began) > limit {
			t.Fatalf("%s: not after %v", what, limit)
		}
		time.Sleep(300 * time.Millisecond)
	}
	return time.Since(began)
}

// A pod ends with its process, and the next belljar removes what is left.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		in := ownNamespace(t, fmt.Sprintf("killed-%v", own))
		session := ""
		if own {
			session = "own"
		}
		kill, _ := maker(t, in, t.TempDir(), session, own)
		kill()
		took := await(t, 2*time.Minute, "the pod ends", func() bool {
			return mustKubectl(t, "-n", in, "get", "pods", "-o", "jsonpath={.items[*].status.phase}") == "Succeeded"
		})
		t.Logf("the pod ended %v after its process was killed", took.Round(time.Millisecond))
		e := open(t, func(c *kubernetes.Config) { c.Namespace = in })
		if n, err := e.Sweep(t.Context()); n != 1 || err != nil {
			t.Errorf("swept %d, error %v", n, err)
		}
		if left := left(in); left != "" {
			t.Errorf("left: %s", left)
		}
	}
}

// A session outlives its process; another one continues it, and no two at once.
func TestSessionOfAnotherProcess(t *testing.T) {
	t.Parallel()
	in, dir := ownNamespace(t, "session"), t.TempDir()
	kill, id := maker(t, in, dir, "dev", false)
	e := open(t, func(c *kubernetes.Config) { c.Namespace, c.Dir = in, dir })
	list, err := e.Sessions(t.Context(), "dev")
	if err != nil || len(list) != 1 || list[0].ID != id {
		t.Fatalf("%+v, error %v", list, err)
	}
	if _, err := e.Adopt(t.Context(), list[0]); sandbox.CauseOf(err) != sandbox.CauseBusy {
		t.Errorf("while another process uses it: %v", err)
	}
	kill()
	if n, err := e.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("a session was swept: %d, error %v", n, err)
	}
	box, err := e.Adopt(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	processes, err := box.Processes(t.Context())
	if err != nil || len(processes) != 1 || processes[0].Command != "sleep 300" {
		t.Errorf("%+v, error %v", processes, err)
	}
	if out, _ := run(t, box, "echo on"); out != "on\n" {
		t.Errorf("%q", out)
	}
	stranger := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	if list, err := stranger.Sessions(t.Context(), ""); len(list) != 0 || err != nil {
		t.Errorf("a user without its record sees it: %+v, error %v", list, err)
	}
	if err := box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := e.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if records, _ := filepath.Glob(filepath.Join(dir, "kubernetes", "[0-9a-f]*.json")); len(records) != 0 {
		t.Errorf("records are left: %v", records)
	}
}

// A pod with labels of a session's is none.
func TestForgedSession(t *testing.T) {
	t.Parallel()
	in := ownNamespace(t, "forged")
	e := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	box, err := e.Create(t.Context(), newSpec(t, func(s *sandbox.Spec) { s.Session = "real" }))
	if err != nil {
		t.Fatal(err)
	}
	forged := mustKubectl(t, "-n", in, "get", "pods", "-o", "json")
	forged = strings.NewReplacer(`"name": "belljar-`, `"name": "forged-`).Replace(forged)
	cmd := exec.Command("sh", "-c", `"$CLUSTER_PROGRAM" kubectl -n `+in+` create -f -`)
	cmd.Stdin = strings.NewReader(forged)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	await(t, 2*time.Minute, "the forged pod runs", func() bool {
		return strings.Count(mustKubectl(t, "-n", in, "get", "pods", "-o", "jsonpath={.items[*].status.phase}"), "Running") == 2
	})
	list, err := e.Sessions(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].ID != box.Info().ID {
		t.Errorf("%+v, error %v", list, err)
	}
	if err := box.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if list, err := e.Sessions(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("%+v, error %v", list, err)
	}
}

// What runs ends when the API server does, and says so at once; what ends meanwhile is deleted later. It runs alone.
func TestAPIServerDown(t *testing.T) {
	in := ownNamespace(t, "down")
	e := open(t, func(c *kubernetes.Config) { c.Namespace = in })
	box, err := e.Create(t.Context(), newSpec(t))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := e.Create(t.Context(), newSpec(t, func(s *sandbox.Spec) { s.Session = "kept" }))
	if err != nil {
		t.Fatal(err)
	}
	run(t, kept, "echo kept >/tmp/file")
	p, _ := begin(t, box, "sleep 1000")
	down := exec.Command(filepath.Join(os.Getenv("BELLJAR_REPOSITORY"), "scripts/cluster"), "restart-apiserver", os.Getenv("CLUSTER"), "30")
	down.Stderr = os.Stderr
	if err := down.Start(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	if status, err := p.Wait(ctx); sandbox.CauseOf(err) != sandbox.CauseEngineLost || ctx.Err() != nil {
		t.Errorf("status %d, error %v", status, err)
	} else {
		t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
	}
	if _, err := e.Create(ctx, newSpec(t)); sandbox.CauseOf(err) != sandbox.CauseEngine {
		t.Errorf("a new pod meanwhile: %v", err)
	}
	if err := box.Remove(t.Context()); err == nil && time.Since(began) < 28*time.Second {
		t.Error("it is removed without an API server")
	}
	if err := down.Wait(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	await(t, 3*time.Minute, "the session goes on", func() bool {
		out.Reset()
		p, err := kept.Exec(t.Context(), sandbox.Exec{Script: "cat /tmp/file", Dir: "/work", User: user, Stdout: &out, Stderr: &out})
		if err == nil {
			_, err = p.Wait(t.Context())
		}
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
	if out.String() != "kept\n" {
		t.Errorf("the session has %q", out.String())
	}
	await(t, 2*time.Minute, "it is removed", func() bool { return kept.Remove(t.Context()) == nil })
	await(t, 3*time.Minute, "all pods are deleted", func() bool { return !strings.Contains(left(in), "pod/") })
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left := left(in); left != "" {
		t.Errorf("left: %s", left)
	}
}
