package boxinit

import (
	"strconv"
	"syscall"
	"unsafe"

	"belljar/internal/boxinit/wire"
)

// open makes the command's files, all of them closed on exec, and leaves room for others.
func (e *ends) open(s *wire.StartRequest, most int) syscall.Errno {
	errno := e.make(s)
	if errno == 0 && max(e.stdin, e.stdout, e.stderr, e.theirs[0], e.theirs[1], e.theirs[2]) >= most {
		errno = syscall.EMFILE
	}
	return errno
}

func (e *ends) make(s *wire.StartRequest) syscall.Errno {
	if s.Terminal != nil {
		return e.openTerminal(s)
	}
	var err error
	if s.Stdin {
		err = pipe(&e.theirs[0], &e.stdin)
	} else {
		// It may be a FIFO by now, where a command has root's rights in a kernel of its own.
		e.theirs[0], err = syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	}
	if err == nil {
		err = pipe(&e.stdout, &e.theirs[1])
	}
	if err == nil {
		err = pipe(&e.stderr, &e.theirs[2])
	}
	return errnoOf(err)
}

func pipe(reads, writes *int) error {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return err
	}
	*reads, *writes = p[0], p[1]
	return nil
}

// wide is how much a pipe holds through which much goes, so that its two ends wake each other
// less often. Not all pipes are so: the kernel bounds what all of a user's may hold
// (pipe(7), pipe-user-pages-soft). A process's pipe stays below maxRest.
const wide = 512 << 10

// widen makes a pipe wide, if the kernel lets it.
func widen(fd int) { syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETPIPE_SZ, wide) }

// openTerminal opens a terminal of the container's own. It has its size before the
// command can look at it.
func (e *ends) openTerminal(s *wire.StartRequest) syscall.Errno {
	master, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	e.stdout = master
	var number, unlocked int32
	if errno := ioctl(master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked)); errno != 0 {
		return errno
	}
	if errno := ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&number)); errno != 0 {
		return errno
	}
	if errno := resize(master, *s.Terminal); errno != 0 {
		return errno
	}
	slave, err := syscall.Open("/dev/pts/"+strconv.Itoa(int(number)), syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	e.theirs[0] = slave
	for _, fd := range []*int{&e.theirs[1], &e.theirs[2]} {
		if *fd, err = dup(slave); err != nil {
			return errnoOf(err)
		}
	}
	if s.Stdin {
		e.stdin, err = dup(master)
	}
	return errnoOf(err)
}

func dup(fd int) (int, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

func resize(terminal int, to wire.Size) syscall.Errno {
	size := struct{ rows, columns, x, y uint16 }{rows: to.Rows, columns: to.Columns}
	return ioctl(terminal, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	return errno
}
