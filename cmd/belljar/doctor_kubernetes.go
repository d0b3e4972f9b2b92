package main

import (
	"context"
	"errors"
	"strings"

	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
)

// cluster is the engine over a cluster's pods, nil if it is another.
func (p *patient) cluster() *kubernetes.Engine {
	if p.host == nil {
		return nil
	}
	engine, _ := p.host.Engine.(*kubernetes.Engine)
	return engine
}

func needKubernetes(p *patient) string {
	if p.cluster() == nil {
		return notThisEngine
	}
	return needConfig(p)
}

// aboutKubernetes is the finding about a cluster.
func (p *patient) aboutKubernetes(ctx context.Context) finding {
	engine := p.cluster()
	version, err := engine.Version(ctx)
	if err != nil {
		p.host.Close()
		p.host = nil
		return problem(err)
	}
	return ok("kubernetes: %s at %s, namespace %s", version, engine.Host(), engine.Namespace())
}

// checkRights asks the API server for what this user may do.
func checkRights(ctx context.Context, p *patient) finding {
	missing, err := p.cluster().MissingRights(ctx)
	switch {
	case err != nil:
		return problem(err)
	case len(missing) > 0:
		return fail("give this user the Role of docs/kubernetes.md, in namespace "+p.cluster().Namespace(), "this user may not %s", strings.Join(missing, ", "))
	}
	return ok("this user may do all that belljar needs")
}

// checkAdmission tries whether a pod of the default profile would be taken.
func checkAdmission(ctx context.Context, p *patient) finding {
	profile := p.config.Profiles[sandbox.DefaultProfile]
	err := p.cluster().Admits(ctx, profile.Image, profile.User, profile.Limits)
	busy, is := errors.AsType[*sandbox.Error](err)
	switch {
	case is && busy.Cause == sandbox.CauseBusy:
		return warn(busy.Hint, "%v", busy.Err)
	case err != nil:
		return problem(err)
	}
	return ok("the namespace takes pods of the default profile")
}
