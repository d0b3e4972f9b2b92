package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/cmd/internal/template"
	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
	"belljar/view"
)

// alwaysAsks is a policy that asks about everything, and the approver who is
// fine with all of it.
type alwaysAsks struct{ sandbox.Policy }

func (alwaysAsks) Hash() string                   { return "one" }
func (alwaysAsks) Steers(string) bool             { return false }
func (alwaysAsks) AllowEnv(string) bool           { return true }
func (alwaysAsks) CheckMount(sandbox.Mount) error { return nil }
func (alwaysAsks) Writable(string) bool           { return false }

func (alwaysAsks) JudgeScript(_, _, _ string) sandbox.Verdict {
	return sandbox.Verdict{
		Decision: sandbox.Ask, Rule: "all", Reason: "it asks",
		Commands: []sandbox.CommandVerdict{{Decision: sandbox.Ask, Rule: "all", Program: "x"}},
	}
}

func (alwaysAsks) Approve(context.Context, sandbox.Question) (sandbox.Approval, error) {
	return sandbox.Approval{Answer: sandbox.AnswerAlways, By: "test"}, nil
}

// fills runs a template with three commands, and has its text, what was said on
// stderr, and the exit status.
func fills(t *testing.T, l sandbox.Preparer, like sandbox.Command, format string) (text, said string, status int) {
	t.Helper()
	parsed, err := template.Parse("a !{one}\nb !{two}\nc !{three}\n")
	if err != nil {
		t.Fatal(err)
	}
	commands, err := parsed.Commands("")
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	show := &printer{format: "text", out: &out, err: &errs, streams: [2]io.Writer{&out, &errs}}
	fill := &filling{name: "t.md", template: parsed, commands: commands, json: format == "json", show: show}
	err = fill.run(t.Context(), l, like, nil)
	if exit, ok := errors.AsType[exitError](err); ok {
		status = int(exit)
	} else if err != nil {
		t.Error(err)
	}
	return out.String(), errs.String(), status
}

func filler(e *sandboxtest.Engine) *local.Local {
	return &local.Local{Engine: e, Images: &sandboxtest.Images{}, Viewer: view.Viewer{}, Profiles: map[string]sandbox.Profile{"default": {
		Image: "belljar/base", Pull: sandbox.PullMissing, Timeout: time.Minute, IdleTimeout: time.Minute, MaxTimeout: time.Hour,
		Workdir: "/work", User: sandbox.User{UID: 65534, GID: 65534},
		Limits:  sandbox.Limits{Memory: 512 << 20, CPUs: 1, Pids: 128, Output: 16 << 20, Tmp: 64 << 20, Files: 1024},
		Network: "none", OnOutputLimit: sandbox.OutputTruncate,
		Session: sandbox.SessionLife{Max: 24 * time.Hour, Idle: time.Hour},
		View:    sandbox.View{Bytes: 1000, Lines: 100, LineChars: 100},
	}}}
}

// What others said was lost once a later command of the template could not
// begin.
func TestTemplateKeepsWhatRan(t *testing.T) {
	const notRun = "[not run: the command at t.md:2:3 did not finish]\n"
	t.Run("fatal", func(t *testing.T) {
		for _, format := range []string{"text", "json"} {
			e, made := &sandboxtest.Engine{Script: func(p *sandboxtest.Proc) int { io.WriteString(p.Stdout, "out"); return 3 }}, 0
			e.OnCreate = func(context.Context) error {
				if made++; made == 2 {
					return errors.New("the disk is full")
				}
				return nil
			}
			text, said, status := fills(t, filler(e), sandbox.Command{}, format)
			want := "a out\n[exit status 3]\nb [fatal: "
			if format == "json" {
				want = `{"text":"a out\n[exit status 3]\nb [fatal: `
			}
			if status != exitFailed || !strings.HasPrefix(text, want) || !strings.Contains(text, strings.Trim(notRun, "\n")) {
				t.Errorf("%s: %d: %s", format, status, text)
			}
			if n := strings.Count(text, `"status":`); format == "json" && n != 2 {
				t.Errorf("%d results: %s", n, text)
			}
			if !strings.HasPrefix(said, "belljar: t.md:2:3: ") || !strings.Contains(said, "the disk is full") {
				t.Errorf("%s: %s", format, said)
			}
		}
	})
	t.Run("first", func(t *testing.T) {
		e := &sandboxtest.Engine{OnCreate: func(context.Context) error { return errors.New("the disk is full") }}
		if text, said, status := fills(t, filler(e), sandbox.Command{}, "text"); text != "" || status != exitFailed || !strings.HasPrefix(said, "belljar: t.md:1:3: ") {
			t.Errorf("%d: %q, %s", status, text, said)
		}
	})
	// What was approved for the session goes with its container.
	t.Run("denied", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			late := false
			e := &sandboxtest.Engine{Script: func(p *sandboxtest.Proc) int {
				io.WriteString(p.Stdout, "out\n")
				if late {
					<-p.Killed
				}
				return 0
			}}
			l := filler(e)
			l.StateDir, l.Approver = t.TempDir(), alwaysAsks{}
			p := l.Profiles["default"]
			p.Policy = alwaysAsks{}
			l.Profiles["default"] = p
			like := sandbox.Command{Session: "s"}
			if text, said, status := fills(t, l, like, "text"); status != 0 {
				t.Fatalf("%d: %s, %s", status, text, said)
			}
			late = true
			text, said, status := fills(t, l, like, "text")
			if status != exitDenied || !strings.HasPrefix(text, "a out\n[timeout: ") || !strings.Contains(text, "\nb [denied: ") || !strings.HasSuffix(text, "]\nc "+notRun) {
				t.Errorf("%d: %s", status, text)
			}
			if !strings.Contains(said, "belljar: t.md:2:3: ") {
				t.Error(said)
			}
			l.Close()
		})
	})
}
