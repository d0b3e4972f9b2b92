package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"belljar/sandbox"
)

func TestDockerHabits(t *testing.T) {
	for arg, want := range map[string]string{
		"--rm": "always removed", "--name=x": "--session NAME", "-p80:80": "ports are never published",
		"--publish=80:80": "ports are never published", "--gpus=all": "no devices", "--privileged": "lock-down", "--cap-add=ALL": "no capabilities",
		"--entrypoint=sh": "COMMAND", "--volumes-from=x": "-v SOURCE:TARGET", "--no-such-flag": "see belljar run --help", "-it": "",
	} {
		root := rootCmd()
		root.SetArgs([]string{"run", arg, "--config", "/nowhere", "--format", "none", "true"})
		root.SetOut(io.Discard)
		err := root.Execute()
		if want == "" {
			want = `--format "none" is unknown`
		}
		if err == nil || !strings.Contains(err.Error(), want) || sandbox.CauseOf(err) != sandbox.CauseInvalid || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	for name, same := range sameHabit {
		if habits[same] == "" || habits[name] != "" {
			t.Errorf("%s is %s, of which nothing is said", name, same)
		}
	}
	for name := range habits {
		if f := runCmd(&globals{}).Flags().Lookup(name); f != nil {
			t.Errorf("belljar run has --%s", name)
		}
	}
}

func TestMeantImage(t *testing.T) {
	ended := &sandbox.Result{Cause: sandbox.CauseExited, ExitCode: 127}
	here := func(image string) bool { return image == "belljar/base" }
	for args, want := range map[string]string{
		"alpine echo hi": "belljar run --image alpine -- echo hi", "ubuntu:22.04 ls": "belljar run --image ubuntu:22.04 -- ls",
		"belljar/base ls": "belljar run --image belljar/base -- ls", "alpine": "", "nosuch x": "", "bin/x y": "",
	} {
		if got := meantImage(strings.Fields(args), ended, here); !strings.HasSuffix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %q", args, got)
		}
	}
	for _, r := range []*sandbox.Result{nil, {Cause: sandbox.CauseExited, ExitCode: 1}, {Cause: sandbox.CauseDenied, ExitCode: -2}} {
		if got := meantImage([]string{"alpine", "x"}, r, here); got != "" {
			t.Errorf("%+v: %q", r, got)
		}
	}
}

func TestUnread(t *testing.T) {
	gone := &fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}
	for err, want := range map[error]bool{
		gone: true, fmt.Errorf("writing: %w", gone): true, syscall.EPIPE: false, errors.New("x"): false,
		&fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC}: false, &fs.PathError{Op: "write", Path: "/x", Err: syscall.EPIPE}: false,
	} {
		if unread(err) != want {
			t.Errorf("%v", err)
		}
	}
}

// A failure's next step is that of what lies under it.
func TestProblemsFix(t *testing.T) {
	under := &sandbox.Error{Cause: sandbox.CauseEngine, Message: "writing it", Hint: "make room"}
	for _, c := range []struct{ err, text, fix any }{
		{&sandbox.Error{Message: "it is not run", Err: under}, "it is not run: writing it", "make room"},
		{&sandbox.Error{Message: "it is not run", Err: under, Hint: "see: belljar doctor"}, "it is not run: writing it", "make room"},
		{&sandbox.Error{Message: "x", Hint: "do y"}, "x", "do y"},
		{errors.New("x"), "x", "see the engine's log: journalctl -u docker"},
		{&sandbox.Error{Message: "x", Hint: "see: belljar doctor"}, "x", "see the engine's log: journalctl -u docker"},
	} {
		if f := (&patient{}).problem(c.err.(error)); f.Text != c.text || f.Fix != c.fix || f.Status != verdictFail {
			t.Errorf("%v: %+v", c.err, f)
		}
	}
}
