package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"belljar/internal/boxinit/wire"
)

// process is the main one of a pod: it answers as belljar's init does, and starts nothing. A command prints how many its pod has had, and
// the last word of its script: the third one, "echo 17", prints "3 of 17", and exits with 0.
type process struct {
	mountinfo string
	commands  atomic.Uint32
	asked     atomic.Uint32 // requests of any kind
	ending    sync.Once
	ended     chan struct{}
	code      int32 // then
}

func start(p *core.Pod) (*process, error) {
	main := p.Spec.Containers[0]
	if !main.Stdin {
		return nil, errors.New("a fake kubelet runs only belljar's pods")
	}
	var mounts strings.Builder
	for i, at := range append([]core.VolumeMount{{MountPath: "/"}}, main.VolumeMounts...) {
		fmt.Fprintf(&mounts, "%d 1 0:%d / %s rw - tmpfs tmpfs rw\n", i+2, i+2, at.MountPath)
	}
	return &process{mountinfo: mounts.String(), ended: make(chan struct{})}, nil
}

func (p *process) end(code int32) {
	p.ending.Do(func() {
		p.code = code
		close(p.ended)
	})
}

// AttachContainer implements remotecommand.Attacher, as containerd does: with stdinOnce the process's stdin ends with that of the first
// client, and so does the process, and else only that attachment.
func (p *pod) AttachContainer(_ context.Context, _, _, _ string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	if in == nil || out == nil {
		return errors.New("a fake kubelet attaches stdin and stdout")
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		p.main.serve(in, out)
	}()
	select {
	case <-left:
		if p.Spec.Containers[0].StdinOnce {
			p.main.end(0)
		}
	case <-p.main.ended:
	}
	return nil
}

// serve answers one client, until it leaves.
func (p *process) serve(in io.Reader, out io.Writer) {
	lines, buffer := wire.Lines{}, make([]byte, 32<<10)
	for {
		n, err := in.Read(buffer)
		for text := buffer[:n]; len(text) > 0; {
			request, rest, ok := lines.Feed(text)
			if ok {
				p.asked.Add(1)
				p.handle(request, func(answer []byte) { out.Write(answer) })
			}
			text = rest
		}
		if err != nil {
			return
		}
	}
}

// handle sends as many pieces as an init writes at different times.
func (p *process) handle(r wire.Request, send func(answer []byte)) {
	frame := func(kind wire.Kind, body []byte) []byte { return wire.AppendFrame(nil, kind, r.ID, body) }
	done := frame(wire.Done, wire.AppendUint32(nil, 0))
	switch r.Kind {
	case wire.Hello:
		send(append(append([]byte(wire.Marker), r.Body...), frame(wire.Welcome, wire.AppendUint32(nil, wire.Version))...))
	case wire.Start:
		p.run(r, send)
	case wire.List:
		send(append(append(frame(wire.Listed, wire.AppendRecord(nil, []byte("1.00 1.00"))), frame(wire.Listed, wire.AppendRecord(nil, nil))...), done...))
	case wire.Look:
		var answer []byte
		if look, ok := wire.DecodeLook(r.Body); ok {
			for _, name := range look.Names {
				answer = append(answer, frame(wire.Listed, p.look(look.What, name))...)
			}
		}
		send(append(answer, done...))
	case wire.End:
		send(done)
		p.end(0)
	case wire.Garbled:
		send(frame(wire.Garbled, nil))
	case wire.Ping, wire.Kill, wire.Signal, wire.Stop, wire.Continue, wire.Stay, wire.Leave:
		send(done)
	}
}

// run is a command's life.
func (p *process) run(r wire.Request, send func(answer []byte)) {
	frame := func(kind wire.Kind, body []byte) []byte { return wire.AppendFrame(nil, kind, r.ID, body) }
	s, ok := wire.DecodeStart(r.Body)
	if !ok {
		send(frame(wire.NotStarted, wire.Refusal{Reason: wire.BadRequest, Step: "reading the request"}.Encode(nil)))
		return
	}
	n, words := p.commands.Add(1), strings.Fields(s.Args[len(s.Args)-1])
	send(frame(wire.Started, wire.StartedAnswer{PID: 1 + n, StartTicks: uint64(n)}.Encode(nil)))
	send(frame(wire.Stdout, fmt.Appendf([]byte{0}, "%d of %s\n", n, words[len(words)-1]))) // 0 is the mask
	end := frame(wire.Exited, wire.ExitedAnswer{When: time.Now().UnixNano()}.Encode(nil))
	for _, stream := range []wire.Kind{wire.Stdout, wire.Stderr} {
		end = append(end, frame(wire.Ended, []byte{byte(stream)})...)
	}
	send(append(end, frame(wire.Rested, nil)...))
}

// look is what is known of a file: where things are mounted, and that there is room. No other file exists.
func (p *process) look(what byte, name string) []byte {
	switch {
	case what == wire.LookText && name == "/proc/1/mountinfo":
		return wire.AppendRecord(nil, nil, []byte(p.mountinfo))
	case what == wire.LookSpace:
		return wire.AppendRecord(nil, nil, []byte("16914836 1000 1000")) // of a tmpfs
	}
	return wire.AppendRecord(nil, []byte("2")) // ENOENT
}
