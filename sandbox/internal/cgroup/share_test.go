package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// insideEnv has TestMakeBesideProcesses be the process in the container.
const insideEnv = "BELLJAR_TEST_CGROUP_INSIDE"

// In a container that has a root of its own, with the processes in it, groups with limits can be made below it.
func TestMakeBesideProcesses(t *testing.T) {
	if os.Getenv(insideEnv) != "" {
		makeBesideProcesses(t)
		return
	}
	if !isKind(Root, unix.CGROUP2_SUPER_MAGIC) || os.Getuid() != 0 {
		t.Skip("NO CGROUP V2, OR NOT ROOT: NOT TESTED") // see make test-cgroup2
	}
	share()
	root := filepath.Join(Root, fmt.Sprintf("bjtest-%d", os.Getpid()))
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, dir := range []string{filepath.Join(root, ownGroup), root} {
			for range 500 {
				if unix.Rmdir(dir) == nil {
					break
				}
				time.Sleep(removePause)
			}
		}
		if _, err := os.Stat(root); err == nil {
			t.Error("it cannot be removed")
		}
	})
	group, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer group.Close()
	cmd := exec.CommandContext(t.Context(), "unshare", "--cgroup", "--mount", "sh", "-c", "umount "+Root+" && mount -t cgroup2 cgroup2 "+Root+" || exit 9\n"+`"$0" -test.run='^TestMakeBesideProcesses$' -test.v; exit $?`, os.Args[0])
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func makeBesideProcesses(t *testing.T) {
	before, err := os.ReadFile(filepath.Join(Root, "cgroup.procs"))
	if err != nil || len(before) == 0 {
		t.Fatalf("no processes are in the root: %q, error %v", before, err)
	}
	for _, name := range []string{"bjtest-first", "bjtest-second"} {
		dirs, err := Make(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := Limit(dirs, Limits{Memory: 32 << 20, Pids: 16, CPUs: 1}); err != nil {
			t.Error(err)
		}
		if err := Remove(name); err != nil {
			t.Error(err)
		}
	}
}
