package belljar

import (
	"context"
	"strings"

	"belljar/config"
	"belljar/images"
	"belljar/sandbox"
	"belljar/sandbox/kubernetes"
)

// openKubernetes is a Host whose containers are pods.
func openKubernetes(c *config.Config, alone bool) (*Host, error) {
	k := c.Engine.Kubernetes
	engine, err := kubernetes.Open(kubernetes.Config{
		File: k.Kubeconfig, Context: k.Context, Namespace: k.Namespace, Dir: c.StateDir, InitImage: k.Image, Pull: pullWord(k.Pull), OwnSessions: alone, Start: k.StartTimeout,
		Pods: kubernetes.Pods{
			NodeSelector: pairs(k.NodeSelector), Tolerations: tolerations(k.Tolerations), Labels: pairs(k.Labels), PriorityClass: k.PriorityClass,
			PullSecrets: k.PullSecrets, Seccomp: k.Seccomp, UserNamespaces: k.UserNamespaces,
		},
	})
	if err != nil {
		return nil, err
	}
	return &Host{Engine: engine, Images: podImages{engine}, Kind: config.EngineKubernetes}, nil
}

// pullWord is Kubernetes' word for a policy.
func pullWord(p sandbox.PullPolicy) string {
	return map[sandbox.PullPolicy]string{sandbox.PullAlways: "Always", sandbox.PullMissing: "IfNotPresent", sandbox.PullNever: "Never"}[p]
}

// pairs are KEY=VALUE.
func pairs(list []string) map[string]string {
	if len(list) == 0 {
		return nil
	}
	all := map[string]string{}
	for _, pair := range list {
		key, value, _ := strings.Cut(pair, "=")
		all[key] = value
	}
	return all
}

// tolerations are of taints as kubectl writes them: KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT.
func tolerations(list []string) (all []kubernetes.Toleration) {
	for _, taint := range list {
		rest, effect, _ := strings.Cut(taint, ":")
		key, value, valued := strings.Cut(rest, "=")
		t := kubernetes.Toleration{Key: key, Operator: "Exists", Effect: effect}
		if valued {
			t.Operator, t.Value = "Equal", value
		}
		all = append(all, t)
	}
	return all
}

// podImages are those that nodes have and pull. belljar keeps none.
type podImages struct{ *kubernetes.Engine }

// errNodes is why an image cannot be worked with.
func errNodes() error {
	return sandbox.Invalid("build and push it with docker or another tool: see docs/kubernetes.md", "with engine.kind kubernetes, nodes pull images from registries, and belljar has none of its own")
}

// Pull resolves an image, which a node pulls for that.
func (p podImages) Pull(ctx context.Context, reference string) (sandbox.Image, error) {
	return p.Resolve(ctx, reference, sandbox.PullAlways)
}

func (podImages) List(context.Context) ([]images.Listed, error) { return nil, errNodes() }
func (podImages) BuildBase(context.Context) (sandbox.Image, error) {
	return sandbox.Image{}, errNodes()
}
func (podImages) Remove(context.Context, string) (images.Removed, error) {
	return images.Removed{}, errNodes()
}
func (podImages) Prune(context.Context, bool) (images.Removed, error) {
	return images.Removed{}, errNodes()
}
func (podImages) Import(context.Context, string, string) ([]sandbox.Image, error) {
	return nil, errNodes()
}

func (podImages) BuildDebian(context.Context, images.Debian) (sandbox.Image, error) {
	return sandbox.Image{}, errNodes()
}
