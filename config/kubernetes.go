package config

import (
	"net/netip"

	"belljar/internal/lazyregexp"
)

// What Kubernetes takes: the API server says the rest.
var (
	namePattern = lazyregexp.New(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	spaceRule   = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	pairPattern = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,314}[A-Za-z0-9])?=([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
	taintRule   = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,314}[A-Za-z0-9])?(=[A-Za-z0-9._-]{0,63})?(:(NoSchedule|PreferNoSchedule|NoExecute))?$`)
	filePattern = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,254}$`)
	ipPattern   = lazyregexp.New(`^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$`)
	wordPattern = lazyregexp.New(`^[^\s\x00]{1,253}$`)
)

var (
	objectName  = matching(namePattern, "a name", "write a name of Kubernetes, such as belljar-sandboxes")
	namespace   = matching(spaceRule, "a namespace", "write a name of at most 63 characters, without dots, such as belljar-sandboxes")
	profileFile = matching(filePattern, "a relative path", "write a file below the kubelets' seccomp directory, such as profiles/belljar.json")
	ipAddress   = reachable(matching(ipPattern, "an IP address", "write one such as 10.0.0.7, without a port"))
	word        = matching(wordPattern, "a name", "write the name, without spaces")
	objectNames = stringList(namePattern, "a name", "write names of Kubernetes, such as registry-key")
	pairs       = stringList(pairPattern, "KEY=VALUE", "write KEY=VALUE, such as kubernetes.io/arch=amd64")
	taints      = stringList(taintRule, "a taint", "write KEY=VALUE:EFFECT, such as sandboxes=only:NoSchedule")
)

// matching is text that matches.
func matching(re *lazyregexp.Regexp, what, hint string) kind {
	return kind{
		schema: map[string]any{"type": "string", "pattern": re.String()},
		tags:   []string{tagString, tagInt, tagFloat},
		scalar: func(text, _ string) (any, *Problem) {
			if !re.MatchString(text) {
				return nil, wrong(hint, "%s is not %s", said(text), what)
			}
			return text, nil
		},
	}
}

// reachable is an address at which one machine can be reached from others, or from itself.
func reachable(k kind) kind {
	scalar := k.scalar
	k.scalar = func(text, dir string) (any, *Problem) {
		if _, problem := scalar(text, dir); problem != nil {
			return nil, problem
		}
		const hint = "write one such as 10.0.0.7, without a port"
		switch a, err := netip.ParseAddr(text); {
		case err != nil:
			return nil, wrong(hint, "%s is not an IP address", said(text))
		case a.Unmap().IsUnspecified(), a.Unmap().IsMulticast(), a.Unmap().IsLinkLocalUnicast():
			return nil, wrong(hint, "%s is not the address of one machine", said(text))
		}
		return text, nil
	}
	return k
}
