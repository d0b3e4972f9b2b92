package config

import (
	"maps"
	"slices"

	"belljar/sandbox"
)

// restriction says why an untrusted file cannot set a key.
type restriction struct {
	what, next string // of the message, and its hint
	place      string // where the operator set that, or ""
}

var (
	hostOnly = restriction{what: "concerns this host, so a file found in the working directory cannot set it",
		next: "set it in ~/.config/belljar/sandbox.yaml or /etc/belljar/sandbox.yaml, or trust this file by naming it with --config or BELLJAR_CONFIG"}
	ownPolicy = restriction{what: "you have a policy of your own, so a file found in the working directory cannot change it",
		next: "to use this file's policy, name it with --config or BELLJAR_CONFIG"}
	ownPolicyTargets = restriction{what: "you have a policy of your own, so a file found in the working directory cannot choose which programs its rules apply to",
		next: trustIt}
	ownSecrets = restriction{what: "you have secrets, so a file found in the working directory cannot choose where they go",
		next: trustIt}
)

// judging are the keys that make a policy: if any differs from the default, there is one.
var judging = []string{"policy.default", "policy.set", "policy.shell", "policy.rules"}

// diverting are the keys that decide which program a rule's command is, and where that
// program can send its secrets. mounts.allow does too: see checkTargets.
var diverting = []string{"image", "pull", "network", "user", "workdir", "shell", "tmpfs", "env.set", "env.allow"}

// restrictions are the keys that only the operator can set if the file is untrusted:
// those of the host, the policy if the operator has one, and the keys that decide what
// the policy's rules apply to or where secrets go.
func (s sources) restrictions() map[string]restriction {
	kept := map[string]restriction{}
	keep := func(k restriction, place string, names ...string) {
		k.place = place
		for _, name := range names {
			kept[name] = k
		}
	}
	for _, k := range keys {
		if k.host {
			keep(hostOnly, "", k.name)
		}
	}
	if v, ok := s.decided(judging...); ok {
		keep(ownPolicy, v.place, append(judging, "policy.ask_timeout")...)
		keep(ownPolicyTargets, v.place, diverting...)
	}
	if v, ok := s.decided("secrets"); ok {
		keep(ownSecrets, v.place, diverting...)
	}
	return kept
}

// decided is the first value of one of the keys that the operator set, in any
// profile, and that is not the default.
func (s sources) decided(names ...string) (value, bool) {
	layers := []layer{s.flags, s.env, s.operator.top}
	for _, name := range slices.Sorted(maps.Keys(s.operator.profiles)) {
		layers = append(layers, s.operator.profiles[name])
	}
	for _, l := range layers {
		for _, name := range names {
			if v, set := l[name].(value); set && v.text != s.defaults[name].(value).text {
				return v, true
			}
		}
	}
	return value{}, false
}

// restrict removes the keys that only the operator can set from an untrusted file. It
// reports each unless its value is the operator's anyway: nothing is silently ignored.
func (s *sources) restrict() Problems {
	s.restricted = s.restrictions()
	var problems Problems
	take := func(profile string, from layer) {
		problems = append(problems, s.bounded(profile, from)...)
		for name, k := range s.restricted {
			v, set := from[name].(value)
			own := s.own(profile, name)
			if set && v.data != nil && v.text != own.text {
				problems = append(problems, k.problem(v))
			}
			if v.text != own.text || own.from != "default" {
				delete(from, name)
			}
		}
	}
	take(sandbox.DefaultProfile, s.file.top)
	for name, profile := range s.file.profiles {
		take(name, profile)
	}
	return problems
}

// own is the operator's value of a key: from a file, or the default.
func (s sources) own(profile, name string) value {
	for _, l := range []layer{s.operator.profiles[profile], s.operator.top} {
		if v, set := l[name].(value); set {
			return v
		}
	}
	return s.defaults[name].(value)
}

func (k restriction) problem(v value) *Problem {
	p := &Problem{Place: v.place, Line: v.line, Key: v.key, Message: k.what, Hint: k.next}
	if k.place != "" {
		p.Message += ": see " + k.place
	}
	return p
}

// restrictedOf are the values of the keys that only the operator can set.
func (s sources) restrictedOf(l layer) layer {
	return maps.Collect(func(yield func(string, any) bool) {
		for name, v := range l {
			if _, is := s.restricted[name]; is && !yield(name, v) {
				return
			}
		}
	})
}

// whole are the settings of each profile of the operator's file alone. None of the
// files that they name may be mounted, whatever profiles an untrusted file has.
func (s sources) whole() (map[string]settings, error) {
	alone := sources{defaults: s.defaults, file: s.operator}
	return alone.mergeAll()
}
