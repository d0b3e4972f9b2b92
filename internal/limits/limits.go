// Package limits refuses limits that no command can run with, in every place that sets
// them: a caller, a profile or a rule of a policy.
package limits

import (
	"fmt"
	"strconv"
	"time"

	"belljar/sandbox"
)

// Check refuses limits that are below their minimum. Zero is: there is no unlimited.
func Check(l sandbox.Limits) error {
	for _, l := range each(l) {
		if l.tooLow() {
			return sandbox.Invalid("raise limits."+l.name, "limits.%s is %s, below the minimum of %s", l.name, l.format(l.value), l.format(l.least))
		}
	}
	return nil
}

// CheckGrant returns everything that is wrong with a grant, each error with its field.
// It does not check whether the secrets exist.
func CheckGrant(g sandbox.Grant) (wrong []error) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, t := range []struct {
		name string
		d    time.Duration
	}{{"timeout", g.Timeout}, {"idle_timeout", g.IdleTimeout}} {
		if t.d != 0 && t.d < sandbox.MinTimeout {
			bad("%s: %v is too short: write %v or more", t.name, t.d, sandbox.MinTimeout)
		}
	}
	for _, l := range each(g.Limits) {
		if l.value != 0 && l.tooLow() {
			bad("limits.%s: %s is below the minimum of %s", l.name, l.format(l.value), l.format(l.least))
		}
	}
	if g.Network != "" && g.Network != "none" {
		bad("network: %q: a rule can only remove the network: write none", g.Network)
	}
	if g.Mounts != "" && g.Mounts != sandbox.NoMounts && g.Mounts != sandbox.ReadOnlyMounts {
		bad("mounts: %q: write ro or none", g.Mounts)
	}
	return wrong
}

// limit is one of Limits, and the lowest value that a command can run with.
type limit struct {
	name         string
	value, least float64
	format       func(float64) string
}

func (l limit) tooLow() bool { return !(l.value >= l.least) } // also true for NaN

func each(l sandbox.Limits) []limit {
	return []limit{
		{"memory", float64(l.Memory), 6 << 20, asSize}, // the engine's own minimum
		{"cpus", l.CPUs, 0.01, decimal},
		{"pids", float64(l.Pids), 4, decimal}, // init, keeper, sh and one command
		{"output", float64(l.Output), 1 << 10, asSize},
		{"result", float64(l.Result), 1 << 10, asSize},
		{"tmp", float64(l.Tmp), 64 << 10, asSize},
		{"files", float64(l.Files), 32, decimal},
		{"disk", float64(l.Disk), 0, asSize}, // 0: the root file system is read-only
	}
}

// decimal writes no exponent, which %v does.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func asSize(f float64) string { return sandbox.FormatSize(int64(f)) }

// Narrows describes the limits of a grant for people.
func Narrows(g sandbox.Grant) (words []string) {
	add := func(set bool, format string, args ...any) {
		if set {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(g.Timeout > 0, "timeout %s", sandbox.FormatDuration(g.Timeout))
	add(g.IdleTimeout > 0, "idle timeout %s", sandbox.FormatDuration(g.IdleTimeout))
	for _, l := range each(g.Limits) {
		add(l.value > 0, "%s %s", l.name, l.format(l.value))
	}
	add(g.Network != "", "network %s", g.Network)
	add(g.Mounts == sandbox.ReadOnlyMounts, "mounts read-only")
	add(g.Mounts == sandbox.NoMounts, "no mounts")
	return words
}
