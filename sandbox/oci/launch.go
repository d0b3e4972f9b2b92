package oci

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"belljar/sandbox/internal/failure"
	"belljar/sandbox/internal/userns"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// launch is a container to be started.
type launch struct {
	dir     string // where its private directory is mounted: an empty directory
	runtime string // the program
	id      string
	config  *specs.Spec
	lower   int   // detached mounts: the image's root, the init and the sources of mounts
	init    int   //
	sources []int //

	users   map[string]string // files of /etc
	groups  []string          // the directories of its control group
	socket  *os.File          // the init's end of its first connection, or
	stdin   *os.File          // those of one in frames
	stdout  *os.File          //
	listens bool              // it takes further ones at socketFile, or by channels
	holds   []*os.File        // stay open as long as the runtime runs
	layer   *userns.Root      // of a container with a root user or a writable root, else nil

	namespace *os.File // of a container with a root user: the user namespace
}

// launched is a runtime that runs in the foreground: it ends when the container does, and removes
// what it made.
type launched struct {
	process *os.Process
	pidfd   *os.File
	private *os.File // the private directory
	log     *os.File
}

// start starts the runtime in a mount namespace of its own, on a thread that ends with
// this call.
func (l *launch) start() (run *launched, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		onSpareThread(func() { run, err = l.startHere() })
	}()
	<-done
	return run, err
}

// onSpareThread calls f on a thread that ends with its goroutine. The process's first thread
// cannot end: in /proc it is the process. If this goroutine got that one, it keeps it
// until another has called f.
func onSpareThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onSpareThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

func (l *launch) startHere() (*launched, error) {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("making a mount namespace: %w", err)
	}
	// What the host unmounts later goes here, too; nothing goes from here to the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return nil, fmt.Errorf("separating mounts from the host's: %w", err)
	}
	if err := hideUnified(); err != nil {
		return nil, err
	}
	if err := l.prepare(); err != nil {
		return nil, err
	}
	return l.run()
}

// hideUnified unmounts the v2 hierarchy where the controllers are v1's: crun refuses
// such a host, and nothing of ours is there.
func hideUnified() error {
	var fs unix.Statfs_t
	if unix.Statfs("/sys/fs/cgroup", &fs) != nil || fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	const unified = "/sys/fs/cgroup/unified"
	err := unix.Unmount(unified, unix.MNT_DETACH)
	if unix.Statfs(unified, &fs) == nil && fs.Type == unix.CGROUP2_SUPER_MAGIC { // a user namespace may only cover it
		err = unix.Mount("belljar", unified, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64k,mode=755")
	}
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // there is none
		return fmt.Errorf("hiding the unified hierarchy: %w", err)
	}
	return nil
}

// run starts the runtime. What the init gets are the runtime's descriptors from 3 on, too.
func (l *launch) run() (_ *launched, err error) {
	run := &launched{}
	defer func() {
		if err != nil {
			run.close()
		}
	}()
	if run.private, err = openHere(".", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return nil, err
	}
	if run.log, err = openHere(logFile, unix.O_RDWR|unix.O_CREAT|unix.O_APPEND); err != nil {
		return nil, err
	}
	nothing, err := noInput()
	if err != nil {
		return nil, err
	}
	defer nothing.Close()
	passed, err := l.passed()
	defer func() { closeFiles(passed) }()
	if err != nil {
		return nil, err
	}
	files := []*os.File{nothing, run.log, run.log}
	if l.socket != nil {
		files = append(files, l.socket)
	} else {
		files[0], files[1] = l.stdin, l.stdout
	}
	files = append(files, passed...)
	args := l.args(len(files) - 3)
	run.process, err = os.StartProcess(l.runtime, args, &os.ProcAttr{Dir: l.dir, Env: runtimeEnv, Files: append(files, l.holds...), Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", l.runtime, err)
	}
	if err := run.openPidfd(); err != nil {
		return nil, err
	}
	return run, nil
}

// noInput is a runtime's stdin, at its end. It is no file of the host: crun gives its stdio to the container's root, and
// /dev/null is mounted in the container, where that root could then close it to the whole host.
func noInput() (*os.File, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making the runtime's stdin: %w", err)
	}
	theirs.Close()
	return ours, nil
}

// runtimeEnv are the runtime's variables.
var runtimeEnv = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}

func (r *launched) openPidfd() error {
	pidfd, err := unix.PidfdOpen(r.process.Pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		r.process.Kill()
		r.process.Wait()
		return fmt.Errorf("opening the runtime's process: %w", err)
	}
	r.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	return nil
}

// passed are the descriptors by which a session's init takes further clients.
func (l *launch) passed() ([]*os.File, error) {
	switch {
	case !l.listens:
		return nil, nil
	case l.socket == nil:
		return makeChannels()
	}
	listener, err := listenHere()
	if err != nil {
		return nil, err
	}
	return []*os.File{listener}, nil
}

func openHere(name string, flags int) (*os.File, error) {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// listenHere is a socket that listens in the private directory.
func listenHere() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: socketFile})
	}
	if err == nil {
		err = unix.Listen(fd, 16)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listening for clients: %w", err)
	}
	return os.NewFile(uintptr(fd), socketFile), nil
}

// killAll kills the runtime and, since Linux 6.9, all of its process group: it may be a script that starts one.
func (r *launched) killAll() {
	if conn, err := r.pidfd.SyscallConn(); err == nil {
		conn.Control(func(fd uintptr) { unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, unix.PIDFD_SIGNAL_PROCESS_GROUP) })
	}
	r.process.Kill()
}

// said is what the runtime and the init said, on one line.
func (r *launched) said() string {
	text := make([]byte, maxSaid)
	n, _ := r.log.ReadAt(text, 0)
	return failure.OneLine(string(text[:n]))
}

// maxSaid bounds what is shown of it.
const maxSaid = 2048

// close closes what is needed only while the container is made.
func (r *launched) close() {
	for _, file := range []*os.File{r.private, r.log} {
		if file != nil {
			file.Close()
		}
	}
}
