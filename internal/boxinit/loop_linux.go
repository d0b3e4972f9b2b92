package boxinit

import (
	"slices"
	"syscall"
	"time"
	"unsafe"

	"belljar/internal/boxinit/wire"
)

// loop is the one goroutine that knows everything.
type loop struct {
	config Config
	worker *worker
	wake   bell
	door   door
	conns  []*conn
	procs  map[int]*proc // by PID: those that were started and not yet reaped, and
	ended  []*proc       // those whose streams are not at their end yet
	queue  []job
	working
	unreaped bool     // some may have to be reaped
	more     bool     // and for certain
	killers  []waiter // who waits until only the init is left
	ends     bool     // this program ends then
	stays    bool     // it does not end with its first connection
	stopped  bool     // everything was stopped
	again    bool     // there is more to look at without waiting
	garbage  int      // bytes allocated, about, since they were collected
	polled   []pollFD
	buffer   [wire.Header + wire.MaxFrame]byte
}

// working is what the worker does.
type working struct {
	busy     bool      // it has a job
	since    time.Time // when it got it
	starting bool      // which is to start a process
	stuck    []int     // what was killed meanwhile, as it was stopped
}

// waiter is a request that is answered later.
type waiter struct {
	client
	id uint32
}

func newLoop(config Config, w *worker) (*loop, error) {
	l := &loop{config: config, worker: w, door: door{listener: -1}, procs: map[int]*proc{}}
	if config.Lonely > 0 {
		l.door.lonely = time.Now().Add(time.Duration(config.Lonely) * time.Second)
	}
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
	until := func(end time.Time) {
		left := time.Until(end)
		if left <= 0 {
			l.exit()
		}
		sooner(left)
	}
	if l.config.Deadline > 0 {
		until(time.Unix(l.config.Deadline, 0))
	}
	if !l.door.lonely.IsZero() {
		until(l.door.lonely)
	}
	if l.busy {
		sooner(lookAfter)
	}
	if l.again || l.more && !l.busy {
		sooner(0)
	}
	if len(l.killers) > 0 {
		sooner(killPause)
	}
	if left := time.Until(l.door.deaf); left > 0 {
		sooner(left)
	}
	l.soonest(sooner)
	l.each(func(p *proc) { p.soonest(sooner) })
	var most *syscall.Timespec
	if timeout >= 0 {
		spec := syscall.NsecToTimespec(int64(timeout))
		most = &spec
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&l.polled[0])), uintptr(len(l.polled)), uintptr(unsafe.Pointer(most)), 0, 0, 0)
	if errno != 0 && errno != syscall.EINTR { // as where a command could lower its limits: without this it would not see its clients go
		die("waiting", errno)
	}
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
	if j.all != nil && j.of.conn.size >= tooMuch {
		return // its client does not read: nothing asks for these answers one by one
	}
	l.queue[0] = job{}
	l.queue = l.queue[1:]
	l.working = working{busy: true, since: time.Now(), starting: j.start != nil}
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
	case r.all != nil:
		for _, part := range r.each {
			l.answer(part)
		}
		r.of.conn.gathered()
	case r.start == nil:
		l.answer(r)
	case r.refusal != nil:
		l.refuse(r, r.refusal)
	default:
		l.begin(r)
	}
}

// refuse says that a process does not run.
func (l *loop) refuse(r result, why *wire.Refusal) {
	r.takeLater()
	r.of.send(wire.NotStarted, r.id, why.Encode(nil))
}

func errnoBody(errno syscall.Errno) []byte { return wire.AppendUint32(nil, uint32(errno)) }
