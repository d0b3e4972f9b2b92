package proc

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"belljar/sandbox"

	"golang.org/x/sys/unix"
)

// TestMain keeps the main thread, which does not end with its goroutine, from tests.
func TestMain(m *testing.M) {
	runtime.LockOSThread()
	os.Exit(m.Run())
}

func TestOwnerGone(t *testing.T) {
	me := ThisProcess()
	if me.Process == "" || me.Host == "/" {
		t.Fatalf("%+v", me)
	}
	for process, want := range map[string]bool{
		me.Process:                       false, // it runs
		fmt.Sprintf("%d@1", os.Getpid()): true,  // its PID is another's now
		fmt.Sprintf("%d@1", 1<<22+1):     true,  // past any PID
		"":                               false, // unknown
		"nonsense":                       false,
		strings.Repeat("9", 30) + "@":    false,
	} {
		if got := me.Gone(me.Host, process); got != want {
			t.Errorf("%q gone: %v, want %v", process, got, want)
		}
		if me.Gone("another host", process) {
			t.Errorf("%q of another host is said to be gone", process)
		}
	}
}

// Without room for one more open file nothing can be read of a process: it may run, so it is not gone.
func TestUnreadableIsNotGone(t *testing.T) {
	me, child := ThisProcess(), exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	stat, err := ReadStat(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	gone, runs := me.Gone(me.Host, me.Process), me.Runs(me.Host, me.Process)
	has := Signal(sandbox.Process{HostPID: stat.PID, StartTicks: stat.StartTicks}, unix.SIGCONT)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if gone || !runs || has {
		t.Errorf("this process is gone: %t, and runs: %t; a signal was sent: %t", gone, runs, has)
	}
}

// Once a bug: where /proc is mounted with hidepid=2, another user's process seemed to be gone, and what it had was swept.
func TestHiddenIsNotGone(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting /proc takes root")
	}
	me, child := ThisProcess(), exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	stat, err := ReadStat(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocks: the thread, its user and its mounts end with this
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("proc", "/proc", "proc", 0, "hidepid=2")
		}
		if err != nil {
			t.Error(err)
			return
		}
		const nobody = 65534
		unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)                // of this thread only
		unix.RawSyscall(unix.SYS_SETRESGID, nobody, nobody, nobody) // root's group sees all
		unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody)
		name := fmt.Sprintf("%d@%d", stat.PID, stat.StartTicks)
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", stat.PID)); err == nil {
			t.Error("the process can be seen: this tests nothing")
		}
		if me.Gone(me.Host, name) || !me.Runs(me.Host, name) {
			t.Error("a process that runs is gone")
		}
		if !me.Gone(me.Host, fmt.Sprintf("%d@1", 1<<22+1)) {
			t.Error("one that is past any PID is not gone")
		}
	}()
	<-done
}
