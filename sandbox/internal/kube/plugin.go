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
}

// credential is what it answers.
type credential struct {
	Status struct {
		Token      string    `json:"token"`
		Expiration time.Time `json:"expirationTimestamp"`
		Cert       string    `json:"clientCertificateData"`
	} `json:"status"`
}

// early is how long before its end a token is not used any more.
const early = 10 * time.Second

// token runs the program, unless its last token can be used still.
func (p *plugin) token(ctx context.Context) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.last.Status; s.Token != "" && (s.Expiration.IsZero() || time.Until(s.Expiration) > early) {
		return s.Token, nil
	}
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
		return "", fmt.Errorf("logging in by %q: %w: %s", p.Command, err, strings.TrimSpace(said.String()))
	}
	p.last = credential{}
	if err := json.Unmarshal(out, &p.last); err != nil {
		return "", fmt.Errorf("reading what %q answers: %w", p.Command, err)
	}
	if p.last.Status.Token == "" {
		return "", fmt.Errorf("%q answers without a token, and nothing else is supported", p.Command)
	}
	return p.last.Status.Token, nil
}

// forget drops a token that the API server does not take.
func (p *plugin) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = credential{}
}
