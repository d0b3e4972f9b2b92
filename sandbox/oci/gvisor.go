package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"belljar/internal/boxinit"
	"belljar/sandbox"
	"belljar/sandbox/internal/cgroup"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// A container of gVisor's runtime has a kernel of its own, the sentry, which is a program of this
// host. Its processes are not this host's, and its memory and threads count as the container's. So
// the init lists and signals, and it talks in frames.
//
// The sentry does not keep signals from its first process, as Linux does: root inside, who is a user of its own
// namespace on this host, too, can stop and end the init. What then ends a container is the guard, Remove or Sweep;
// what it was that ended is not told.

// ownKernel reports whether a runtime's containers have one: a program whose name begins with
// runsc is gVisor's.
func ownKernel(runtime string) bool { return strings.HasPrefix(filepath.Base(runtime), "runsc") }

func (r record) ownKernel() bool { return ownKernel(r.Runtime) }

// sentryFlags are for every call of runsc. Of the platforms only systrap needs no /dev/kvm, and is
// quick. A writable root is an overlay already.
var sentryFlags = []string{"--platform=systrap", "--network=none", "--overlay2=none"}

// sentryPids is how many processes and threads of this host a sentry may take for that many of its own: for each
// one that holds its memory, one that runs in it, and one that waits for it; and before there is any, about 35. A
// sentry that can have no more ends, and all in it.
func sentryPids(pids int64) int64 { return 3*pids + 64 }

// pidFile has the sentry's PID.
const pidFile = "pid"

// args start the runtime, which passes on that many files, from descriptor 3 on.
func (l *launch) args(passed int) []string {
	args := []string{filepath.Base(l.runtime), "--root", filepath.Join(l.dir, stateDir)}
	if !ownKernel(l.runtime) {
		return append(args, "run", "--preserve-fds", strconv.Itoa(passed), "--bundle", l.dir, l.id)
	}
	args = append(append(args, sentryFlags...), "run", "--pid-file", filepath.Join(l.dir, pidFile))
	for fd := boxinit.FirstChannel; fd < boxinit.FirstChannel+passed; fd++ {
		args = append(args, "--pass-fd", strconv.Itoa(fd)+":"+strconv.Itoa(fd))
	}
	return append(args, "--bundle", l.dir, l.id)
}

// forSentry leaves out what the sentry has none of: it filters the calls of its own processes
// by being the kernel, and this host's control groups are not for them.
func forSentry(s *specs.Spec) {
	s.Linux.Seccomp, s.Linux.Resources = nil, nil
	for i := range s.Linux.Namespaces { // runsc makes that of users, too: the sentry does the counting
		s.Linux.Namespaces[i].Path = ""
	}
	s.Mounts = slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool {
		return m.Destination == "/sys/fs/cgroup" || m.Type == "mqueue"
	})
}

// sentry is the process of this host that is the container's kernel. It is there when the init answers, and its file may come a
// moment later.
func (r *launched) sentry(ctx context.Context) (process, error) {
	for {
		pid, err := r.sentryPID()
		if err == nil {
			return processOf(pid)
		}
		if late := errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF); !late || ctx.Err() != nil {
			return process{}, err
		}
		time.Sleep(time.Millisecond)
	}
}

func (r *launched) sentryPID() (int, error) {
	file, err := os.Open(filepath.Join(fdPath(r.private), pidFile))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	text := make([]byte, 32)
	n, err := file.Read(text)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text[:n])))
}

// framed is a connection over two pipes.
type framed struct{ in, out *os.File }

// pipes are the init's stdin and stdout, and our ends of them.
func pipes() (ours *framed, stdin, stdout *os.File, err error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		stdin.Close()
		in.Close()
		return nil, nil, nil, err
	}
	return &framed{in, out}, stdin, stdout, nil
}

// Read implements io.Reader.
func (c *framed) Read(p []byte) (int, error) { return c.out.Read(p) }

// Write implements io.Writer.
func (c *framed) Write(p []byte) (int, error) { return c.in.Write(p) }

// Close implements io.Closer.
func (c *framed) Close() error {
	err := c.in.Close()
	c.out.Close()
	return err
}

// errChannels is the error of a session that has no room for one more client.
var errChannels = fmt.Errorf("%d belljar processes use the session: under gVisor no more can", boxinit.ChannelCount)

// makeChannels makes a session's channels in the private directory, and opens them for the sentry. As
// it opens them for both directions, none ever comes to an end.
func makeChannels() (files []*os.File, err error) {
	for i := range boxinit.ChannelCount {
		for _, name := range channelNames(i) {
			if err := unix.Mkfifo(name, 0o600); err != nil {
				return files, err
			}
			file, err := openHere(name, unix.O_RDWR)
			if err != nil {
				return files, err
			}
			files = append(files, file)
		}
	}
	return files, nil
}

// channelNames are the FIFOs of a channel: to the init, and from it.
func channelNames(i int) []string {
	return []string{"to" + strconv.Itoa(i), "from" + strconv.Itoa(i)}
}

// takeChannel takes the first channel of a session that no other has. Its lock goes with the process.
func takeChannel(private *os.File) (*framed, error) {
	for i := range boxinit.ChannelCount {
		var ends [2]*os.File
		for j, name := range channelNames(i) {
			fd, err := unix.Openat(int(private.Fd()), name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
			}
			if err == nil {
				ends[j] = os.NewFile(uintptr(fd), name)
				continue
			}
			if fd >= 0 {
				unix.Close(fd)
			}
			closeFiles(ends[:j])
			if !errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fmt.Errorf("opening a session's channel: %w", err)
			}
			break
		}
		if ends[1] != nil {
			return &framed{ends[0], ends[1]}, nil
		}
	}
	return nil, errChannels
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// sentryStatus is the exit status of a command whose sentry ended. Killed, it took the command with it; how
// the command fared in one that crashed, no one knows.
func (b *box) sentryStatus() (int, error) {
	counts := b.counter.Count()
	select {
	case <-b.gone:
	case <-time.After(killTimeout): // it is not our child, or hangs
	}
	switch {
	case b.ending.Load(), counts.OOMKills > 0, b.counter.EndedByMemory(): // it does not survive the kill of any of its processes
		return killed, nil
	case counts.PidsLimitHits > 0:
		return 0, engineError(nil, "the container's kernel crashed because it could not start a thread: as many run as limits.pids allows").
			As(sandbox.CausePidsLimit).Hint("raise limits.pids, or start fewer processes")
	case b.status.Load() == killed && !b.record.Root: // who is root there can kill the init
		return killed, nil
	}
	var said error
	if b.run != nil {
		said = saidError(b.run.said())
	}
	return 0, engineError(said, "the container's kernel ended while the command ran: its exit status is unknown").
		As(sandbox.CauseEngineLost).Hint("partial output kept; run it again")
}

// leave ends what a session's init does for this handle, where the end of the connection does not tell it.
func (b *box) leave() {
	if b.record.Session == "" || !b.record.ownKernel() || b.ending.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	b.link.Leave(ctx)
}

// limit limits the container's control group, where the runtime takes it as it is.
func (b *box) limit(dirs []string) error {
	if !b.record.ownKernel() {
		return nil
	}
	l := b.spec.Limits
	return cgroup.Limit(dirs, cgroup.Limits{Memory: l.Memory, Pids: pidsLimit(l, b.record.Runtime), CPUs: l.CPUs})
}
