// Package policy decides what a command may use of its caller and of its host.
//
// The one rule: it decides without any I/O. The same question has the
// same answer on every machine, so a decision can be tested, and explained
// afterwards. The caller resolves paths first.
//
//	rules := policy.Rules{
//		Env:    []string{"CI", "LC_*"},
//		Mounts: []policy.MountRule{{Source: "/home/me/project", Target: "/work", Mode: policy.ReadOnly}},
//	}
//	err := rules.CheckMount(sandbox.Mount{Source: "/home/me/project", Target: "/work"})
package policy

import "belljar/sandbox"

var _ sandbox.Policy = Rules{}

// Rules are what a profile allows. Zero Rules allow nothing.
type Rules struct {
	Env    []string    // names of the caller's variables, or globs such as "LC_*"
	Mounts []MountRule // a mount is allowed where one of them covers it

	// Written are directories that mounts of any profile may let commands write.
	Written []string

	// Protected are paths of the host that are never mounted, and neither are paths
	// below or above them.
	Protected []string
	// Fixed are paths that commands must not change: belljar's configuration.
	// They are never mounted themselves, and their parents only read-only:
	// a command that can write its own rules is not restricted by them.
	Fixed []string

	Commands *CommandPolicy // judges scripts; nil judges none, so all may run
}

// Scripts are the rules that judge scripts. Without any, all may run.
func (r Rules) Scripts() (rules CommandRules, judged bool) {
	if r.Commands == nil {
		return CommandRules{}, false
	}
	return r.Commands.rules, true
}

// MountRule allows mounts of Source, or of what is below it, or of the one Volume, onto
// Target, or below it. A rule with both allows nothing.
type MountRule struct {
	Source string `json:"source,omitempty"` // on the host: absolute and free of links
	Volume string `json:"volume,omitempty"` // its whole name
	Target string `json:"target"`           // in the container; empty is any
	Mode   string `json:"mode"`             // ReadOnly or ReadWrite; anything else is read-only
}

// The modes of a mount.
const (
	ReadOnly  = "ro"
	ReadWrite = "rw"
)
