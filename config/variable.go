package config

import (
	"maps"
	"slices"
	"strings"

	"belljar/sandbox"
)

// otherVariables are belljar's that set no key. The last three are set for summaries, whose
// program may run belljar, and BELLJAR_VERSION is for build
// scripts.
var otherVariables = []string{"BELLJAR_CONFIG", "BELLJAR_HOST", "BELLJAR_TOKEN", "BELLJAR_TOKEN_FILE", "BELLJAR_TLS_CA", "BELLJAR_TLS_CERT", "BELLJAR_TLS_KEY", "BELLJAR_VERSION", "BELLJAR_COMMAND", "BELLJAR_EXIT_CODE", "BELLJAR_SUMMARY_BYTES"}

// unknownVariables refuses names like belljar's that have no meaning: the person who
// sets one believes that it works.
func unknownVariables(env map[string]string, merged map[string]settings) (problems Problems) {
	names := slices.Clone(otherVariables)
	for _, k := range keys {
		names = append(names, k.env())
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if !strings.HasPrefix(name, "BELLJAR_") || env[name] == "" || slices.Contains(names, name) || isService(name) || isSecrets(name, merged) {
			continue
		}
		p := wrong("unset it; `belljar config schema` lists the keys, and for example BELLJAR_LIMITS_MEMORY sets limits.memory", "this variable sets no key of sandbox.yaml")
		if nearest := nearestVariable(names, name); nearest != "" {
			p.Hint = "did you mean " + nearest + "?"
		}
		p.Place = name
		problems = append(problems, p)
	}
	return problems
}

// isService reports whether the name is one that Kubernetes and docker's links set for
// a service called belljar.
func isService(name string) bool {
	return name == "BELLJAR_PORT" || name == "BELLJAR_NAME" || strings.HasPrefix(name, "BELLJAR_PORT_") || strings.HasPrefix(name, "BELLJAR_SERVICE_")
}

// isSecrets reports whether a secret's value comes from that variable.
func isSecrets(name string, merged map[string]settings) bool {
	for _, s := range merged {
		list, _ := s.value("secrets").data.([]sandbox.Secret)
		for _, secret := range list {
			if secret.Variable == name || secret.Name == name {
				return true
			}
		}
	}
	return false
}

func nearestVariable(names []string, name string) string {
	best, least := "", 3
	for _, known := range names {
		if d := distance(known, name); d < least {
			best, least = known, d
		}
	}
	return best
}
