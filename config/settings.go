package config

import (
	"maps"
	"slices"

	"belljar/sandbox"
)

// Setting is one key with the value in effect.
type Setting struct {
	Key    string `json:"key"`    // "limits.memory", or "profiles.build.limits.memory"
	Value  string `json:"value"`  // as sandbox.yaml would have it, with paths resolved
	Source string `json:"source"` // "flag --memory", "env BELLJAR_LIMITS_MEMORY", "file sandbox.yaml:12" or "default"
}

// Settings are all keys in the order of the documentation, then those that the
// profiles set. A profile's key may still have its value from a flag or a
// variable, which are stronger.
func (c *Config) Settings() []Setting { return slices.Clone(c.settings) }

func list(s sources, merged map[string]settings) []Setting {
	var all []Setting
	for _, k := range keys {
		all = append(all, merged[sandbox.DefaultProfile].setting("", k))
	}
	for _, name := range slices.Sorted(maps.Keys(s.file.profiles)) {
		for _, k := range commandKeys() {
			_, sets := s.file.profiles[name][k.name]
			if _, keeps := s.restrictedOf(s.operator.profiles[name])[k.name]; sets || keeps {
				all = append(all, merged[name].setting(profilesKey+"."+name+".", k))
			}
		}
	}
	return all
}

func (s settings) setting(prefix string, k key) Setting {
	v := s.value(k.name)
	return Setting{Key: prefix + k.name, Value: v.text, Source: v.String()}
}
