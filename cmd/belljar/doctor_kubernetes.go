package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	accounts "belljar/internal/names"
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

// aboutKubernetes is the finding about a cluster.
func (p *patient) aboutKubernetes(ctx context.Context) finding {
	engine := p.cluster()
	version, err := engine.Version(ctx)
	if err != nil {
		found := p.problem(err)
		p.host.Close()
		p.host = nil
		return found
	}
	return ok("kubernetes: %s at %s, namespace %s", version, engine.Host(), engine.Namespace())
}

// checkRights asks the API server for what this user may do.
func checkRights(ctx context.Context, p *patient) finding {
	missing, err := p.cluster().MissingRights(ctx)
	switch {
	case err != nil:
		return p.problem(err)
	case len(missing) > 0:
		return fail("give this user the Role of deploy/kubernetes/role.yaml, in namespace "+p.cluster().Namespace(), "this user may not %s", strings.Join(missing, ", "))
	}
	if of := p.config.Serve.Replicas; of.Enabled {
		missing, err := p.cluster().Shared(of.Namespace).MissingRights(ctx)
		switch {
		case err != nil:
			return p.problem(err)
		case len(missing) > 0:
			return fail("give it the Role belljar-replicas of deploy/kubernetes/role.yaml, in serve.replicas.namespace", "for serve.replicas, this user may not %s", strings.Join(missing, ", "))
		}
	}
	may, err := p.cluster().MayWatchNodes(ctx)
	switch {
	case err != nil:
		return p.problem(err)
	case !may:
		return warn("give it the ClusterRole belljar-nodes of deploy/kubernetes/role.yaml",
			"this user may do all that belljar needs, but not watch nodes: who drains one waits for the pool's pods there until pool.max_age")
	}
	return ok("this user may do all that belljar needs")
}

// checkAdmission tries whether commands of the profiles would get a pod: of what pods can have, and by quotas, limits and policies, with
// their RuntimeClasses.
func checkAdmission(ctx context.Context, p *patient) finding {
	var all []finding
	names := slices.Sorted(maps.Keys(p.profiles()))
	for _, name := range names {
		profile := p.config.Profiles[name]
		if profile.User.Name == accounts.Caller {
			profile.User = sandbox.User{UID: os.Getuid(), GID: os.Getgid()}
		}
		err := p.cluster().Admits(ctx, profile)
		if err == nil {
			continue
		}
		found := p.problem(err)
		if busy, is := errors.AsType[*sandbox.Error](err); is && busy.Cause == sandbox.CauseBusy {
			found = warn(busy.Hint, "%v", busy.Err)
		}
		found.Text = "profile " + name + ": " + found.Text
		all = append(all, found)
	}
	if len(all) == 0 {
		return ok("the namespace takes pods of profile %s", strings.Join(names, ", "))
	}
	return together(all...)
}

// inside is what a pod of the default profile's runtime can do, of which two checks tell.
func (p *patient) inside(ctx context.Context) (kubernetes.Inside, error) {
	if p.pod == nil {
		p.pod = sync.OnceValues(func() (kubernetes.Inside, error) {
			return p.cluster().LookInside(ctx, p.config.Profiles[sandbox.DefaultProfile].Runtime, false)
		})
	}
	return p.pod()
}

// checkPodSeccomp looks from inside: a node without the profile starts no pod, and one without seccomp all of them.
func checkPodSeccomp(ctx context.Context, p *patient) finding {
	in, err := p.inside(ctx)
	own := in.GVisor || kata(p.config.Profiles[sandbox.DefaultProfile].Runtime)
	switch {
	case err != nil:
		return p.problem(err)
	case !in.Seccomp && !own:
		return fail("use nodes whose runtime knows seccomp", "a pod has no seccomp filter")
	case !in.Locked:
		return fail("look for an admission webhook that changes pods", "a pod has capabilities, or can get some")
	case !in.Seccomp:
		return ok("a pod has a kernel of its own, and no capability")
	}
	return ok("a pod has a filter, and no capability")
}

// checkNetworkPolicy tries whether a pod reaches the API server, which no command's can: the init forbids sockets.
func checkNetworkPolicy(ctx context.Context, p *patient) finding {
	in, err := p.inside(ctx)
	switch {
	case err != nil:
		return p.problem(err)
	case in.Reaches:
		return warn("apply deploy/kubernetes/networkpolicy.yaml, and use a network plugin that enforces it",
			"a pod of the namespace reaches the API server: no NetworkPolicy that denies it is enforced. Commands have no sockets all the same")
	}
	if !in.Dropped { // it went astray by itself, perhaps
		return skip("whether a NetworkPolicy is enforced: a pod of the namespace tried to connect to the API server's service, and that ended with %q", in.Network)
	}
	return ok("a pod of the namespace does not reach the API server: %s", in.Network)
}

// checkPodUsers looks whether pods have user namespaces, and where none are configured, whether they could: only a try shows what nodes
// know.
func checkPodUsers(ctx context.Context, p *patient) finding {
	in, err := p.inside(ctx)
	if err != nil {
		return p.problem(err)
	}
	if in.Users {
		return ok("each pod has a user namespace of its own")
	}
	if p.config.Engine.Kubernetes.UserNamespaces {
		return fail("use a cluster that knows hostUsers: false, or set engine.kubernetes.user_namespaces to false", "a pod has no user namespace, though it asks for one")
	}
	in, err = p.cluster().LookInside(ctx, p.config.Profiles[sandbox.DefaultProfile].Runtime, true)
	switch {
	case err != nil:
		why := err.Error()
		if told, is := errors.AsType[*sandbox.Error](err); is { // its hint is for who asks for them
			why = told.Message
		}
		return ok("pods have no user namespace of their own; when one asked for it, %s", why)
	case in.Users:
		return warn("set engine.kubernetes.user_namespaces to true", "pods could have user namespaces of their own, and have none")
	}
	return ok("pods have no user namespace of their own, and this cluster gives none")
}
