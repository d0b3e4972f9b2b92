package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"belljar/internal/target"
	"belljar/sandbox"
)

// hostPaths belong to the kernel, the system and the engines. Writing there,
// or often only reading, breaks isolation.
var hostPaths = []string{
	"/proc", "/sys", "/dev", "/etc", "/run", "/var/run", "/var/lib/docker", "/var/lib/containerd",
}

// CheckMount refuses a mount that no rule covers, and some that a rule covers.
// A source on the host must be absolute and free of links. An error is a *sandbox.Error
// of CauseDenied that names the rule.
func (r Rules) CheckMount(m sandbox.Mount) error {
	asked := fmt.Sprintf("%s:%s:%s", m.Source, m.Target, mode(m))
	for _, check := range []func(sandbox.Mount) *refusal{checkPaths, r.checkSource, checkTarget, r.checkAllowed} {
		if no := check(m); no != nil {
			return &sandbox.Error{Cause: sandbox.CauseDenied, Message: fmt.Sprintf("mount %q denied: %s", asked, no.rule), Hint: no.hint}
		}
	}
	return nil
}

// Writable reports whether a mount could let commands write to dir, a directory of
// the host.
func (r Rules) Writable(dir string) bool {
	return slices.ContainsFunc(r.Mounts, func(rule MountRule) bool {
		return rule.Mode == ReadWrite && Within(rule.Source, dir)
	}) || slices.ContainsFunc(r.Written, func(written string) bool { return Within(written, dir) })
}

// Within reports whether p is dir or below it, comparing whole components. Both
// must be absolute; otherwise the answer is no.
func Within(dir, p string) bool {
	if !path.IsAbs(dir) || !path.IsAbs(p) {
		return false
	}
	dir, p = path.Clean(dir), path.Clean(p)
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// refusal is the rule that refuses a mount, and what to do about it.
type refusal struct{ rule, hint string }

func checkPaths(m sandbox.Mount) *refusal {
	if (path.IsAbs(m.Source) || target.Volume(m.Source)) && path.IsAbs(m.Target) {
		return nil
	}
	return &refusal{`rule "absolute paths only"`, "write both paths in full, beginning with /, or the name of a volume as the source"}
}

// checkSource refuses paths of the host. A volume is none, so that none of them contains it.
func (r Rules) checkSource(m sandbox.Mount) *refusal {
	for _, p := range slices.Concat([]string{"/"}, hostPaths, r.Protected) {
		// Everything is below "/", and only "/" contains it.
		if Within(m.Source, p) || p != "/" && Within(p, m.Source) {
			return &refusal{fmt.Sprintf("rule %q", "protected path "+p), "mount a directory that does not overlap with this path"}
		}
	}
	for _, p := range r.Fixed {
		if Within(p, m.Source) || m.Writable && Within(m.Source, p) {
			return &refusal{fmt.Sprintf("rule %q", "belljar's configuration "+p), "mount a directory that does not contain it, or mount its directory read-only, or move the configuration"}
		}
	}
	return nil
}

func checkTarget(m sandbox.Mount) *refusal {
	if p := target.Protected(m.Target); p != "" {
		return &refusal{fmt.Sprintf("rule %q", "protected target "+p), "choose a target such as /work"}
	}
	return nil
}

// checkAllowed looks for a rule that covers m. If none does, the error names the
// closest one.
func (r Rules) checkAllowed(m sandbox.Mount) *refusal {
	no := &refusal{"no rule in mounts.allow", "add the source to mounts.allow in sandbox.yaml"}
	if target.Volume(m.Source) {
		no.hint = "add the volume to mounts.allow in sandbox.yaml; write a directory as a path"
	}
	closest := 0
	for i, rule := range r.Mounts {
		switch {
		case !rule.names(m):
		case rule.Target != "" && !Within(rule.Target, m.Target):
			if closest < 1 {
				closest, no = 1, &refusal{fmt.Sprintf("mounts.allow[%d] (target %s)", i, rule.Target), "mount it there, or change the rule"}
			}
		case m.Writable && rule.Mode != ReadWrite:
			if closest < 2 {
				closest, no = 2, &refusal{fmt.Sprintf("mounts.allow[%d] (ro)", i), "mount it read-only, or give the rule mode rw"}
			}
		default:
			return nil
		}
	}
	return no
}

// names reports whether a rule is one of m's source: a rule for directories never is one of a volume,
// nor the reverse.
func (r MountRule) names(m sandbox.Mount) bool {
	if target.Volume(m.Source) {
		return r.Volume == m.Source && r.Source == ""
	}
	return r.Volume == "" && Within(r.Source, m.Source)
}

func mode(m sandbox.Mount) string {
	if m.Writable {
		return ReadWrite
	}
	return ReadOnly
}
