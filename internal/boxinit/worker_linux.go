package boxinit

import (
	"strings"
	"syscall"
	"unsafe"

	"belljar/internal/boxinit/wire"
)

// job is work that may block.
type job struct {
	of     client
	id     uint32
	start  *wire.StartRequest // nil: list the processes
	settle bool               // which were stopped
	look   *wire.LookRequest  // nil: one of the others
	all    []job              // nil: one of the others; these, whose answers go together
}

// result is what came of a job.
type result struct {
	job
	pid     int
	ticks   uint64
	ends    ends
	refusal *wire.Refusal
	list    [][]byte // bodies of wire.Listed
	errno   syscall.Errno
	// allocated is what making the list took, in bytes, about.
	allocated int
	each      []result // of all
}

// takeLater are what is asked at the end of the process that was to start.
func (r *result) takeLater() (requests []wire.Request) {
	if !r.of.gone() {
		requests = r.of.conn.later[r.id]
		delete(r.of.conn.later, r.id)
	}
	return requests
}

// worker does jobs on the main thread.
type worker struct {
	uid     int  // our own
	root    bool // commands may be user 0
	alone   bool // all are our own user
	score   score
	files   int // how many may be open
	jobs    chan job
	results chan result
}

func (w *worker) do(j job) result {
	r := result{job: j}
	if j.all != nil {
		for _, part := range j.all {
			r.each = append(r.each, w.do(part))
		}
		return r
	}
	if j.look != nil {
		r.list = look(j.look)
		return r
	}
	if j.start == nil {
		r.list, r.allocated, r.errno = listProcesses(j.settle)
		return r
	}
	r.refusal = w.start(&r)
	if r.refusal != nil {
		r.ends.close()
	}
	return r
}

// ends are the files of a command: ours, and its own until it has them.
type ends struct {
	stdin, stdout, stderr int // ours, -1 for none; with a terminal they are its master
	theirs                [3]int
}

func newEnds() ends { return ends{stdin: -1, stdout: -1, stderr: -1, theirs: [3]int{-1, -1, -1}} }

func (e *ends) closeTheirs() {
	for i, fd := range e.theirs {
		if fd >= 0 {
			syscall.Close(fd)
		}
		e.theirs[i] = -1
	}
}

func (e *ends) close() {
	e.closeTheirs()
	for _, fd := range []int{e.stdin, e.stdout, e.stderr} {
		if fd >= 0 {
			syscall.Close(fd)
		}
	}
}

// start starts a process, or says why it does not run.
func (w *worker) start(r *result) *wire.Refusal {
	r.ends = newEnds()
	s := r.start
	if s.UID == 0 && !w.root || s.UID >= maxUID || (s.UID == uint32(w.uid)) != w.alone || s.GID >= maxUID {
		return refuse(wire.BadRequest, syscall.EPERM, "choosing the user")
	}
	defer r.ends.closeTheirs()
	paths, refusal := w.prepare(r)
	if refusal != nil {
		return refusal
	}
	attr := &syscall.ProcAttr{
		Env:   s.Env,
		Files: []uintptr{uintptr(r.ends.theirs[0]), uintptr(r.ends.theirs[1]), uintptr(r.ends.theirs[2])},
		Sys: &syscall.SysProcAttr{
			Setsid: true, Setctty: s.Terminal != nil,
		},
	}
	if !w.alone {
		attr.Sys.Credential = &syscall.Credential{Uid: s.UID, Gid: s.GID, Groups: []uint32{s.GID}} // as docker run has it
	}
	defer syscall.Chdir("/")
	w.score.raise()
	defer w.score.lower()
	refusal = refuse(wire.NoProgram, syscall.ENOENT, "looking for the program")
	for _, path := range paths {
		pid, err := syscall.ForkExec(path, s.Args, attr)
		hide()
		if err == nil {
			r.pid = pid
			r.ticks, _ = startTicks(pid)
			return nil
		}
		if refusal = execRefusal(errnoOf(err)); refusal.Reason != wire.NoProgram && refusal.Reason != wire.NotExecutable {
			break
		}
	}
	return refusal
}

func execRefusal(errno syscall.Errno) *wire.Refusal {
	reason := wire.Failed
	switch errno {
	case syscall.ENOENT, syscall.ENOTDIR:
		reason = wire.NoProgram
	case syscall.EACCES, syscall.ENOEXEC, syscall.EISDIR, syscall.ELIBBAD, syscall.EPERM:
		reason = wire.NotExecutable
	case syscall.EAGAIN:
		reason = wire.NoProcess
	case syscall.ENOMEM:
		reason = wire.NoMemory
	case syscall.E2BIG:
		reason = wire.TooLong
	}
	return refuse(reason, errno, "executing the program")
}

func refuse(reason wire.Reason, errno syscall.Errno, step string) *wire.Refusal {
	return &wire.Refusal{Reason: reason, Errno: uint32(errno), Step: step}
}

// prepare does what must be done as the command's user: it enters the directory, which the process
// inherits, finds the program, and makes the pipes or the terminal, which
// belong to who made them: a command may open /dev/stdout.
func (w *worker) prepare(r *result) (paths []string, refusal *wire.Refusal) {
	s := r.start
	if !w.alone {
		if errno := w.act(s.UID, s.GID); errno != 0 {
			return nil, refuse(wire.Failed, errno, "becoming the user")
		}
		defer w.actAsItself(s.UID)
	}
	if err := syscall.Chdir(s.Dir); err != nil {
		return nil, refuse(wire.NoDir, errnoOf(err), "entering the directory")
	}
	if paths, refusal = lookup(s.Args[0], s.Env); refusal != nil {
		return nil, refusal
	}
	if errno := r.ends.open(s, w.files); errno != 0 {
		return nil, refuse(wire.Failed, errno, "making its files")
	}
	return paths, nil
}

// actAsItself ends act.
func (w *worker) actAsItself(was uint32) {
	errno := w.act(uint32(w.uid), uint32(w.uid))
	if errno == 0 && was == 0 {
		errno = w.regain()
	}
	if errno != 0 {
		die("becoming itself again", errno)
	}
	hide()
}

// act changes the thread's effective user, which files are made and found as. The
// capabilities stay unless one of the users is 0: see regain. Signals and tracing go by the other two user IDs.
func (w *worker) act(uid, gid uint32) syscall.Errno {
	const same = ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESGID, same, uintptr(gid), same); errno != 0 {
		return errno
	}
	_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uintptr(uid), same)
	return errno
}

// regain takes back the capabilities that the thread uses. As user 0 it used all that it has, and
// after that none.
func (w *worker) regain() syscall.Errno {
	header, data := capabilities(w.root)
	_, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(header)), uintptr(unsafe.Pointer(data)), 0)
	return errno
}

// defaultPath is where programs are looked for without a PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// lookup is where a program may be: as execvp(3), but without a shell for scripts
// that do not name one.
func lookup(name string, env []string) (paths []string, refusal *wire.Refusal) {
	if name == "" {
		return nil, refuse(wire.NoProgram, syscall.ENOENT, "looking for the program")
	}
	if strings.Contains(name, "/") {
		return []string{name}, nil
	}
	path := defaultPath
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value
		}
	}
	refusal = refuse(wire.NoProgram, syscall.ENOENT, "looking for the program")
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		full := dir + "/" + name
		var about syscall.Stat_t
		switch err := syscall.Stat(full, &about); {
		case err == syscall.EACCES:
			refusal = refuse(wire.NotExecutable, syscall.EACCES, "looking for the program")
		case err != nil:
		case about.Mode&syscall.S_IFMT != syscall.S_IFREG || about.Mode&0o111 == 0:
			refusal = refuse(wire.NotExecutable, syscall.EACCES, "looking for the program")
		default:
			paths = append(paths, full)
		}
	}
	if len(paths) > 0 {
		return paths, nil
	}
	return nil, refusal
}
