package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// process is the main one of a pod.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}
	code  int32 // then

	mu       sync.Mutex
	attached map[*client]bool
}

// client is who is attached.
type client struct{ out, errs io.Writer }

// start starts it, in namespaces of its own.
func (f *fake) start(p *core.Pod) (*process, error) {
	main := p.Spec.Containers[0]
	s := p.Spec.SecurityContext
	if len(main.Command) == 0 || s == nil || s.RunAsUser == nil || s.RunAsGroup == nil {
		return nil, errors.New("a fake kubelet runs only belljar's pods")
	}
	sizes := map[string]*resource.Quantity{}
	for _, v := range p.Spec.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.Medium == core.StorageMediumMemory {
			sizes[v.Name] = v.EmptyDir.SizeLimit
		}
	}
	tmpfs := map[string]string{}
	for _, m := range main.VolumeMounts {
		if size := sizes[m.Name]; size != nil {
			tmpfs[m.MountPath] = strconv.FormatInt(size.Value(), 10)
		}
	}
	about, err := json.Marshal(map[string]any{
		"Name": p.Name, "Root": f.root, "Program": f.program, "Args": append(main.Command, main.Args...), "UID": *s.RunAsUser, "GID": *s.RunAsGroup, "Tmpfs": tmpfs,
	})
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(f.enter, string(about))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Setsid:     true, Pdeathsig: syscall.SIGKILL,
	}
	own := &process{cmd: cmd, ended: make(chan struct{}), attached: map[*client]bool{}}
	var out, errs io.Reader
	if own.stdin, err = cmd.StdinPipe(); err == nil {
		if out, err = cmd.StdoutPipe(); err == nil {
			errs, err = cmd.StderrPipe()
		}
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	var streams sync.WaitGroup
	streams.Go(func() { own.copy(out, io.Discard, func(c *client) io.Writer { return c.out }) })
	streams.Go(func() { own.copy(errs, os.Stderr, func(c *client) io.Writer { return c.errs }) })
	go func() {
		streams.Wait()
		cmd.Wait()
		if own.code = int32(cmd.ProcessState.ExitCode()); own.code < 0 {
			own.code = 128 + int32(cmd.ProcessState.Sys().(syscall.WaitStatus).Signal())
		}
		close(own.ended)
	}()
	return own, nil
}

// copy hands what comes to all who are attached, and to the log.
func (p *process) copy(from io.Reader, log io.Writer, of func(*client) io.Writer) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			log.Write(buffer[:n])
			for _, c := range p.clients() {
				if to := of(c); to != nil {
					to.Write(buffer[:n]) // who has gone is detached soon
				}
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *process) clients() (all []*client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.attached {
		all = append(all, c)
	}
	return all
}

func (p *process) signal(kill bool) {
	s := syscall.SIGTERM
	if kill {
		s = syscall.SIGKILL
	}
	p.cmd.Process.Signal(s)
}

// AttachContainer implements remotecommand.Attacher, as containerd does: with stdinOnce the process's stdin ends with that of the first
// client, and else only that attachment does.
func (p *pod) AttachContainer(_ context.Context, _, _, _ string, in io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	c, main := &client{}, p.main
	if out != nil {
		c.out = out
	}
	if errs != nil {
		c.errs = errs
	}
	main.mu.Lock()
	main.attached[c] = true
	main.mu.Unlock()
	defer func() {
		main.mu.Lock()
		delete(main.attached, c)
		main.mu.Unlock()
	}()
	said := make(chan struct{}) // all of its stdin
	if in != nil {
		go func() {
			io.Copy(main.stdin, in)
			close(said)
		}()
	}
	select {
	case <-main.ended:
		return nil
	case <-said:
	}
	if !p.Spec.Containers[0].StdinOnce {
		return nil
	}
	main.stdin.Close()
	<-main.ended
	return nil
}
