package local_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"

	"github.com/google/go-cmp/cmp"
)

func TestRefusals(t *testing.T) {
	change := func(change func(c *sandbox.Command)) sandbox.Command {
		c := command()
		change(&c)
		return c
	}
	for _, test := range []struct {
		c     sandbox.Command
		cause sandbox.Cause
		text  string
	}{
		{sandbox.Command{}, sandbox.CauseInvalid, "command is empty (pass a script, for example: belljar run 'echo hello')"},
		{sandbox.Command{Script: " \n\t"}, sandbox.CauseInvalid, "command is empty"},
		{sandbox.Command{Script: "ab\x00c"}, sandbox.CauseInvalid, "command has a NUL byte at offset 2"},
		{sandbox.Command{Script: strings.Repeat("x", sandbox.MaxScript+1)}, sandbox.CauseInvalid, "command is 2031617 bytes long, over the limit of 2031616 (put it in a file"},
		{change(func(c *sandbox.Command) {
			c.Script, c.Env = strings.Repeat("x", sandbox.MaxScript-1000), []string{"A=" + strings.Repeat("x", 1000)}
		}), sandbox.CauseInvalid, "command and environment are 2031"},
		{change(func(c *sandbox.Command) { c.Script, c.TTY = "echo '\xff'", &sandbox.TerminalSize{} }), sandbox.CauseInvalid, "a command with a terminal cannot contain bytes that are not valid UTF-8 (leave out -t"},
		{change(func(c *sandbox.Command) { c.Script, c.Env = "echo '\xff'", []string{"a.b=c"} }), sandbox.CauseInvalid, `variable "a.b" cannot be combined with secrets or bytes that are not valid UTF-8`},
		{change(func(c *sandbox.Command) { c.ID = "a/../b" }), sandbox.CauseInvalid, `command ID "a/../b" is not allowed (`},
		{change(func(c *sandbox.Command) { c.ID = strings.Repeat("a", 65) }), sandbox.CauseInvalid, "command ID "},
		{change(func(c *sandbox.Command) { c.Profile = "nope" }), sandbox.CauseInvalid, `no profile "nope" (use one of: default)`},
		{change(func(c *sandbox.Command) { c.Dir = "sub/../.." }), sandbox.CauseInvalid, `working directory "sub/../.." is outside workdir`},
		{change(func(c *sandbox.Command) { c.Dir = "/wo\x00rk" }), sandbox.CauseInvalid, "is not absolute"},
		{change(func(c *sandbox.Command) { c.Dir = "/proc/self/fd/8" }), sandbox.CauseInvalid, "in a file system of the kernel"},
		{change(func(c *sandbox.Command) { c.Dir = "/work/../sys" }), sandbox.CauseInvalid, "in a file system of the kernel"},
		{change(func(c *sandbox.Command) { c.Dir = "//dev/" }), sandbox.CauseInvalid, "in a file system of the kernel"},
		{change(func(c *sandbox.Command) { c.User.GID = 5 }), sandbox.CauseInvalid, "user 0:5 is root, and commands never run as root (use a UID above 0, such as 65534:65534, because root in a container"},
		{change(func(c *sandbox.Command) { c.User.UID = -1 }), sandbox.CauseInvalid, "user -1:0 is not allowed"},
		{change(func(c *sandbox.Command) { c.Tmpfs = []string{"var/tmp"} }), sandbox.CauseInvalid, `tmpfs "var/tmp" is not the path of a directory`},
		{change(func(c *sandbox.Command) { c.Tmpfs = []string{"/run:size=64m"} }), sandbox.CauseInvalid, "limits.tmp is its size"},
		{change(func(c *sandbox.Command) { c.Tmpfs = []string{"/a,mode=0"} }), sandbox.CauseInvalid, "is not the path of a directory"},
		{change(func(c *sandbox.Command) { c.Tmpfs = []string{"/var/../etc"} }), sandbox.CauseInvalid, "is not the path of a directory"},
		{change(func(c *sandbox.Command) { c.Tmpfs = []string{"/usr/lib"} }), sandbox.CauseInvalid, "/usr is protected"},
		{change(func(c *sandbox.Command) { c.Tmpfs = []string{"/"} }), sandbox.CauseInvalid, "/ is protected"},
		{change(func(c *sandbox.Command) { c.Tmpfs = make([]string, 17) }), sandbox.CauseInvalid, "over the limit of 16"},
		{change(func(c *sandbox.Command) {
			c.Tmpfs, c.Mounts = []string{"/data/sub"}, []sandbox.Mount{{Source: "/x", Target: "/data/"}}
		}), sandbox.CauseInvalid, `tmpfs "/data/sub" is in the mount at "/data/"`},
		{change(func(c *sandbox.Command) { c.User.UID = -1 }), sandbox.CauseInvalid, "user -1:0 is not allowed"},
		{change(func(c *sandbox.Command) { c.Network = "host" }), sandbox.CauseInvalid, `network "host" shares a namespace`},
		{change(func(c *sandbox.Command) { c.Network = "container:x" }), sandbox.CauseInvalid, `network "container:x" shares a namespace`},
		{change(func(c *sandbox.Command) { c.Limits.Memory = 1 << 20 }), sandbox.CauseInvalid, "limits.memory is 1 MiB, below the minimum of 6 MiB"},
		{change(func(c *sandbox.Command) { c.Limits.CPUs = 0.001 }), sandbox.CauseInvalid, "limits.cpus is 0.001, below the minimum of 0.01"},
		{change(func(c *sandbox.Command) { c.Limits.CPUs = math.NaN() }), sandbox.CauseInvalid, "limits.cpus is NaN, below the minimum of 0.01"},
		{change(func(c *sandbox.Command) { c.Limits.Pids = -1 }), sandbox.CauseInvalid, "limits.pids is -1, below the minimum of 4"},
		{change(func(c *sandbox.Command) { c.Limits.Output = 1023 }), sandbox.CauseInvalid, "limits.output is 1023 bytes, below the minimum of 1 KiB"},
		{change(func(c *sandbox.Command) { c.Limits.Tmp = 1 }), sandbox.CauseInvalid, "limits.tmp is 1 byte, below the minimum of 64 KiB"},
		{change(func(c *sandbox.Command) { c.Limits.Files = 31 }), sandbox.CauseInvalid, "limits.files is 31, below the minimum of 32"},
		{change(func(c *sandbox.Command) { c.Timeout = time.Millisecond }), sandbox.CauseInvalid, "timeout 1ms is too short (at least 1s)"},
		{change(func(c *sandbox.Command) { c.Timeout = -1 }), sandbox.CauseInvalid, "timeout -1ns is too short"},
		{change(func(c *sandbox.Command) { c.Timeout = 25 * time.Hour }), sandbox.CauseInvalid, "timeout 25h is over max_timeout 24h (ask for 24h at most, or raise max_timeout in sandbox.yaml)"},
		{change(func(c *sandbox.Command) { c.IdleTimeout = time.Millisecond }), sandbox.CauseInvalid, "idle timeout 1ms is too short"},
		{change(func(c *sandbox.Command) { c.IdleTimeout = 25 * time.Hour }), sandbox.CauseInvalid, "idle timeout 25h is over max_timeout"},
		{change(func(c *sandbox.Command) { c.Env = []string{"=x"} }), sandbox.CauseInvalid, "a variable has no name"},
		{change(func(c *sandbox.Command) { c.Env = []string{"A\nB=1"} }), sandbox.CauseInvalid, `variable "A\nB" has a control character in its name`},
		{change(func(c *sandbox.Command) { c.Env = []string{"A=\x00"} }), sandbox.CauseInvalid, `variable "A" has a NUL byte`},
		{change(func(c *sandbox.Command) { c.Env = []string{"A=" + strings.Repeat("x", sandbox.MaxArgument)} }), sandbox.CauseInvalid, `variable "A" is 131073 bytes long`},
		{change(func(c *sandbox.Command) { c.Env = large(9) }), sandbox.CauseInvalid, "the environment is "},
		{change(func(c *sandbox.Command) { c.Env = []string{"SECRET"} }), sandbox.CauseDenied, `variable "SECRET" is not in env.allow`},
	} {
		engine := &sandboxtest.Engine{}
		r, err := sandbox.Run(t.Context(), newLocal(engine), test.c)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Cause != test.cause || e.Hint == "" || !strings.Contains(err.Error(), test.text) {
			t.Errorf("error %v, want %s: %s", err, test.cause, test.text)
		}
		status := sandbox.StatusFatal
		if test.cause == sandbox.CauseDenied {
			status = sandbox.StatusDenied
		}
		wantFate(t, r, status, test.cause, sandbox.ExitNeverRan)
		if r.Message != fmt.Sprint(err) || r.Command != test.c.Script || r.ID != test.c.ID {
			t.Errorf("result %+v", r)
		}
		if len(engine.Specs()) > 0 {
			t.Errorf("%s: a container was made", test.text)
		}
	}
}

func large(n int) (env []string) {
	for i := range n {
		env = append(env, fmt.Sprintf("LARGE%d=%s", i, strings.Repeat("x", 1<<17-10)))
	}
	return env
}

func TestProfileDefaults(t *testing.T) {
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	images := &sandboxtest.Images{}
	runner := newLocal(engine)
	runner.Images = images
	start := time.Now()
	if _, err := sandbox.Run(t.Context(), runner, sandbox.Command{ID: "one", Script: "x"}); err != nil {
		t.Fatal(err)
	}
	all := sandbox.Command{
		ID: "two", Script: "x", Dir: "/src", Image: "other", Pull: sandbox.PullNever, User: sandbox.User{UID: 7, GID: 8}, Network: "bridge", Runtime: "runsc",
		Limits: sandbox.Limits{Memory: 1 << 30, CPUs: 2, Pids: 5, Output: 2048, Result: 1024, Tmp: 1 << 20, Files: 99}, Timeout: time.Hour,
	}
	if _, err := sandbox.Run(t.Context(), runner, all); err != nil {
		t.Fatal(err)
	}

	p := profile()
	specs := engine.Specs()
	for i, least := range []time.Duration{p.Timeout, time.Hour} {
		if d := specs[i].Deadline.Sub(start); d < least {
			t.Errorf("deadline of %d after %v, before its timeout of %v", i, d, least)
		}
		specs[i].Deadline = time.Time{}
	}
	want := []sandbox.Spec{
		{Command: "one", Image: sandboxtest.Image("belljar/base"), User: p.User, Workdir: "/work", Mounts: []sandbox.Mount{}, Limits: p.Limits, Network: "none"},
		{Command: "two", Image: sandboxtest.Image("other"), User: all.User, Workdir: "/src", Mounts: []sandbox.Mount{}, Limits: all.Limits, Network: "bridge", Runtime: "runsc"},
	}
	if diff := cmp.Diff(want, specs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]sandboxtest.Asked{{Reference: "belljar/base", Pull: sandbox.PullMissing}, {Reference: "other", Pull: sandbox.PullNever}}, images.Asked()); diff != "" {
		t.Error(diff)
	}
}

// policy allows variables by name and mounts below roots.
type policy struct {
	env      []string
	writable []string
	denied   string // a script
}

func (policy) Steers(name string) bool { return name == "PATH" }

func (p policy) AllowEnv(name string) bool { return slices.Contains(p.env, name) }

func (p policy) CheckMount(sandbox.Mount) error { return nil }

func (p policy) Hash() string { return "hash" }

func (p policy) JudgeScript(script, _, _ string) sandbox.Verdict {
	switch script {
	case p.denied:
		return sandbox.Verdict{Rule: "no"}
	case "narrow":
		return sandbox.Verdict{Decision: sandbox.Allow, Rule: "narrow", Grant: sandbox.Grant{Limits: sandbox.Limits{Memory: 1}}}
	}
	return sandbox.Verdict{Decision: sandbox.Allow}
}

func (p policy) Writable(dir string) bool {
	return slices.ContainsFunc(p.writable, func(root string) bool { return dir == root || strings.HasPrefix(dir, root+"/") })
}

// A script that the policy refuses makes no container, and takes no turn.
func TestPolicyRefusesScripts(t *testing.T) {
	for script, denied := range map[string]bool{"rm": true, "ls": false} {
		engine := playing(func(*sandboxtest.Proc) int { return 0 })
		runner := newLocal(engine)
		p := profile()
		p.Policy = policy{denied: "rm"}
		runner.Profiles["default"] = p
		_, err := sandbox.Run(t.Context(), runner, sandbox.Command{Script: script})
		if (err != nil) != denied || denied && sandbox.CauseOf(err) != sandbox.CauseDenied {
			t.Errorf("%q: %v", script, err)
		}
		if made := len(engine.Specs()); denied != (made == 0) {
			t.Errorf("%q: made %d containers", script, made)
		}
	}
}

// What no shell could run is no matter of the policy.
func TestPolicyIsAskedOfUsableScripts(t *testing.T) {
	runner := newLocal(playing(func(*sandboxtest.Proc) int { return 0 }))
	p := profile()
	p.Policy = policy{denied: "a\x00"}
	runner.Profiles["default"] = p
	if _, err := sandbox.Run(t.Context(), runner, sandbox.Command{Script: "a\x00"}); sandbox.CauseOf(err) != sandbox.CauseInvalid {
		t.Error(err)
	}
}

func TestEnviron(t *testing.T) {
	inherit := []string{"CI=true", "SECRET=s3cret", "BOTH=caller", "ODD"}
	for name, test := range map[string]struct {
		policy sandbox.Policy
		env    []string
		want   []string
	}{
		"nothing is inherited":         {nil, nil, []string{"BOTH=profile", "LANG=C.UTF-8"}},
		"but what the policy allows":   {policy{env: []string{"CI", "ODD"}}, nil, []string{"BOTH=profile", "CI=true", "LANG=C.UTF-8", "ODD="}},
		"the caller beats the profile": {policy{env: []string{"BOTH"}}, nil, []string{"BOTH=caller", "LANG=C.UTF-8"}},
		"what was asked for beats all": {policy{env: []string{"BOTH"}}, []string{"BOTH=asked", "A==b=\n"}, []string{"A==b=\n", "BOTH=asked", "LANG=C.UTF-8"}},
		"the last one counts":          {nil, []string{"A=1", "A=2"}, []string{"A=2", "BOTH=profile", "LANG=C.UTF-8"}},
		"by name, if allowed":          {policy{env: []string{"CI"}}, []string{"CI"}, []string{"BOTH=profile", "CI=true", "LANG=C.UTF-8"}},
		"by name, if there":            {policy{env: []string{"GONE"}}, []string{"GONE"}, []string{"BOTH=profile", "LANG=C.UTF-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			runner := newLocal(playing(func(p *sandboxtest.Proc) int { got = p.Env; return 0 }))
			p := profile()
			p.Env, p.Policy = append(p.Env, "BOTH=profile"), test.policy
			runner.Profiles["default"] = p
			if _, err := sandbox.Run(t.Context(), runner, sandbox.Command{Script: "x", Inherit: inherit, Env: test.env}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
