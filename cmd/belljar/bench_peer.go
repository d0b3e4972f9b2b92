package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/docker"
)

// peer is the docker command. Its containers have belljar's lock-down, and
// labels by which this bench finds them. Each ends by itself in case this process is
// killed.
type peer struct {
	docker   []string // the command, with the address of the engine
	lockdown []string // docker run's arguments, ending with the image
	id       string   // identifies this bench: its PID, and a random part
	seccomp  string   // a file
	life     time.Duration
}

func newPeer(host string, p sandbox.Profile, image sandbox.Image, count int) (*peer, error) {
	path, err := exec.LookPath("docker")
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "bench needs the docker command, which is not installed", Err: err, Hint: "install it: apt-get install -y docker-cli"}
	}
	file, err := seccompFile()
	if err != nil {
		return nil, fmt.Errorf("writing the seccomp profile: %w", err)
	}
	spec := sandbox.Spec{Image: image, User: p.User, Workdir: p.Workdir, Tmpfs: p.Tmpfs, Limits: p.Limits, Network: p.Network, Runtime: p.Runtime}
	args, err := docker.RunArgs(spec, file)
	if err != nil {
		os.Remove(file)
		return nil, err
	}
	return &peer{
		docker: []string{path, "--host", host}, lockdown: args, seccomp: file,
		id:   fmt.Sprintf("%d-%s", os.Getpid(), rand.Text()[:8]),
		life: peerLife(count),
	}, nil
}

// peerLife is how long a container of the peer's stays, at most.
func peerLife(count int) time.Duration { return 10*time.Minute + time.Duration(count)*2*time.Second }

func seccompFile() (string, error) {
	profile, err := docker.SeccompProfile()
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "belljar-seccomp-*.json")
	if err != nil {
		return "", err
	}
	_, err = file.WriteString(profile)
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(file.Name())
	}
	return file.Name(), err
}

// run returns a docker run command for a script.
func (p *peer) run(script string, flags ...string) []string {
	labels := []string{"--label", "dev.belljar.managed=true", "--label", "dev.belljar.bench=" + p.id}
	return slices.Concat(p.docker, p.lockdown[:1], labels, flags, p.lockdown[1:], []string{"-c", script})
}

func (p *peer) command(args ...string) []string { return slices.Concat(p.docker, args) }

// name is a container's.
func (p *peer) name(what string) string { return "belljar-bench-" + p.id + "-" + what }

// output runs a docker command and returns what it prints.
func (p *peer) output(ctx context.Context, args ...string) (string, error) {
	return p.stdout(ctx, p.command(args...))
}

func (p *peer) stdout(ctx context.Context, argv []string) (string, error) {
	cmd, said, cancel := process(ctx, argv)
	defer cancel()
	out, err := cmd.Output()
	return string(out), processError(argv, err, said)
}

// clearTries is how often clear looks for containers until none is left.
const clearTries = 50

// clear removes the bench's containers, if there are any. Cancelling ctx does
// not stop it.
func (p *peer) clear(ctx context.Context) error {
	var failed error
	for range clearTries {
		out, err := p.output(ctx, "ps", "-aq", "--filter", "label=dev.belljar.bench="+p.id)
		if err != nil {
			return err
		}
		ids := strings.Fields(out)
		if len(ids) == 0 {
			return nil
		}
		// Fails if the engine is removing them already.
		_, failed = p.output(ctx, append([]string{"rm", "-f"}, ids...)...)
		time.Sleep(100 * time.Millisecond)
	}
	return &sandbox.Error{Cause: sandbox.CauseEngine, Message: "containers of the bench are still there", Err: failed, Hint: "remove them: docker ps -aq --filter label=dev.belljar.bench | xargs docker rm -f"}
}

func (p *peer) close(ctx context.Context) error {
	os.Remove(p.seccomp)
	return p.clear(ctx)
}
