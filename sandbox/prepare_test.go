package sandbox_test

import (
	"os"
	"path/filepath"
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
	runner := local(engine)
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
		Mounts: []sandbox.Mount{{Source: dir, Target: "/a", Writable: true}, {Source: dir, Target: "/b"}},
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
		"limits":              {sandbox.Grant{Limits: small}, small, "bridge", asked.Mounts, "memory 67108864, cpus 0.5, pids 8, output 4096, tmp 1048576, files 32"},
		"times":               {sandbox.Grant{Timeout: time.Minute, IdleTimeout: time.Second}, all, "bridge", asked.Mounts, "timeout 1m0s, idle timeout 1s"},
		"no network":          {sandbox.Grant{Network: "none"}, all, "none", asked.Mounts, "network none"},
		"no mounts":           {sandbox.Grant{Mounts: sandbox.NoMounts}, all, "bridge", nil, "no mounts"},
		"mounts to read from": {sandbox.Grant{Mounts: sandbox.ReadOnlyMounts}, all, "bridge", []sandbox.Mount{{Source: dir, Target: "/a"}, {Source: dir, Target: "/b"}}, "mounts read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			spec, notices := granted(t, test.grant, asked)
			if spec.Limits != test.limits || spec.Network != test.network {
				t.Errorf("%+v, network %s", spec.Limits, spec.Network)
			}
			if diff := cmp.Diff(test.mounts, spec.Mounts); diff != "" {
				t.Error(diff)
			}
			var want []string
			if test.notice != "" {
				want = []string{"the command policy narrows it: " + test.notice}
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

// A grant's times are the command's.
func TestGrantEndsTheCommand(t *testing.T) {
	for cause, grant := range map[sandbox.Cause]sandbox.Grant{
		sandbox.CauseWallTimeout: {Timeout: 5 * time.Second},
		sandbox.CauseIdleTimeout: {IdleTimeout: 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			runner := local(playing(sleep(time.Hour)))
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

func TestDirectoryInTheWorkspace(t *testing.T) {
	workspace := t.TempDir()
	inner := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(workspace, "sub/deep"), 0o755),
		os.WriteFile(filepath.Join(workspace, "file"), nil, 0o644),
		os.Symlink("/etc", filepath.Join(workspace, "out")),
		os.Symlink("sub/deep", filepath.Join(workspace, "in")),
		os.Mkdir(filepath.Join(inner, "there"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	mounted := []sandbox.Mount{{Source: workspace, Target: "/work"}, {Source: inner, Target: "/work/mnt"}}
	for _, test := range []struct {
		mounts []sandbox.Mount
		dir    string
		want   string // the directory in the container, or a part of the error
		cause  sandbox.Cause
	}{
		{nil, "sub", "/work/sub", ""}, // the container's own: it shows when the command starts
		{mounted, ".", "/work", ""},
		{mounted, "sub/deep/", "/work/sub/deep", ""},
		{mounted, "sub/../sub", "/work/sub", ""},
		{mounted, "in", "/work/in", ""},
		{mounted, "mnt/there", "/work/mnt/there", ""},
		{mounted, "/etc", "/etc", ""}, // absolute: the container's
		{mounted, "mnt/sub", `"/work/mnt/sub" does not exist in`, sandbox.CauseInvalid},
		{mounted, "gone", `"/work/gone" does not exist in`, sandbox.CauseInvalid},
		{mounted, "file", `"/work/file" is a file`, sandbox.CauseInvalid},
		{mounted, "out", `it must not leave the workspace, not by a link either`, sandbox.CauseDenied},
		{mounted, "out/ssl", `it must not leave the workspace`, sandbox.CauseDenied},
		{mounted, "../etc", `"../etc" leaves the workspace`, sandbox.CauseInvalid},
		{mounted, "sub/../../etc", `leaves the workspace`, sandbox.CauseInvalid},
	} {
		engine := playing(func(*sandboxtest.Proc) int { return 0 })
		runner := local(engine)
		p := profile()
		p.Policy = permissive{}
		runner.Profiles["default"] = p
		r, err := sandbox.Run(t.Context(), runner, sandbox.Command{Script: "x", Dir: test.dir, Mounts: test.mounts})
		if test.cause == "" {
			if err != nil || r.Dir != test.want {
				t.Errorf("%s: %q, %v", test.dir, r.Dir, err)
			}
			continue
		}
		if sandbox.CauseOf(err) != test.cause || !strings.Contains(err.Error(), test.want) || len(engine.Specs()) > 0 {
			t.Errorf("%s: %v", test.dir, err)
		}
	}
}

// Prepare starts nothing, and takes no place from those that run.
func TestPrepareStartsNothing(t *testing.T) {
	engine := playing(func(*sandboxtest.Proc) int { return 0 })
	runner := local(engine)
	runner.Admission = sandbox.Admission{MaxRunning: 1, MaxQueued: 1}
	var prepared []*sandbox.Prepared
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
