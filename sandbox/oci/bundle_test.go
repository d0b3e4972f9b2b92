package oci

import (
	"slices"
	"strings"
	"testing"

	"belljar/internal/boxinit"
	"belljar/sandbox"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Root inside may change how the kernel treats its own process, and no other: with no processor time left, the
// kernel would kill the init, or the init would not answer. Without root everything is as Docker has it.
func TestOnlyRootsCallsAreFiltered(t *testing.T) {
	for _, root := range []bool{true, false, true} {
		c, err := config(sandbox.Spec{Root: root}, newID(), "group", boxinit.Config{}, 100_000)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr", "sched_setaffinity", "setpriority", "ioprio_set"} {
			rules := 0
			for _, s := range c.Linux.Seccomp.Syscalls {
				if slices.Contains(s.Names, name) {
					rules++
					if (len(s.Args) > 0) != root || root && (s.Args[len(s.Args)-1].Value != 0 || s.Args[len(s.Args)-1].Op != specs.OpEqualTo) {
						t.Errorf("root %t: the rule of %s is %+v", root, name, s.Args)
					}
				}
			}
			if rules != 1 {
				t.Errorf("root %t: %d rules for %s", root, rules, name)
			}
		}
		if (len(c.Linux.UIDMappings) == 1) != root || (len(c.Process.Capabilities.Bounding) == len(boxinit.RootCapabilities)) != root {
			t.Errorf("root %t: mappings %v, capabilities %v", root, c.Linux.UIDMappings, c.Process.Capabilities.Bounding)
		}
	}
}

// No limit of a resource comes from who starts belljar, unless that may not raise it. What is counted for a user has none,
// or a part of what the user of a user namespace has.
func TestEveryLimitIsSet(t *testing.T) {
	var mine unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &mine); err != nil {
		t.Fatal(err)
	}
	if mayRaise() {
		mine.Max = unix.RLIM_INFINITY
	}
	for _, userns := range []bool{false, true} {
		limits := map[string]specs.POSIXRlimit{}
		for _, r := range rlimits(sandbox.Limits{Files: 77}, userns) {
			limits[r.Type] = r
		}
		for _, name := range rlimitNames {
			if _, set := limits["RLIMIT_"+strings.ToUpper(name)]; !set && name != "sigpending" { // see lockdown.OtherRlimits
				t.Errorf("%s is not set", name)
			}
		}
		if got := limits["RLIMIT_NPROC"]; got.Soft != mine.Max || got.Hard != mine.Max {
			t.Errorf("processes: %+v, want %d", got, mine.Max)
		}
		if got := limits["RLIMIT_NOFILE"]; got.Soft != 77 || got.Hard != 77 {
			t.Errorf("files: %+v", got)
		}
		if got := limits["RLIMIT_MSGQUEUE"]; userns && got.Hard > 200<<10 {
			t.Errorf("message queues: %+v", got)
		}
	}
}

// A limit of open files that no process can have is refused by its name.
func TestFilesThatNoOneMayOpen(t *testing.T) {
	var mine unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &mine); err != nil {
		t.Fatal(err)
	}
	most := int64(min(mine.Max, 1<<61))
	all := map[int64]bool{1: false, most: false, 1 << 62: mine.Max < 1<<61}
	if !mayRaise() {
		all[most+1] = mine.Max < 1<<61
	}
	for files, refused := range all {
		err := checkFiles(sandbox.Limits{Files: files})
		if (err != nil) != refused || err != nil && (sandbox.CauseOf(err) != sandbox.CauseInvalid || !strings.Contains(err.Error(), "limits.files")) {
			t.Errorf("%d files of %d: %v", files, mine.Max, err)
		}
	}
}
