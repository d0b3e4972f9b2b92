// Package lifeline has a second process outlive this one, to clean up where this one is killed.
//
//	line, err := lifeline.Start("sweep", dir) // in the process that may be killed
//	defer line.End()                          // nothing is to be cleaned up
//
//	func init() { // of the package that cleans up, in the same program
//		if words, yes := lifeline.Broke(); yes && words[0] == "sweep" { … }
//	}
//
// The second process is the same program. It waits before most packages are initialised, because this
// one imports little, and so takes 3 ms of processor time; what it cleans up with is initialised once
// the first process is gone.
package lifeline

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// name is the second process's.
const name = "belljar-lifeline"

var broke bool

// init makes this program the second process if it is started under its name.
func init() {
	if len(os.Args) < 2 || os.Args[0] != name {
		return
	}
	var word [1]byte
	for {
		n, err := syscall.Read(0, word[:])
		if err == syscall.EINTR {
			continue
		}
		if n > 0 {
			os.Exit(0)
		}
		break
	}
	broke = true
}

// Broke reports whether this is the second process, and the first one is gone. What Start was told is
// returned. The caller cleans up and exits.
func Broke() (words []string, yes bool) {
	if !broke {
		return nil, false
	}
	return os.Args[1:], true
}

// Line is what the second process holds on to.
type Line struct {
	process *os.Process
	pipe    *os.File
	end     sync.Once
}

// Start starts the second process, in a session of its own: a terminal's signals must not reach it.
func Start(words ...string) (*Line, error) {
	reads, writes, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer reads.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		writes.Close()
		return nil, err
	}
	defer null.Close()
	env := []string{}
	for _, name := range []string{"GORACE", "LD_LIBRARY_PATH"} { // others may be secrets
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	process, err := os.StartProcess("/proc/self/exe", append([]string{name}, words...), &os.ProcAttr{
		Dir: "/", Env: env, Files: []*os.File{reads, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		writes.Close()
		return nil, err
	}
	return &Line{process: process, pipe: writes}, nil
}

// endTimeout is how long the second process may take to end.
const endTimeout = 5 * time.Second

// End ends the second process, which does nothing, and joins it.
func (l *Line) End() {
	l.end.Do(func() {
		l.pipe.Write([]byte{0}) // it may have been killed
		l.pipe.Close()
		late := time.AfterFunc(endTimeout, func() { l.process.Kill() }) // somebody stopped it
		defer late.Stop()
		l.process.Wait()
	})
}
