package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"belljar/sandbox"
	"belljar/sandbox/internal/lockdown"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
)

// sessionOwner is who has the names of sessions.
func (e *Engine) sessionOwner() string {
	if e.OwnSessions {
		return e.owner.Name + "/" + e.owner.Process
	}
	return e.owner.Name
}

// endsWithUs reports whether a container ends with this process: its keeper reads a stdin
// that closes then.
func (e *Engine) endsWithUs(spec sandbox.Spec) bool { return spec.Session == "" || e.OwnSessions }

// endsWithMaker reports the same of a container with these labels, and the process that
// made it.
func endsWithMaker(labels map[string]string) bool {
	return labels[labelSession] == "" || strings.HasSuffix(labels[labelOwner], "/"+labels[labelProcess])
}

// ownUID is who a container's own processes run as.
func ownUID(about container.InspectResponse) (uid int) {
	if hasInit(about) {
		return lockdown.KeeperFor(labelledUser(about.Config.Labels[labelUser]))
	}
	fmt.Sscanf(about.Config.User, "%d", &uid)
	return uid
}

// Sessions implements sandbox.Engine.
func (e *Engine) Sessions(ctx context.Context, name string) ([]sandbox.Kept, error) {
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	filter := managed(labelOwner + "=" + e.sessionOwner())
	if name != "" {
		filter.Add("label", labelSession+"="+name)
	}
	filter.Add("status", "running")
	filter.Add("status", "paused")
	found, err := e.client.ContainerList(ctx, container.ListOptions{Filters: filter})
	if err != nil {
		return nil, engineError(err, "looking for sessions").Hint("see: belljar doctor")
	}
	var list []sandbox.Kept
	for _, c := range found {
		if c.Labels[labelSession] == "" || !e.seals().verify(nameOf(c), c.Labels) {
			continue
		}
		k := sandbox.Kept{Session: c.Labels[labelSession], ID: c.ID, Image: c.Labels[labelImage], ImageID: c.ImageID, User: labelledUser(c.Labels[labelUser]), Print: c.Labels[labelPrint], Created: time.Unix(c.Created, 0)}
		k.Deadline, _ = time.Parse(time.RFC3339, c.Labels[labelDeadline])
		list = append(list, k)
	}
	return list, nil
}

// Adopt implements sandbox.Engine.
func (e *Engine) Adopt(ctx context.Context, kept sandbox.Kept) (sandbox.Container, error) {
	e.events.start(ctx)
	ctx, cancel := context.WithTimeout(ctx, e.callTime())
	defer cancel()
	b := newBox(e, kept.ID, e.events.add(kept.ID))
	about, err := e.client.ContainerInspect(ctx, kept.ID)
	if err != nil || !about.State.Running || about.State.Paused {
		b.Close()
		switch {
		case err == nil && about.State.Paused:
			return nil, engineError(nil, "the container of session %q is paused", kept.Session).Hint("docker unpause " + kept.ID)
		case err == nil, errdefs.IsNotFound(err):
			return nil, engineError(nil, "the container of session %q is gone", kept.Session).As(sandbox.CauseEngineLost).Hint("run the command again")
		}
		return nil, engineError(err, "inspecting the container of session %q", kept.Session).Hint("see: belljar doctor")
	}
	if err := e.checkOurs(about); err != nil {
		b.Close()
		return nil, engineError(err, "container %.12q is labelled as session %q, but was not made by this user's belljar", kept.ID, kept.Session).
			Hint("if you do not need it, remove it: docker rm -f " + kept.ID)
	}
	b.spec = sandbox.Spec{
		Session: kept.Session, User: kept.User, Deadline: kept.Deadline,
		Image: sandbox.Image{Reference: kept.Image, ID: about.Image, Digest: about.Config.Labels[labelDigest]},
	}
	b.recall(about)
	b.inspector.thaw()
	if hasInit(about) {
		b.adoptInit(ctx, about)
	}
	return b, nil
}
