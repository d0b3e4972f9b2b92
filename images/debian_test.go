package images

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"belljar/sandbox"
)

func TestBuildDebianRefuses(t *testing.T) {
	store := &Store{Client: &fakeEngine{}}
	for _, d := range []Debian{
		{Packages: []string{"--help"}},
		{Packages: []string{"git,--hook-dir=/x"}},
		{Packages: []string{"a"}},
		{Packages: []string{"Git"}},
		{Packages: []string{""}},
		{Suite: "-x"},
		{Suite: "../x"},
		{Tag: "A B"},
	} {
		_, err := store.BuildDebian(t.Context(), d)
		wantCause(t, err, sandbox.CauseImage)
	}
}

func TestBuildDebianWithoutTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := (&Store{}).BuildDebian(t.Context(), Debian{})
	wantCause(t, err, sandbox.CauseImage, "apt-get install -y mmdebstrap")
}

// standIn is a script in place of mmdebstrap.
func standIn(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mmdebstrap"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", t.TempDir())
}

func TestBuildDebianSaysWhatTheToolSaid(t *testing.T) {
	standIn(t, "echo E: no such package >&2; exit 25")
	var progress bytes.Buffer
	_, err := (&Store{Progress: &progress}).BuildDebian(t.Context(), Debian{Packages: []string{"nosuch"}})
	wantCause(t, err, sandbox.CauseImage, "exit status 25: no such package")
	if progress.String() != "E: no such package\n" {
		t.Errorf("progress %q", progress.String())
	}
}

// Errors of mmdebstrap and debootstrap become one sentence, with the next step.
func TestBuildDebianNamesWhatTheArchiveLacks(t *testing.T) {
	for _, c := range []struct {
		say  string // the tool's message
		want []string
	}{
		{
			"I: installing remaining packages\nE: Unable to locate package nosuch\nE: Unable to locate package g++-99\nE: setup failed: E: apt-get -o Dir::Bin failed\nI: removing tempdir /tmp/x",
			[]string{`Debian bookworm has no package "g++-99", "nosuch" (`, "apt-cache search"},
		},
		{"E: Package 'nosuch' has no installation candidate", []string{`no package "nosuch" (`}},
		{"E: Couldn't find these debs: nosuch other", []string{`no package "nosuch", "other" (`}},
		{"E: The repository 'http://deb.debian.org/debian bookworm Release' does not have a Release file.", []string{`no suite "bookworm"`, "--suite"}},
		{"E: No such script: /usr/share/debootstrap/scripts/bookworm", []string{`no suite "bookworm"`}},
		{"one\ntwo\nE: the disk is full\nE: giving up\nI: bye", []string{"building Debian bookworm: mmdebstrap: exit status 25: the disk is full; giving up ("}},
		{"1\n2\n3\n4\n5", []string{"exit status 25: 2; 3; 4; 5 ("}},
	} {
		standIn(t, "cat >&2 <<'END'\n"+c.say+"\nEND\nexit 25")
		_, err := (&Store{}).BuildDebian(t.Context(), Debian{Suite: "bookworm", Packages: []string{"nosuch"}})
		wantCause(t, err, sandbox.CauseImage, c.want...)
		if strings.Contains(err.Error(), "tempdir") {
			t.Error(err)
		}
	}
}

func TestCancelledBuildLetsTheToolCleanUp(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "cleaned")
	standIn(t, "trap 'echo >"+mark+"; exit 1' TERM; while :; do sleep 0.05; done")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	_, err := (&Store{}).BuildDebian(ctx, Debian{})
	wantCause(t, err, sandbox.CauseEngine, "deadline")
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "belljar-*")); len(left) != 0 {
		t.Errorf("left %q", left)
	}
}

func TestHostSuite(t *testing.T) {
	for content, want := range map[string]string{
		"ID=debian\nVERSION_CODENAME=trixie\n":  "trixie",
		"ID=\"debian\"\nVERSION_CODENAME='sid'": "sid",
		"ID=ubuntu\nVERSION_CODENAME=noble\n":   "bookworm",
		"ID=debian\n":                           "bookworm",
	} {
		if got := hostSuite(tempFile(t, []byte(content))); got != want {
			t.Errorf("%q: %q, want %q", content, got, want)
		}
	}
}

// Without mmdebstrap, with which the images of eval's tests are built, debootstrap builds one. It
// needs a minute, root and Debian's archive: CI has them.
func TestBuildDebian(t *testing.T) {
	if os.Getenv("CI") == "" {
		t.Skip("NOT TESTED: set CI=true to build a Debian")
	}
	store, docker := realEngine(t)
	withoutMmdebstrap(t)
	ref := uniqueName(t, docker)
	start := time.Now()
	got, err := store.BuildDebian(t.Context(), Debian{Packages: []string{"less"}, Tag: ref})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s in %s", got.ID, time.Since(start))
	out, err := exec.Command("docker", "run", "--rm", "--network=none", "--user=65534", ref, "less", "--version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "less ") {
		t.Errorf("%q, %v", out, err)
	}
}

// withoutMmdebstrap hides it from PATH.
func withoutMmdebstrap(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(from)
		for _, entry := range entries {
			if entry.Name() != "mmdebstrap" {
				_ = os.Symlink(filepath.Join(from, entry.Name()), filepath.Join(dir, entry.Name()))
			}
		}
	}
	t.Setenv("PATH", dir)
}

func TestBuildDebianWithoutSuchAPackage(t *testing.T) {
	if os.Getenv("CI") == "" {
		t.Skip("NOT TESTED: set CI=true to ask Debian's archive")
	}
	withoutMmdebstrap(t) // mmdebstrap looks for it last, after a minute and a half
	t.Setenv("TMPDIR", t.TempDir())
	_, err := (&Store{}).BuildDebian(t.Context(), Debian{Packages: []string{"no-such-package"}})
	wantCause(t, err, sandbox.CauseImage, `has no package "no-such-package" (`)
}
