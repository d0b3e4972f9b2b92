package local_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/sandboxtest"

	"github.com/google/go-cmp/cmp"
)

// granted runs one command whose policy allows it with that grant.
func granted(t *testing.T, grant sandbox.Grant, c sandbox.Command) (sandbox.Spec, []string) {
	t.Helper()
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	runner := newLocal(engine)
	p := profile()
	p.Policy = verdict{Decision: sandbox.Allow, Rule: "narrow", Grant: grant}
	runner.Profiles["default"] = p
	x, err := runner.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var notices []string
	for _, e := range wantEvents(t, x) {
		if e.Type == sandbox.EventNotice {
			notices = append(notices, string(e.Data))
		}
	}
	return engine.Specs()[0], notices
}

func TestGrantNarrows(t *testing.T) {
	dir := t.TempDir()
	asked := sandbox.Command{
		Script: "x", Network: "bridge", Timeout: time.Hour, IdleTimeout: sandbox.NoIdleTimeout,
		Mounts: []sandbox.Mount{{Source: dir, Target: "/a", Writable: true, Steady: true}, {Source: dir, Target: "/b", Steady: true}},
	}
	all := profile().Limits
	small := sandbox.Limits{Memory: 64 << 20, CPUs: 0.5, Pids: 8, Output: 4096, Tmp: 1 << 20, Files: 32}
	for name, test := range map[string]struct {
		grant   sandbox.Grant
		limits  sandbox.Limits
		network string
		mounts  []sandbox.Mount
		notice  string
	}{
		"nothing":             {sandbox.Grant{}, all, "bridge", asked.Mounts, ""},
		"more than there is":  {sandbox.Grant{Timeout: 2 * time.Hour, Limits: sandbox.Limits{Memory: 1 << 40, Pids: 1 << 20}}, all, "bridge", asked.Mounts, ""},
		"limits":              {sandbox.Grant{Limits: small}, small, "bridge", asked.Mounts, "memory 64 MiB, cpus 0.5, pids 8, output 4 KiB, tmp 1 MiB, files 32"},
		"times":               {sandbox.Grant{Timeout: time.Minute, IdleTimeout: time.Second}, all, "bridge", asked.Mounts, "timeout 1m, idle timeout 1s"},
		"no network":          {sandbox.Grant{Network: "none"}, all, "none", asked.Mounts, "network none"},
		"no mounts":           {sandbox.Grant{Mounts: sandbox.NoMounts}, all, "bridge", nil, "no mounts"},
		"mounts to read from": {sandbox.Grant{Mounts: sandbox.ReadOnlyMounts}, all, "bridge", []sandbox.Mount{{Source: dir, Target: "/a", Steady: true}, {Source: dir, Target: "/b", Steady: true}}, "mounts read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, notices := granted(t, test.grant, asked)
			spec.Limits.Result = test.limits.Result // not the container's
			if spec.Limits != test.limits || spec.Network != test.network {
				t.Errorf("%+v, network %s", spec.Limits, spec.Network)
			}
			if diff := cmp.Diff(test.mounts, spec.Mounts); diff != "" {
				t.Error(diff)
			}
			var want []string
			if test.notice != "" {
				want = []string{"policy restricts the command: " + test.notice}
			}
			if diff := cmp.Diff(want, notices); diff != "" {
				t.Error(diff)
			}
		})
	}
	if !asked.Mounts[0].Writable {
		t.Error("the caller's own mounts were changed")
	}
}

// A notice explains why a variable is missing.
func TestWithheldSecretsAreReported(t *testing.T) {
	runner := newLocal(playing(func(*sandboxtest.Proc) int { return 0 }))
	p := profile()
	p.Policy = verdict{Decision: sandbox.Allow, Withheld: []string{"A", "B"}}
	runner.Profiles["default"] = p
	x, err := runner.Start(t.Context(), command())
	if err != nil {
		t.Fatal(err)
	}
	var notices []string
	for _, e := range wantEvents(t, x) {
		if e.Type == sandbox.EventNotice {
			notices = append(notices, string(e.Data))
		}
	}
	if want := []string{"policy withholds A, B: not every command in the script has a rule that grants it"}; !slices.Equal(notices, want) {
		t.Errorf("%q", notices)
	}
}

// A grant's times are the command's.
func TestGrantEndsTheCommand(t *testing.T) {
	for cause, grant := range map[sandbox.Cause]sandbox.Grant{
		sandbox.CauseWallTimeout: {Timeout: 5 * time.Second},
		sandbox.CauseIdleTimeout: {IdleTimeout: 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			runner := newLocal(playing(sleep(time.Hour)))
			p := profile()
			p.Policy = verdict{Decision: sandbox.Allow, Grant: grant}
			runner.Profiles["default"] = p
			began := time.Now()
			r, err := sandbox.Run(t.Context(), runner, command())
			if err != nil || r.Cause != cause {
				t.Errorf("%s: %v", r.Cause, err)
			}
			wantAfter(t, began, 5*time.Second)
		})
	}
}

// A relative directory is one of the workspace, which what is mounted can be
// held to before anything is made.
func TestDirInTheWorkspace(t *testing.T) {
	root := t.TempDir()
	source := filepath.Join(root, "source")
	for _, dir := range []string{"source/sub/deep", "source/shut", "inner/in", "secret"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(source, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"within": "sub/deep", "out": "../secret", "absolute": filepath.Join(root, "secret"), "host": "/etc", "loop": "loop", "back": "sub/../../source/sub"} {
		if err := os.Symlink(target, filepath.Join(source, name)); err != nil {
			t.Fatal(err)
		}
	}
	work, inner := sandbox.Mount{Source: source, Target: "/work"}, sandbox.Mount{Source: filepath.Join(root, "inner"), Target: "/work/sub/inner"}
	for dir, test := range map[string]struct {
		mounts []sandbox.Mount
		want   string // the directory, or the error
		cause  sandbox.Cause
	}{
		"sub":             {want: "/work/sub"},
		"./sub/../sub/":   {want: "/work/sub"},
		".":               {want: "/work"},
		"within":          {want: "/work/within"},
		"sub/inner/in":    {mounts: []sandbox.Mount{inner, work}, want: "/work/sub/inner/in"},
		"sub/inner/no":    {mounts: []sandbox.Mount{work, inner}, want: "does not exist in ", cause: sandbox.CauseInvalid},
		"sub/inner":       {mounts: []sandbox.Mount{work, {Source: filepath.Join(source, "file"), Target: "/work/sub/inner"}}, want: `working directory "/work/sub/inner" is in the mount of "` + source + `/file", which is a file`, cause: sandbox.CauseInvalid},
		"no":              {want: `working directory "/work/no" does not exist in "` + source + `"`, cause: sandbox.CauseInvalid},
		"file":            {want: `working directory "/work/file" is a file`, cause: sandbox.CauseInvalid},
		"file/x":          {want: `working directory "/work/file/x" does not exist`, cause: sandbox.CauseInvalid},
		"out":             {want: "escapes", cause: sandbox.CauseDenied},
		"out/x":           {want: "escapes", cause: sandbox.CauseDenied},
		"absolute":        {want: "escapes", cause: sandbox.CauseDenied},
		"host":            {want: "escapes", cause: sandbox.CauseDenied},
		"back":            {want: "escapes", cause: sandbox.CauseDenied},
		"loop":            {want: "too many", cause: sandbox.CauseDenied},
		"..":              {want: "is outside workdir", cause: sandbox.CauseInvalid},
		"sub/../../etc":   {want: "is outside workdir", cause: sandbox.CauseInvalid},
		"../work/sub":     {want: "is outside workdir", cause: sandbox.CauseInvalid},
		"sub\x00":         {want: "working directory", cause: sandbox.CauseInvalid},
		"made/by/earlier": {mounts: []sandbox.Mount{}, want: `"/work/made/by/earlier" does not exist: "/work" is empty in a new container (`, cause: sandbox.CauseInvalid},
		"of/the/image":    {mounts: []sandbox.Mount{{Source: source, Target: "/mnt"}}, want: `"/work" is empty`, cause: sandbox.CauseInvalid},
		"of/the/mount":    {mounts: []sandbox.Mount{{Source: source, Target: "/work/of/the/mount/there"}}, want: "/work/of/the/mount"},
	} {
		engine := playing(func(*sandboxtest.Proc) int { return 0 })
		l := newLocal(engine)
		changeProfile(l, func(p *sandbox.Profile) { p.Policy = permissive{} })
		if test.mounts == nil {
			test.mounts = []sandbox.Mount{work}
		}
		r, err := sandbox.Run(t.Context(), l, sandbox.Command{Script: "x", Dir: dir, Mounts: test.mounts})
		if test.cause == "" {
			if err != nil || r.Dir != test.want || engine.Specs()[0].Workdir != test.want {
				t.Errorf("%q: in %q, %v", dir, r.Dir, err)
			}
		} else if err == nil || sandbox.CauseOf(err) != test.cause || !strings.Contains(err.Error(), test.want) || len(engine.Specs()) > 0 {
			t.Errorf("%q: %s: %v", dir, sandbox.CauseOf(err), err)
		}
	}
}

// Prepare starts nothing, and takes no place from those that run.
func TestPrepareStartsNothing(t *testing.T) {
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	runner := newLocal(engine)
	runner.Admission = sandbox.Admission{MaxRunning: 1, MaxQueued: 1}
	var prepared []sandbox.Prepared
	for range 5 {
		p, err := runner.Prepare(t.Context(), command())
		if err != nil {
			t.Fatal(err)
		}
		prepared = append(prepared, p)
	}
	if len(engine.Specs()) > 0 {
		t.Error("a container was made")
	}
	for _, p := range prepared {
		x, err := p.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r, err := x.Wait(); err != nil || r.Status != sandbox.StatusSuccess {
			t.Errorf("%s: %v", r.Status, err)
		}
	}
}
