package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// binary is the belljar under test, built as for a user. watched is the same, with the race detector
// if E2E_RACE is set: what serves, many commands at once. The detector takes as much processor as the
// rest, so that what runs one command is without it, and so are the tests, which compare much output.
var binary, watched string

// sideBySide is how many tests run at once. They wait more than they compute;
// with more of them, tests with a short deadline get too little CPU.
const sideBySide = "4"

func TestMain(m *testing.M) { os.Exit(runAll(m)) }

// longSoak is how many commands a soak has, if the environment says so. That is for these
// tests: belljar refuses a variable of its own that sets nothing.
var longSoak string

func runAll(m *testing.M) int {
	longSoak = os.Getenv("BELLJAR_SOAK")
	os.Unsetenv("BELLJAR_SOAK")
	dir, err := os.MkdirTemp("", "belljar-e2e-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary, watched = filepath.Join(dir, "belljar"), filepath.Join(dir, "watched", "belljar")
	os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state")) // not the user's
	imageStore = filepath.Join(dir, "state", "belljar", "images")
	if os.Getenv("BELLJAR_ENGINE_INIT") == "" { // "none": Docker's engine starts commands itself
		os.Setenv("BELLJAR_ENGINE_INIT", binary) // of watched, too, which is linked dynamically
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each watched process, and its guard, ends a second late
	builds := []*exec.Cmd{withoutCgo("build", "-o", binary, "../cmd/belljar")}
	if os.Getenv("E2E_RACE") != "" {
		build := exec.Command("go", "build", "-race", "-ldflags", "-s -w", "-o", watched, "../cmd/belljar")
		build.Env = append(os.Environ(), "CGO_ENABLED=1")
		builds = append(builds, build)
	} else {
		watched = binary
	}
	for _, build := range builds {
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building belljar: %v\n%s", err, out)
			return 1
		}
	}
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", sideBySide)
	}
	switch {
	case onPods() && engineAnswers():
		end, err := usePods(dir)
		defer end()
		if err != nil {
			fmt.Fprintf(os.Stderr, "preparing the cluster: %v\n", err)
			return 1
		}
	case engineAnswers():
		// The base image, which every test needs, is built once.
		if out, err := exec.Command(binary, "images", "build", "base").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "building the base image: %v\n%s", err, out)
			return 1
		}
	}
	code := m.Run()
	if onPods() { // what a killed belljar leaves, the next one removes
		exec.Command(binary, "session", "ls").Run()
	}
	left := orphans()
	for range 600 { // other packages' tests kill belljars, too, whose guards are at work then
		if left == "" {
			return code
		}
		time.Sleep(100 * time.Millisecond)
		left = orphans()
	}
	fmt.Fprintf(os.Stderr, "FAIL: containers are left over:\n%s\n", left)
	return 1
}

// withoutCgo is a command of go without cgo, as the Makefile builds belljar for a user. What
// one of them compiles serves the others, too.
func withoutCgo(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd
}

// needRoot fails in CI, and skips elsewhere.
func needRoot(t *testing.T, what string) {
	t.Helper()
	if os.Getuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("%s takes root", what)
	}
	t.Skipf("NOT TESTED: %s takes root", what)
}

// lives reports whether the process with the name PID@start still
// runs.
func lives(process string) bool {
	pid, start, _ := strings.Cut(process, "@")
	stat, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	return len(fields) > 19 && fields[19] == start
}

// eventually polls: the condition depends on another process.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // also while the test cleans up
	defer cancel()
	pause := 20 * time.Millisecond
	if onPods() {
		pause = 250 * time.Millisecond // a look is two requests to an API server
	}
	for !is() {
		select {
		case <-ctx.Done():
			t.Fatalf("still not: %s", what)
		case <-time.After(pause):
		}
	}
}

func TestScripts(t *testing.T) {
	needEachEngine(t)
	t.Parallel()
	params := scripts()
	if onPods() {
		params.Dir, params.Files = "", scriptsOverPods(t)
	}
	testscript.Run(t, params)
}

// scripts are those of testdata. The condition sidecar is true where they run at one; docker, oci and
// kubernetes say what the engine is.
func scripts() testscript.Params {
	return testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Condition: func(name string) (bool, error) {
			switch name {
			case "sidecar":
				return false, nil
			case "docker", "oci", "kubernetes":
				return engineKind() == name, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+":"+env.Getenv("PATH"))
			for _, name := range append(podVariables, "DOCKER_HOST", "CI", "XDG_STATE_HOME", "GORACE", "BELLJAR_ENGINE_INIT") {
				if value, is := os.LookupEnv(name); is {
					env.Setenv(name, value)
				}
			}
			// Others use the engine, too. A script that fails does not remove it.
			session := fmt.Sprintf("e2e-%d", time.Now().UnixNano())
			env.Setenv("SESSION", session)
			env.Defer(func() { removeSession(session) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":  status,
			"nothing": nothing,
		},
	}
}

// status N CMD...: runs a command that must exit with N.
func status(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // testscript returns it bare
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit status %d, not %s", code, args[0])
	}
}

// nothing stdout|stderr: that output is empty.
func nothing(ts *testscript.TestScript, _ bool, args []string) {
	if text := ts.ReadFile(args[0]); text != "" {
		ts.Fatalf("%s has %q", args[0], text)
	}
}

// resetSignal resets signals for the belljars of a test, because the
// suite may run under nohup: they would inherit ignored signals.
func resetSignal(t *testing.T, sig os.Signal) {
	t.Helper()
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, sig)
	t.Cleanup(func() { signal.Stop(caught) })
}
