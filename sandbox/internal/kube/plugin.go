package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// plugin is a program that logs in, as clusters of a cloud have it
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins).
type plugin struct {
	APIVersion string `yaml:"apiVersion"`
	Command    string
	Args       []string
	Env        []struct{ Name, Value string }

	dir  string
	mu   sync.Mutex
	last credential
	run  *login // that is going on, nil for none
}

// login is one run of it.
type login struct {
	end   context.CancelFunc
	done  chan struct{} // closed once it is over
	token string        // then
	err   error         // the same
}

// credential is what it answers.
type credential struct {
	Status struct {
		Token      string    `json:"token"`
		Expiration time.Time `json:"expirationTimestamp"`
		Cert       string    `json:"clientCertificateData"`
	} `json:"status"`
}

const (
	// early is how long before its end a token is renewed, and least how long before that it is used still.
	early, least = 30 * time.Second, 10 * time.Second
	// loginTimeout is for one run of the program: all requests wait for it.
	loginTimeout = 15 * time.Second
)

// token is the last one, if it can be used still, or that of a run of the program: until ctx ends, which the run is not for.
func (p *plugin) token(ctx context.Context) (string, error) {
	p.mu.Lock()
	s := p.last.Status
	left := time.Until(s.Expiration)
	if s.Token != "" && (s.Expiration.IsZero() || left > early) {
		defer p.mu.Unlock()
		return s.Token, nil
	}
	run := p.run
	if run == nil {
		run = p.beginLocked()
	}
	p.mu.Unlock()
	if s.Token != "" && left > least {
		return s.Token, nil
	}
	select {
	case <-run.done:
		return run.token, run.err
	case <-ctx.Done():
		return "", fmt.Errorf("waiting for %q to log in: %w", p.Command, ctx.Err())
	}
}

// beginLocked runs the program, until it answers, for loginTimeout, or until close.
func (p *plugin) beginLocked() *login {
	ctx, end := context.WithTimeout(context.Background(), loginTimeout)
	run := &login{end: end, done: make(chan struct{})}
	p.run = run
	go func() {
		defer close(run.done)
		defer end()
		got, err := p.login(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if run.token, run.err = got.Status.Token, err; err == nil {
			p.last = got
		}
		p.run = nil
	}()
	return run
}

// close ends a run that is going on.
func (p *plugin) close() {
	p.mu.Lock()
	run := p.run
	p.mu.Unlock()
	if run != nil {
		run.end()
		<-run.done
	}
}

func (p *plugin) login(ctx context.Context) (got credential, err error) {
	command := p.Command
	if strings.ContainsRune(command, filepath.Separator) {
		command = in(p.dir, command)
	}
	cmd := exec.CommandContext(ctx, command, p.Args...)
	request, _ := json.Marshal(map[string]any{"apiVersion": p.APIVersion, "kind": "ExecCredential", "spec": map[string]any{"interactive": false}})
	cmd.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+string(request))
	for _, v := range p.Env {
		cmd.Env = append(cmd.Env, v.Name+"="+v.Value)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second // what it leaves running may hold its output open
	out, err := cmd.Output()
	if err != nil && (ctx.Err() != nil || !errors.Is(err, exec.ErrWaitDelay)) {
		return got, fmt.Errorf("logging in by %q: %w: %s", p.Command, err, strings.TrimSpace(said.String()))
	}
	if err := json.Unmarshal(out, &got); err != nil {
		return got, fmt.Errorf("reading what %q answers: %w", p.Command, err)
	}
	if got.Status.Token == "" {
		return got, fmt.Errorf("%q answers without a token, and nothing else is supported", p.Command)
	}
	return got, nil
}

// forget drops a token that the API server does not take.
func (p *plugin) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = credential{}
}
