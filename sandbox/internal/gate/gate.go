// Package gate is a shell that waits in a container, to become the next
// command.
package gate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"belljar/internal/target"
	"belljar/sandbox"
)

// script is a gate: a shell that waits in a container, attached, so that a
// command is not started there but only read. It prints its PID, answers
// empty lines, and evals the first other line. Its newline is $1, since it
// reads only single lines; a line without a newline is ignored. Its third file is
// /dev/null, already open.
//
// A line is read byte by byte, so what all lines share has a short name: c
// enters the directory and removes what that and the shell itself would leave
// in the environment; x and i print that the command begins, and become it, with
// no stdin and with the gate's; y and j do so with bash.
const script = `set -- '
'
exec 3<>/dev/null
c() { cd -P "$1" || { echo n; exit 126; }; unset PWD OLDPWD SHLVL; } 2>&3
x() { echo; exec sh -c "$@" <&3 3>&-; }
i() { echo; exec sh -c "$@" 3>&-; }
y() { echo; exec bash -c "$@" <&3 3>&-; }
j() { echo; exec bash -c "$@" 3>&-; }
echo $$
until IFS= read -r l || exit 1; [ "$l" ]; do echo; done
eval "$l"`

// IsWaiting reports whether the process, judging by its arguments, is a shell that
// waits for a command.
func IsWaiting(p sandbox.Process) bool { return p.Command == "sh -c "+script }

const (
	// gateTimeout is how long a gate may take to answer, and gateStart how long to
	// start.
	answerTimeout = 2 * time.Second
	startTimeout  = 10 * time.Second

	// MaxTries is how many gates a command tries before it starts cold: a pool
	// may create gates faster than they prove unresponsive.
	MaxTries = 3

	// maxWord is more than a gate ever prints.
	maxWord = 32

	// gateNoDir is the answer of a gate that cannot enter the directory.
	noDirWord = "n"
)

// DrainTimeout is how long a stream may take to end after its container has.
const DrainTimeout = 5 * time.Second

// Gate is a process that waits for its command.
type Gate struct {
	box     sandbox.Container
	Running sandbox.Running
	User    sandbox.User // whose processes could have changed it: no other user gets it
	PID     int          // in the container, which is also its session's ID
	in      *stdinQueue
	words   chan string   // its output before it has a command
	Exited  chan Exit     // ready when it and its streams have ended
	Ended   chan struct{} // closed then
	end     Exit          // set when Ended is closed
	GiveUp  context.CancelFunc

	mu     sync.Mutex
	broken bool      // it printed something unexpected
	stdout io.Writer // of its command; nil: it has none yet
	stderr io.Writer
	line   []byte // of its own output, without a newline so far
	began  bool   // it confirmed: what follows is the command's output
	noDir  bool   // it answered that it cannot enter dir
	dir    string
}

// Open starts a gate. Canceling ctx stops the start; the gate itself
// ends with its container, or by Close.
func Open(ctx context.Context, box sandbox.Container, user sandbox.User) (*Gate, error) {
	g := &Gate{
		box: box, User: user.Unnamed(),
		in:    &stdinQueue{lines: make(chan []byte, 2), stop: make(chan struct{})},
		words: make(chan string, 1), Exited: make(chan Exit, 1), Ended: make(chan struct{}),
	}
	running, err := box.Exec(ctx, sandbox.Exec{Script: script, Dir: "/", User: user, Stdin: g.in, Stdout: gateStdout{g}, Stderr: gateStderr{g}})
	if err != nil {
		return nil, err
	}
	g.Running = running
	waitCtx, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	g.GiveUp = giveUp
	go func() {
		defer close(g.Ended)
		defer giveUp()
		end := Wait(waitCtx, running)
		if end.Err == nil {
			end.Err = g.failure(end)
		}
		g.end = end
		g.Exited <- end
	}()
	if err := g.readPID(ctx); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// readPID waits for the gate's PID.
func (g *Gate) readPID(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	word, err := g.receive(ctx)
	if err != nil {
		return err
	}
	if g.PID, err = strconv.Atoi(word); err != nil {
		return NoAnswer("it did not report its PID")
	}
	return nil
}

// NoAnswerError is the reason why a started shell does not work as a gate.
type NoAnswerError string

// Error implements error.
func (e NoAnswerError) Error() string { return string(e) }

// NoAnswer is the error of a gate that does not answer, with the reason.
func NoAnswer(why string) error {
	return &sandbox.Error{
		Cause: sandbox.CauseEngine, Message: "the waiting shell does not answer", Err: NoAnswerError(why),
		Hint: "see: belljar doctor; in a session, a leftover process may have killed it",
	}
}

// failure is why the command did not run, nil if it did. A status is the
// command's only if the gate confirmed.
func (g *Gate) failure(end Exit) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.noDir:
		return target.NoDirError(g.dir)
	case g.stdout != nil && !g.began && end.Cut != "":
		return &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "it is unknown whether the command ran: " + end.Cut, Hint: "see: belljar doctor"}
	case g.stdout != nil && !g.began:
		return g.NotStarted("the waiting shell " + endedWith(end.Status) + " before the command started")
	}
	return nil
}

// NotStarted is the error of a command that the gate did not start. Its container may
// be gone, which may already be known.
func (g *Gate) NotStarted(how string) error {
	select {
	case <-g.box.Lost():
		return errNotStarted()
	default:
	}
	return &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: how, Hint: "run it again; in a session, a leftover process may have killed it: belljar session rm removes both"}
}

// endedWith describes the end of a process that is not the command.
func endedWith(status int) string {
	if name := SignalName(status - 128); name != "" {
		return "ended with " + name
	}
	return fmt.Sprintf("ended with exit status %d", status)
}

// errNotStarted is the error for a container that ended before its command began.
func errNotStarted() error {
	return &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "the container ended before its command started", Hint: "was it removed by something other than belljar?"}
}

// receive waits for the gate's next word.
func (g *Gate) receive(ctx context.Context) (string, error) {
	select {
	case word := <-g.words:
		return word, nil
	case <-g.Ended:
		if g.end.Err != nil {
			return "", g.end.Err
		}
		return "", NoAnswer("it " + endedWith(g.end.Status))
	case <-ctx.Done():
		return "", NoAnswer(ctx.Err().Error())
	}
}

// Answers reports whether the gate answers now.
func (g *Gate) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if !g.in.send([]byte("\n")) {
		return false
	}
	word, err := g.receive(ctx)
	return err == nil && word == ""
}

// Deliver sends the command. From then on it may run, and no other gate
// gets it. False means that this gate did not get it either.
func (g *Gate) Deliver(text string, c sandbox.Command, stdout, stderr io.Writer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken || len(g.line) > 0 || len(g.words) > 0 {
		return false
	}
	g.stdout, g.stderr, g.dir = stdout, stderr, c.Dir
	if g.in.finish([]byte(text), c.Stdin) {
		return true
	}
	g.stdout = nil
	return false
}

// Close ends a gate that has no command, and joins its goroutines.
func (g *Gate) Close() {
	g.in.finish(nil, nil)
	g.Join()
}

// Join waits until the gate's end is known, which is soon.
func (g *Gate) Join() {
	select {
	case <-g.Ended:
	case <-time.After(DrainTimeout):
		g.GiveUp()
		<-g.Ended
	}
}

// gateStdout receives a gate's words, and then its command's output.
type gateStdout struct{ *Gate }

func (w gateStdout) Write(p []byte) (int, error) {
	n := len(p)
	if p = w.takeWords(p); len(p) > 0 {
		w.stdout.Write(p)
	}
	return n, nil
}

// takeWords removes the gate's own words from its output, and returns the rest.
func (g *Gate) takeWords(p []byte) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.began && len(p) > 0 {
		if g.broken {
			return nil
		}
		word, rest, ended := bytes.Cut(p, []byte("\n"))
		g.line = append(g.line, word[:min(len(word), maxWord)]...)
		p = rest
		if len(g.line) >= maxWord {
			g.broken = true
		}
		if !ended || g.broken {
			return nil
		}
		word, g.line = g.line, nil
		switch {
		case g.stdout != nil:
			g.began, g.noDir = true, string(word) == noDirWord
		case len(g.words) < cap(g.words):
			g.words <- string(word)
		default:
			g.broken = true
		}
	}
	return p
}

// gateStderr drops the output of a shell without a command: it is no command's.
type gateStderr struct{ *Gate }

func (w gateStderr) Write(p []byte) (int, error) {
	w.mu.Lock()
	has, to := w.stdout != nil, w.stderr
	w.mu.Unlock()
	if has {
		to.Write(p)
	}
	return len(p), nil
}
