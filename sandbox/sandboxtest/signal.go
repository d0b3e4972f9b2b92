package sandboxtest

import "belljar/sandbox"

// actions are what signals do to a process that does not trap them (signal(7)).
var actions = map[sandbox.Signal]func(p *Proc){
	"SIGHUP": killedBy(1), "SIGINT": killedBy(2), "SIGQUIT": killedBy(3), "SIGABRT": killedBy(6), "SIGKILL": killedBy(9),
	"SIGUSR1": killedBy(10), "SIGUSR2": killedBy(12), "SIGALRM": killedBy(14), "SIGTERM": killedBy(15),
	"SIGCONT": func(*Proc) {}, "SIGSTOP": (*Proc).stop, "SIGTSTP": (*Proc).stop,
}

// killedBy ends a process. Its status is set first: an end is read once it is known.
func killedBy(number int) func(p *Proc) {
	return func(p *Proc) {
		select {
		case <-p.Killed:
		default:
			p.status = 128 + number
		}
		p.kill()
	}
}

// signaled is the signal handling of a process. Its container's mutex is held.
type signaled struct {
	traps   map[sandbox.Signal]chan<- sandbox.Signal
	stopped chan struct{}    // closed when it continues; nil: it is not stopped
	pending []sandbox.Signal // received while stopped
}

// Trap sends signals to the channel from now on, as trap(1) does. A signal
// that is not received, and does not fit into the buffer, is lost.
func (p *Proc) Trap(signals ...sandbox.Signal) <-chan sandbox.Signal {
	p.box.mu.Lock()
	defer p.box.mu.Unlock()
	if p.traps == nil {
		p.traps = map[sandbox.Signal]chan<- sandbox.Signal{}
	}
	c := make(chan sandbox.Signal, 1)
	for _, s := range signals {
		p.traps[s] = c
	}
	return c
}

// Signal sends the process a signal, as kill(1) does.
func (p *Proc) Signal(s sandbox.Signal) {
	p.box.mu.Lock()
	defer p.box.mu.Unlock()
	p.get(s)
}

// get takes a signal. A stopped process gets all but SIGKILL once it continues.
func (p *Proc) get(s sandbox.Signal) {
	if p.stopped != nil && s != "SIGKILL" && s != "SIGCONT" {
		p.pending = append(p.pending, s)
		return
	}
	if trap := p.traps[s]; trap != nil && s != "SIGKILL" && s != "SIGSTOP" {
		select {
		case trap <- s:
		default:
		}
	} else {
		actions[s](p)
	}
	if s == "SIGCONT" && p.stopped != nil {
		pending := p.pending
		p.pending = nil
		close(p.stopped)
		p.stopped = nil
		for _, s := range pending {
			p.get(s)
		}
	}
}

func (p *Proc) stop() { p.stopped = make(chan struct{}) }

func (p *Proc) state() string {
	if p.stopped != nil {
		return "T"
	}
	return "S"
}

// isStopped is closed once the process continues, and nil if it is not stopped.
func (p *Proc) isStopped() <-chan struct{} {
	p.box.mu.Lock()
	defer p.box.mu.Unlock()
	return p.stopped
}
