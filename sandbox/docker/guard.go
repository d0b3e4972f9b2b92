package docker

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// guardName is what the guard is started as.
	guardName = "belljar-guard"

	// guardTime is how long an engine may take to make a container that nobody
	// waits for any more.
	guardTime = 30 * time.Second

	// guardPause is between two looks for one.
	guardPause = 100 * time.Millisecond
)

// init makes any program with this package in it the guard, where it is started
// as that. It runs before main, and so before anything of the program's own that
// imports this package.
func init() {
	if len(os.Args) == 1 && os.Args[0] == guardName {
		closeInherited()
		keepGuard(os.Stdin)
		os.Exit(0)
	}
}

// guard is a second process that outlives this one if it is killed while the
// engine makes containers. The dead man's switch does not hold yet then: there is
// no keeper. It starts with the first container, reads what is being made from a
// pipe, and removes that when the pipe ends without a word. Without it the next
// belljar's sweep would.
type guard struct {
	mu      sync.Mutex
	process *exec.Cmd
	pipe    *os.File
	making  map[string]string // names, by seal
}

// word is what the guard is told.
type word struct {
	Host string `json:",omitempty"` // the first: the engine
	Seal string `json:",omitempty"`
	Name string `json:",omitempty"` // the engine is asked to make it; "": it is held, or gone
	End  bool   `json:",omitempty"` // of all: nobody waits longer than for one look
}

// watch is called before the engine is asked to make a container.
func (e *Engine) watch(seal, name string) {
	g := &e.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.making == nil {
		g.making = map[string]string{}
	}
	g.making[seal] = name
	if g.pipe != nil && g.say(word{Seal: seal, Name: name}) == nil {
		return
	}
	g.stop() // somebody killed it
	if g.start(word{Host: e.Host()}) != nil {
		return
	}
	for seal, name := range g.making {
		g.say(word{Seal: seal, Name: name})
	}
}

// unwatch is called once the container has its keeper, or there is none.
func (e *Engine) unwatch(seal string) {
	g := &e.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.making, seal)
	if g.pipe != nil {
		g.say(word{Seal: seal}) // one that does not hear it looks for nothing
	}
}

// say writes at once or not at all: what is shorter than a page a pipe takes as a
// whole (pipe(7)), also from a process that is killed.
func (g *guard) say(w word) error {
	line, err := json.Marshal(w)
	if err != nil {
		return err
	}
	g.pipe.SetWriteDeadline(time.Now().Add(time.Second))
	_, err = g.pipe.Write(line)
	return err
}

// start starts this program once more, as it is in memory, in a session of its
// own: a terminal's signals are not for it.
func (g *guard) start(first word) error {
	words, pipe, err := os.Pipe()
	if err != nil {
		return err
	}
	defer words.Close()
	process := &exec.Cmd{Path: "/proc/self/exe", Args: []string{guardName}, Env: guardEnv(), Dir: "/", Stdin: words, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := process.Start(); err != nil {
		pipe.Close()
		return err
	}
	g.process, g.pipe = process, pipe
	return g.say(first)
}

// guardEnv are this program's variables that it takes to reach an engine. The others
// may be secrets, and a guard can outlive who has them.
func guardEnv() []string {
	env := []string{}
	for _, name := range []string{
		"DOCKER_API_VERSION", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "SSL_CERT_DIR", "SSL_CERT_FILE",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "LD_LIBRARY_PATH",
	} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// closeInherited closes what the program before this one left open for others:
// whoever reads such a pipe waits for its end. What this one opened itself, as
// Go's runtime does, is closed on exec.
func closeInherited() {
	open, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range open {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

// stop ends the guard, and waits for its end.
func (g *guard) stop() {
	if g.pipe == nil {
		return
	}
	g.say(word{End: true})
	g.pipe.Close()
	late := time.AfterFunc(callTimeout, func() { g.process.Process.Kill() })
	g.process.Wait()
	late.Stop()
	g.process, g.pipe = nil, nil
}

func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stop()
}

// keepGuard is the guard's whole life.
func keepGuard(words io.Reader) {
	var first word
	making, told := map[string]string{}, json.NewDecoder(words)
	if told.Decode(&first) != nil {
		return
	}
	for {
		var w word
		switch err := told.Decode(&w); {
		case err != nil: // it was killed
			unmakeAll(first.Host, making, guardTime)
			return
		case w.End:
			unmakeAll(first.Host, making, 0)
			return
		case w.Name != "":
			making[w.Seal] = w.Name
		default:
			delete(making, w.Seal)
		}
	}
}

// unmakeAll removes what its maker left unfinished. The engine may still be
// making it: it is looked for until patience is over.
func unmakeAll(host string, making map[string]string, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), guardTime)
	defer cancel()
	end := time.Now().Add(patience)
	thisProcess().sweepHolds()
	for len(making) > 0 {
		if engine, err := Connect(ctx, host); err == nil {
			for seal, name := range making {
				if removed, _ := engine.unmake(ctx, name, seal); removed {
					delete(making, seal)
				}
			}
			engine.Close()
		}
		if !time.Now().Before(end) {
			return
		}
		time.Sleep(guardPause)
	}
}
