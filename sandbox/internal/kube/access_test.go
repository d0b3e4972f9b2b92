package kube

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- {name: a, cluster: {server: "https://a.example.com:6443/", certificate-authority-data: Q0E=, tls-server-name: a}}
- {name: b, cluster: {server: "https://b.example.com", insecure-skip-tls-verify: true, certificate-authority: ca.crt}}
- {name: p, cluster: {server: "https://p.example.com", proxy-url: "http://proxy"}}
users:
- {name: token, user: {token: secret}}
- {name: file, user: {tokenFile: token}}
- {name: exec, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ./login, args: [one], env: [{name: TWO, value: "2"}]}}}
- {name: old, user: {auth-provider: {name: gcp}}}
- {name: basic, user: {username: a, password: b}}
contexts:
- {name: first, context: {cluster: a, user: token, namespace: mine}}
- {name: second, context: {cluster: b, user: file}}
- {name: third, context: {cluster: b, user: exec}}
- {name: old, context: {cluster: b, user: old}}
- {name: basic, context: {cluster: b, user: basic}}
- {name: none, context: {cluster: c, user: token}}
- {name: proxy, context: {cluster: p, user: token}}
current-context: first
`

func written(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config": kubeconfig, "ca.crt": "CA of b", "token": "of a file\n",
		"login": "#!/bin/sh\n[ \"$1$TWO\" = one2 ] && echo \"$KUBERNETES_EXEC_INFO\" | grep -q client.authentication.k8s.io/v1 && echo '{\"status\":{\"token\":\"of a program\"}}'\necho x >>\"$0.runs\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "config")
}

// said is the token of an access.
func (a *Access) said(t *testing.T) string {
	t.Helper()
	c, err := New(a)
	if err != nil {
		t.Fatal(err)
	}
	h := map[string][]string{}
	if err := c.authorize(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	return strings.Join(h["Authorization"], ",")
}

func TestLoad(t *testing.T) {
	file := written(t)
	a, err := Load(file, "")
	if err != nil || a.Server != "https://a.example.com:6443" || a.ServerName != "a" || string(a.CA) != "CA" || a.Namespace != "mine" || a.From != file {
		t.Fatalf("%+v, error %v", a, err)
	}
	a.CA = nil
	if got := a.said(t); got != "Bearer secret" {
		t.Errorf("%q", got)
	}
	a, err = Load(file, "second")
	if err != nil || a.Server != "https://b.example.com" || !a.Insecure || string(a.CA) != "CA of b" {
		t.Fatalf("%+v, error %v", a, err)
	}
	a.CA = nil
	if got := a.said(t); got != "Bearer of a file" {
		t.Errorf("%q", got)
	}
	if a, err = Load(file, "third"); err != nil {
		t.Fatal(err)
	}
	a.CA = nil
	for range 2 {
		if got := a.said(t); got != "Bearer of a program" {
			t.Errorf("%q", got)
		}
	}
	a.plugin.forget()
	a.said(t)
	if runs, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "login.runs")); string(runs) != "x\n" && string(runs) != "x\nx\n" {
		t.Errorf("the program ran %d times", strings.Count(string(runs), "x"))
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none")+":"+file)
	if a, err := Load("", ""); err != nil || a.From != file {
		t.Errorf("by KUBECONFIG: %+v, error %v", a, err)
	}
}

// Once a bug: of several files, only the first one was read.
func TestLoadOfSeveralFiles(t *testing.T) {
	one, two, text := written(t), written(t), ""
	for _, line := range []string{"current-context: apart", "clusters: [{name: b, cluster: {server: \"https://mine.example.com\"}}]", "contexts: [{name: apart, context: {cluster: a, user: file, namespace: apart}}]"} {
		text += line + "\n"
	}
	if err := os.WriteFile(one, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(two), "token"), []byte("of the second"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", one+":"+two)
	a, err := Load("", "")
	if err != nil || a.Server != "https://a.example.com:6443" || a.Namespace != "apart" || a.From != one {
		t.Fatalf("%+v, error %v", a, err)
	}
	a.CA = nil
	if got := a.said(t); got != "Bearer of the second" {
		t.Errorf("%q", got)
	}
	if a, err := Load("", "second"); err != nil || a.Server != "https://mine.example.com" || a.From != two {
		t.Errorf("%+v, error %v", a, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	file := written(t)
	for context, want := range map[string]string{
		"other": `there is no context "other"`, "none": `cluster "c" of context "none" has no server`, "proxy": "proxy-url is not supported",
		"old": `user "old": of the ways to log in`, "basic": `user "basic": of the ways to log in`,
	} {
		if _, err := Load(file, context); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", context, err)
		}
	}
	if _, err := Load(file+"x", ""); err == nil {
		t.Error("a file that is not there")
	}
	t.Setenv("KUBECONFIG", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := Load("", ""); err == nil || !strings.Contains(err.Error(), "not in a pod") {
		t.Errorf("nowhere: %v", err)
	}
	if _, err := New(&Access{Server: "example"}); err == nil {
		t.Error("a server without a scheme")
	}
}

// What a program leaves running, which holds its output open, holds up no one.
func TestPluginThatLeavesSomething(t *testing.T) {
	p := &plugin{Command: "sh", Args: []string{"-c", `sleep 20 & echo '{"status": {"token": "x"}}'`}}
	began := time.Now()
	if token, err := p.token(t.Context()); err != nil || token != "x" {
		t.Errorf("%q, error %v", token, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	p = &plugin{Command: "sh", Args: []string{"-c", "sleep 20 & wait"}}
	defer p.close()
	if _, err := p.token(ctx); err == nil {
		t.Error("it logs in")
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Once a bug: while the program hung, all requests waited for as long as the first one would, and a token that could be used still was not.
func TestPluginThatHangs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "runs")
	p := &plugin{Command: "sh", Args: []string{"-c", "echo x >>" + file + "; exec sleep 60"}}
	wait := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := p.token(ctx)
		return err
	}
	for range 3 {
		if err := wait(); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	p.mu.Lock()
	p.last.Status.Token, p.last.Status.Expiration = "old", time.Now().Add(early-time.Second)
	p.mu.Unlock()
	if token, err := p.token(t.Context()); err != nil || token != "old" {
		t.Errorf("%q, error %v", token, err)
	}
	p.mu.Lock()
	p.last.Status.Expiration = time.Now().Add(least)
	run := p.run
	p.mu.Unlock()
	if err := wait(); err == nil {
		t.Error("a token is used that is about to end")
	}
	p.close()
	<-run.done
	if runs, _ := os.ReadFile(file); strings.Count(string(runs), "x") > 1 {
		t.Errorf("it ran %d times", strings.Count(string(runs), "x"))
	}
	if run.err == nil || p.run != nil {
		t.Errorf("it is over: %v", run.err)
	}
}

// The next token is there before the last one ends, and no one waits for it.
func TestPluginRenews(t *testing.T) {
	p := &plugin{Command: "sh", Args: []string{"-c", `echo '{"status": {"token": "new"}}'`}}
	p.last.Status.Token, p.last.Status.Expiration = "old", time.Now().Add(early-time.Second)
	p.mu.Lock()
	run := p.beginLocked()
	p.mu.Unlock()
	<-run.done
	if token, err := p.token(t.Context()); err != nil || token != "new" {
		t.Errorf("%q, error %v", token, err)
	}
}

func TestPluginFails(t *testing.T) {
	for _, script := range []string{"echo no >&2; exit 1", "echo '{}'", "echo text"} {
		p := &plugin{Command: "sh", Args: []string{"-c", script}}
		if _, err := p.token(context.Background()); err == nil {
			t.Errorf("%q logs in", script)
		}
	}
}
