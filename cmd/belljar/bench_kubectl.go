package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"belljar/config"
	"belljar/internal/names"
	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
)

// claimRows have agent-sandbox as their peer, and are over pods only.
var claimRows = []string{"claim_ready", "claim_run"}

// podRows are those that there are over pods. The peer of the others is kubectl exec.
var podRows = append([]string{"warm", "session", "session_burst", "create"}, claimRows...)

// ofEngine are those of the tests that there are, over pods or not.
func ofEngine(tests []benchTest, pods bool) ([]benchTest, error) {
	left := slices.DeleteFunc(slices.Clone(tests), func(t benchTest) bool {
		if pods {
			return !slices.Contains(podRows, t.name)
		}
		return slices.Contains(claimRows, t.name)
	})
	switch {
	case len(left) > 0:
		return left, nil
	case pods:
		return nil, usagef("with engine.kind kubernetes, bench has the rows %s", strings.Join(podRows, ", "))
	}
	return nil, usagef("bench has the rows %s only with --engine kubernetes", strings.Join(claimRows, " and "))
}

// kubectl is the peer over pods: the kubectl command, with one pod for all that it does.
type kubectl struct {
	command []string // up to its subcommand
	pod     string
}

// newKubectl starts the pod. It ends by itself in case this process is killed.
func newKubectl(ctx context.Context, c config.Kubernetes, e *kubernetes.Engine, image sandbox.Image, user sandbox.User, life time.Duration) (*kubectl, error) {
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "bench needs the kubectl command for engine.kind kubernetes, which is not installed", Err: err, Hint: "install it: https://kubernetes.io/docs/tasks/tools"}
	}
	k := &kubectl{command: []string{path, "--namespace", e.Namespace()}, pod: fmt.Sprintf("belljar-bench-%d-%d", os.Getpid(), time.Now().UnixNano())}
	for flag, value := range map[string]string{"--kubeconfig": c.Kubeconfig, "--context": c.Context} {
		if value != "" {
			k.command = append(k.command, flag, value)
		}
	}
	type object = map[string]any
	manifest, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": k.pod},
		"spec": object{
			"restartPolicy": "Never", "activeDeadlineSeconds": int(life.Seconds()), "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
			"securityContext": object{"runAsNonRoot": true, "runAsUser": user.UID, "runAsGroup": user.GID, "seccompProfile": object{"type": "RuntimeDefault"}},
			"containers": []object{{
				"name": "peer", "image": image.Reference, "imagePullPolicy": "IfNotPresent", "command": []string{"sleep", fmt.Sprint(int(life.Seconds()))},
				"resources":       object{"limits": object{"cpu": "1", "memory": "64Mi"}, "requests": object{"cpu": "100m", "memory": "64Mi"}},
				"securityContext": object{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": object{"drop": []string{"ALL"}}},
			}},
		},
	})
	if err != nil {
		return nil, err
	}
	create, said, cancel := process(ctx, append(slices.Clone(k.command), "create", "-f", "-"))
	defer cancel()
	create.Stdin = strings.NewReader(string(manifest))
	if err := processError(create.Args, create.Run(), said); err != nil {
		return nil, err
	}
	if _, err := wholeProcess(append(slices.Clone(k.command), "wait", "--for=condition=Ready", "--timeout=2m", "pod/"+k.pod))(ctx); err != nil {
		return nil, errors.Join(err, k.close(ctx))
	}
	return k, nil
}

// exec is the command for a script in a pod.
func (k *kubectl) exec(pod, script string) []string {
	return append(slices.Clone(k.command), "exec", pod, "--", "sh", "-c", script)
}

// close deletes the pod. Cancelling ctx does not stop it.
func (k *kubectl) close(ctx context.Context) error {
	_, err := wholeProcess(append(slices.Clone(k.command), "delete", "pod", k.pod, "--grace-period=0", "--force", "--wait=false", "--ignore-not-found"))(ctx)
	return err
}

// beside is what the peer does once for a trivial command: a container of its own, or, over pods, kubectl exec.
func (b *bench) beside() (name string, theirs side) {
	if b.kubectl != nil {
		return "kubectl exec", wholeProcess(b.kubectl.exec(b.kubectl.pod, trivial))
	}
	return "docker run", wholeProcess(b.peer.run(trivial))
}

// besideCreate is the same for a container of the command's own; over pods, a pod without a command, until it runs.
func (b *bench) besideCreate() (name string, theirs side) {
	pods, is := b.host.Engine.(*kubernetes.Engine)
	if !is {
		return b.beside()
	}
	return "pod Running", func(ctx context.Context) (time.Duration, error) {
		return pods.TimeToRun(ctx, b.spec(processTimeout))
	}
}

// spec is a container without a command, which ends by itself after a while.
func (b *bench) spec(life time.Duration) sandbox.Spec {
	p := b.config.Profiles[sandbox.DefaultProfile]
	return sandbox.Spec{
		Command: names.NewID(), Image: b.image, User: p.User, Workdir: p.Workdir, Tmpfs: p.Tmpfs, Network: p.Network, Runtime: p.Runtime, Limits: p.Limits,
		Deadline: time.Now().Add(life),
	}
}

// besideSession is the same in a container that runs, which clear removes.
func (b *bench) besideSession(ctx context.Context) (name string, theirs side, clear func(context.Context) error, err error) {
	if b.kubectl != nil {
		name, theirs = b.beside()
		return name, theirs, func(context.Context) error { return nil }, nil
	}
	container := b.peer.name("exec")
	stay := fmt.Sprintf("exec sleep %d", int(b.peer.life.Seconds()))
	_, err = wholeProcess(b.peer.run(stay, "-d", "--name", container))(ctx)
	return "docker exec", wholeProcess(b.peer.command("exec", container, "sh", "-c", trivial)), b.peer.clear, err
}
