package config

import (
	"cmp"
	"fmt"
	"strings"

	"belljar/policy"
	"belljar/sandbox"
)

const trustIt = "if you trust this file, name it with --config or BELLJAR_CONFIG"

// bound says what an untrusted file in that directory cannot set a key to, and which
// item of a list it is. "" means that the value is allowed.
type bound func(data any, dir string) (item, what string)

// bounded are the values of an untrusted file that exceed the bounds of their keys.
// Keys that only the operator can set are not reported here.
func (s sources) bounded(profile string, from layer) Problems {
	var problems Problems
	for _, k := range keys {
		v, set := from[k.name].(value)
		if _, kept := s.restricted[k.name]; !set || kept || k.found == nil || v.data == nil {
			continue
		}
		if item, what := k.found(v.data, s.untrustedDir); what != "" {
			problems = append(problems, &Problem{Place: v.place, Line: v.line, Key: v.key + item,
				Message: what + ", which a file found in the working directory cannot allow", Hint: trustIt})
		}
	}
	return append(problems, s.checkTargets(profile, from)...)
}

// upTo bounds what commands may use of the host.
func upTo[T cmp.Ordered](most T, text string) bound {
	return func(data any, _ string) (item, what string) {
		if n, ok := data.(T); ok && n > most {
			return "", "is more than " + text
		}
		return "", ""
	}
}

// noNetwork: a network reaches the host's neighbours, and a cloud's credentials.
func noNetwork(data any, _ string) (item, what string) {
	if data != "none" {
		return "", "gives access to a network"
	}
	return "", ""
}

// notRoot: root has more of the kernel to attack.
func notRoot(data any, _ string) (item, what string) {
	if u, ok := data.(sandbox.User); ok && u.IsRoot() {
		return "", "is root"
	}
	return "", ""
}

// readOnlyRoot: what is written to it takes the host's memory.
func readOnlyRoot(data any, _ string) (item, what string) {
	if data != readOnly {
		return "", "makes the root file system writable"
	}
	return "", ""
}

// harmlessNames: a name that no glob may allow needs the operator's allow list.
func harmlessNames(data any, _ string) (item, what string) {
	names, _ := data.([]string)
	for i, name := range names {
		if !strings.Contains(name, "*") && policy.Dangerous(name) {
			return fmt.Sprintf("[%d]", i), "takes " + name + " from the caller's environment"
		}
	}
	return "", ""
}

// belowItself: the file may allow mounts only from below its own directory, and so no
// volume, which others may have filled.
func belowItself(data any, dir string) (item, what string) {
	rules, _ := data.([]mountRule)
	for i, rule := range rules {
		if rule.Volume != "" {
			return fmt.Sprintf("[%d].volume", i), "is a volume"
		}
		if !policy.Within(dir, rule.Source) {
			return fmt.Sprintf("[%d].source", i), "is outside the directory of this file"
		}
	}
	return "", ""
}

// checkTargets refuses an untrusted file's mounts over places where programs may be that
// rules name: they must be below the working directory.
func (s sources) checkTargets(profile string, from layer) Problems {
	k, kept := s.restricted["workdir"]
	v, set := from["mounts.allow"].(value)
	if !kept || !set {
		return nil
	}
	var problems Problems
	dir := s.own(profile, "workdir").text
	for i, rule := range v.mounts() {
		if !policy.Within("/work", rule.Target) && !policy.Within(dir, rule.Target) {
			p := k.problem(v)
			p.Key, p.Message = fmt.Sprintf("%s[%d].target", p.Key, i), "is not in /work: "+p.Message
			problems = append(problems, p)
		}
	}
	return problems
}
