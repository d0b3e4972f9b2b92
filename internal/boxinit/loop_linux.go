package boxinit

import (
	"runtime"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"belljar/internal/boxinit/wire"
)

// loop is the one goroutine that knows everything.
type loop struct {
	config   Config
	worker   *worker
	wake     bell
	door     door
	conns    []*conn
	procs    map[int]*proc // by PID: those that were started and not yet reaped, and
	ended    []*proc       // those whose streams are not at their end yet
	queue    []job
	busy     bool      // the worker has a job
	since    time.Time // when it got it
	stuck    bool      // it started a process that was stopped, and was killed
	unreaped bool      // some may have to be reaped
	killers  []waiter  // who waits until only the init is left
	ends     bool      // this program ends then
	stays    bool      // it does not end with its first connection
	stopped  bool      // everything was stopped
	again    bool      // there is more to look at without waiting
	garbage  int       // bytes allocated, about, since they were collected
	polled   []pollFD
	buffer   [wire.Header + wire.MaxFrame]byte
}

// waiter is a request that is answered later.
type waiter struct {
	client
	id uint32
}

func newLoop(config Config, w *worker) (*loop, error) {
	l := &loop{config: config, worker: w, door: door{listener: -1}, procs: map[int]*proc{}}
	if err := l.wake.open(); err != nil {
		return nil, err
	}
	first := &conn{in: 0, out: 1, first: true}
	if config.Carrier == Socket || config.Carrier == Listener {
		first = &conn{in: socketFD, out: socketFD, first: true, passes: true}
	}
	l.conns = []*conn{first}
	files := []int{first.in, first.out}
	if config.Carrier == Listener {
		l.door.listener = listenerFD
		files = append(files, listenerFD)
	}
	if config.Carrier == Channels {
		for fd := FirstChannel; fd < FirstChannel+2*ChannelCount; fd += 2 {
			l.conns, files = append(l.conns, &conn{in: fd, out: fd + 1}), append(files, fd, fd+1)
		}
	}
	for _, fd := range files {
		if err := syscall.SetNonblock(fd, true); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// pollFD is struct pollfd, poll(2).
type pollFD struct {
	fd      int32
	events  int16
	revents int16
}

const pollIn, pollOut = 1, 4

func (l *loop) run() {
	for {
		l.polled, l.again = l.polled[:0], false
		l.garbage += perTurn
		l.add(l.wake.reads, pollIn)
		l.listens()
		for _, c := range l.conns {
			c.poll(l)
		}
		l.each(func(p *proc) { p.poll(l) })
		l.wait()
		if l.wake.clear() {
			l.unreaped = true
		}
		l.takeResult()
		l.reap()
		l.accept()
		for _, c := range slices.Clone(l.conns) {
			l.serve(c)
		}
		l.each(l.carry)
		l.forget()
		l.finishKill()
		l.watch()
		l.next()
		l.flush()
		l.collect()
	}
}

// add asks for events of a file, if there is one.
func (l *loop) add(fd int, events int16) {
	if fd >= 0 && events != 0 {
		l.polled = append(l.polled, pollFD{fd: int32(fd), events: events})
	}
}

// wait waits for an event or for the time of the next look.
func (l *loop) wait() {
	timeout := time.Duration(-1)
	sooner := func(d time.Duration) {
		if timeout < 0 || d < timeout {
			timeout = max(0, d)
		}
	}
	if l.config.Deadline > 0 {
		left := time.Until(time.Unix(l.config.Deadline, 0))
		if left <= 0 {
			syscall.Exit(0)
		}
		sooner(left)
	}
	if l.busy {
		sooner(lookAfter)
	}
	if l.again {
		sooner(0)
	}
	if len(l.killers) > 0 {
		sooner(killPause)
	}
	if left := time.Until(l.door.deaf); left > 0 {
		sooner(left)
	}
	var until *syscall.Timespec
	if timeout >= 0 {
		spec := syscall.NsecToTimespec(int64(timeout))
		until = &spec
	}
	syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&l.polled[0])), uintptr(len(l.polled)), uintptr(unsafe.Pointer(until)), 0, 0, 0)
}

// each calls f for all processes that have not been dropped.
func (l *loop) each(f func(p *proc)) {
	for _, p := range l.procs {
		f(p)
	}
	for _, p := range l.ended {
		f(p)
	}
}

// next gives the worker its next job. While everything is being killed nothing begins.
func (l *loop) next() {
	for len(l.queue) > 0 && l.queue[0].of.gone() {
		l.queue = l.queue[1:]
	}
	if l.busy || len(l.queue) == 0 || len(l.killers) > 0 {
		return
	}
	j := l.queue[0]
	l.queue[0] = job{}
	l.queue = l.queue[1:]
	l.busy, l.stuck, l.since = true, false, time.Now()
	l.worker.jobs <- j
}

// takeResult takes what the worker did.
func (l *loop) takeResult() {
	var r result
	select {
	case r = <-l.worker.results:
	default:
		return
	}
	l.busy = false
	switch {
	case r.start == nil:
		for _, record := range r.list {
			l.garbage += len(record)
			r.of.send(wire.Listed, r.id, record)
		}
		r.of.send(wire.Done, r.id, errnoBody(r.errno))
	case r.refusal != nil:
		r.of.send(wire.NotStarted, r.id, r.refusal.Encode(nil))
	default:
		l.begin(r)
	}
}

func errnoBody(errno syscall.Errno) []byte { return wire.AppendUint32(nil, uint32(errno)) }

// reap tells what ended. While the worker starts a process it may be any that is not known
// yet: then only known ones are reaped.
func (l *loop) reap() {
	if !l.unreaped {
		return
	}
	if l.busy {
		for pid, p := range l.procs {
			var status syscall.WaitStatus
			if got, _ := syscall.Wait4(pid, &status, syscall.WNOHANG, nil); got == pid {
				l.exited(p, status)
			}
		}
		return
	}
	l.unreaped = false
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if p, ok := l.procs[pid]; ok {
			l.exited(p, status)
		}
	}
}

// killPause is how long after everything was killed it is looked whether it is gone.
const killPause = 5 * time.Millisecond

// kill kills everything but this program.
func (l *loop) kill(w waiter) {
	l.killers = append(l.killers, w)
	syscall.Kill(-1, syscall.SIGKILL)
}

// finishKill answers once only the init is left.
func (l *loop) finishKill() {
	if len(l.killers) == 0 || l.busy {
		return
	}
	l.unreaped = true
	l.reap()
	if err := syscall.Kill(-1, syscall.SIGKILL); err != syscall.ESRCH {
		return
	}
	for _, w := range l.killers {
		w.send(wire.Done, w.id, errnoBody(0))
	}
	l.killers = nil
	if l.ends {
		l.flush()
		syscall.Exit(0)
	}
}

const (
	// collectAfter is how much garbage is left lying, and returnAfter how much more makes
	// it worth returning memory to the kernel.
	collectAfter, returnAfter = 1 << 20, 8 << 20
	// perTurn and perStart are more than the garbage of a turn of the loop, and of a start
	// besides its request.
	perTurn, perStart = 256, 8 << 10
)

// collect collects garbage, which would never end while a process that is being started is stopped.
func (l *loop) collect() {
	for _, c := range l.conns {
		l.garbage += c.garbage
		c.garbage = 0
	}
	switch {
	case l.busy || l.garbage < collectAfter:
		return
	case l.garbage < returnAfter:
		runtime.GC()
	default:
		freeOSMemory()
	}
	l.garbage = 0
}
