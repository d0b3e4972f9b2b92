package local_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"belljar/sandbox"
	"belljar/sandbox/local"
	"belljar/sandbox/sandboxtest"
)

// hearing is a policy that notes in which shell it judges.
type hearing struct {
	verdict
	shells *[]string
}

func (h hearing) JudgeScript(_, _, shell string) sandbox.Verdict {
	*h.shells = append(*h.shells, shell)
	return sandbox.Verdict{Decision: sandbox.Allow}
}

// judging is a runner whose default profile has that shell, and the shells that its
// policy judges in.
func judging(engine *sandboxtest.Engine, shell string) (*local.Local, *[]string) {
	l, shells := newLocal(engine), &[]string{}
	p := profile()
	p.Shell, p.Policy = shell, hearing{shells: shells}
	l.Profiles["default"] = p
	return l, shells
}

var withBash = map[string]string{"/bin/sh": "", "/usr/local/bin/bash": ""}

// The shell is looked up where that is needed, once for each image, and a script is
// judged in the shell that runs it.
func TestShell(t *testing.T) {
	for name, test := range map[string]struct {
		profile, command string
		files            map[string]string
		want             string // or a part of the refusal
		asked            int
	}{
		"default":              {"", "", withBash, "sh", 0},
		"the profile's":        {"bash", "", withBash, "bash", 1},
		"the command's":        {"bash", "sh", nil, "sh", 0},
		"bash":                 {"", "bash", withBash, "bash", 1},
		"auto, has it":         {"auto", "", withBash, "bash", 1},
		"auto, has none":       {"", "auto", nil, "sh", 1},
		"no bash":              {"", "bash", nil, `image "belljar/base" has no bash (use --shell sh, or an image that has bash)`, 1},
		"a file that is not x": {"", "bash", map[string]string{"/usr/bin/bash/x": "", "/lib/bash": ""}, "has no bash", 1},
		"unknown":              {"", "zsh\x1b", nil, `shell "zsh\x1b" is unknown (use sh, bash or auto)`, 0},
		"a path":               {"", "/bin/bash", withBash, `shell "/bin/bash" is unknown`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			engine := playing(func(p *sandboxtest.Proc) int { ran = append(ran, p.Shell); return 0 })
			engine.Etc = test.files
			asked := 0
			engine.OnModes = func(context.Context) error { asked++; return nil }
			l, judged := judging(engine, test.profile)
			for range 2 {
				r, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: "x", Shell: test.command})
				if len(test.want) > len("bash") {
					if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), test.want) || len(engine.Specs()) > 0 {
						t.Errorf("error %v, %d containers", err, len(engine.Specs()))
					}
				} else if err != nil || r.Shell != test.want {
					t.Errorf("ran in %q, error %v", r.Shell, err)
				}
			}
			if len(test.want) <= len("bash") {
				if want := []string{test.want, test.want}; fmt.Sprint(*judged) != fmt.Sprint(want) || fmt.Sprint(ran) != fmt.Sprint(want) {
					t.Errorf("judged in %q, ran in %q", *judged, ran)
				}
			}
			if asked != test.asked {
				t.Errorf("the engine was asked %d times", asked)
			}
			wantNoneLeft(t, engine)
		})
	}
}

// A session keeps its image: one that was judged in bash runs in no other shell.
func TestShellOfASession(t *testing.T) {
	var ran []string
	engine := playing(func(p *sandboxtest.Proc) int { ran = append(ran, p.Shell); return 0 })
	images := &sandboxtest.Images{}
	l := newLocal(engine)
	l.Images, l.StateDir = images, t.TempDir()
	defer l.Close()
	c := sandbox.Command{Script: "x", Session: "s", Shell: sandbox.ShellAuto}
	if r, err := sandbox.Run(t.Context(), l, c); err != nil || r.Shell != "sh" {
		t.Fatalf("%q, error %v", r.Shell, err)
	}
	engine.Etc = withBash // of what the reference means now
	images.Change("belljar/base", "sha256:new")
	r, err := sandbox.Run(t.Context(), l, c)
	if sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(r.Message, `has no bash (use --shell sh`) {
		t.Errorf("%q, error %v", r.Shell, err)
	}
	c.Shell = sandbox.ShellSh
	if _, err := sandbox.Run(t.Context(), l, c); err != nil || fmt.Sprint(ran) != "[sh sh]" {
		t.Errorf("ran in %q, error %v", ran, err)
	}
	if err := l.RemoveSession(t.Context(), "s"); err != nil {
		t.Error(err)
	}
}

// A gate that waits in sh becomes what the command asks for.
func TestShellOfAGate(t *testing.T) {
	var ran []string
	engine := playing(func(p *sandboxtest.Proc) int { ran = append(ran, p.Shell+" "+p.Script); return 0 })
	engine.Etc = withBash
	l := newLocal(engine)
	l.StateDir = t.TempDir()
	l.Warm()
	defer l.Close()
	long := strings.Repeat("x", sandbox.MaxArgument+1)
	for _, script := range []string{"short", long} {
		for _, shell := range []string{"sh", "bash"} {
			if r, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: script, Session: "s", Shell: shell, Stdin: strings.NewReader("x")}); err != nil || r.Shell != shell {
				t.Errorf("%q, error %v", r.Shell, err)
			}
			if got, want := ran[len(ran)-1], shell+" "+script; got != want {
				t.Errorf("ran %.20q, want %.20q", got, want)
			}
		}
	}
	if err := l.RemoveSession(t.Context(), "s"); err != nil {
		t.Error(err)
	}
}

// Where an image cannot be looked into, no shell is guessed.
func TestShellUnknown(t *testing.T) {
	for _, shell := range []string{"auto", "bash"} {
		engine := playing(func(*sandboxtest.Proc) int { return 0 })
		engine.OnModes = sandboxtest.Fail(&sandbox.Error{Cause: sandbox.CauseEngine, Message: "broken"})
		if _, err := sandbox.Run(t.Context(), newLocal(engine), sandbox.Command{Script: "x", Shell: shell}); sandbox.CauseOf(err) != sandbox.CauseEngine || len(engine.Specs()) > 0 {
			t.Errorf("%s: error %v", shell, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	engine.OnModes = func(ctx context.Context) error { cancel(); return ctx.Err() }
	if _, err := sandbox.Run(ctx, newLocal(engine), sandbox.Command{Script: "x", Shell: "auto"}); sandbox.CauseOf(err) != sandbox.CauseCanceled {
		t.Errorf("error %v", err)
	}
}

// What is not found is explained where it is bash and the image has none, and else
// nothing is guessed.
func TestNoBashIsExplained(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		status int
		files  map[string]string
		want   bool
	}{
		"bash -lc":        {"bash -lc 'ls'", 127, nil, true},
		"by its path":     {" \n/bin/bash x", 127, nil, true},
		"has bash":        {"bash -lc nothing", 127, withBash, false},
		"another program": {"bashful", 127, nil, false},
		"later":           {"ls; bash", 127, nil, false},
		"found":           {"bash -c 'exit 3'", 3, nil, false},
	} {
		engine := playing(func(*sandboxtest.Proc) int { return test.status })
		engine.Etc = test.files
		l := newLocal(engine)
		x, err := l.Start(t.Context(), sandbox.Command{Script: test.script})
		if err != nil {
			t.Fatal(err)
		}
		noticed := ""
		for _, e := range wantEvents(t, x) {
			if e.Type == sandbox.EventNotice {
				noticed = string(e.Data)
			}
		}
		r, err := x.Wait()
		if err != nil || r.ExitCode != test.status || r.Cause != sandbox.CauseExited {
			t.Errorf("%s: %+v, error %v", name, r, err)
		}
		if says := strings.Contains(r.Message, `image "belljar/base" has no bash`); says != test.want || noticed != r.Message {
			t.Errorf("%s: message %q, notice %q", name, r.Message, noticed)
		}
	}
}
