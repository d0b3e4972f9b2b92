package mcpapi

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"belljar/internal/target"
	"belljar/policy"
	"belljar/sandbox"
	"belljar/view"
)

// The bounds of what a description has of the operator's words. A client sends it to its
// model with every request, so it stays short whatever is configured.
const (
	describedWord     = 60 // characters of one path, program or reason
	describedPaths    = 4
	describedPrograms = 6   // of each rule
	describedRules    = 400 // bytes for each decision; the last rule may pass them
)

// Describe is the description of the tool that runs a script: what a model should know
// before it tries. It is made of the profile alone.
func Describe(p sandbox.Profile) string {
	var b strings.Builder
	b.WriteString("Run a shell script in a sandbox: a locked-down container. The answer has its output, how it ended and what it left running. A script that fails is an ordinary answer.\n\n")
	for _, part := range []struct{ name, text string }{
		{"Shell", shellLine(p)},
		{"Files", filesLine(p)},
		{"Network", networkLine(p)},
		{"Limits", limitsLine(p)},
		{"Time", timeLine(p)},
		{"Policy", policyLine(p)},
		{"State", stateLine(p)},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, "%s: %s\n", part.name, part.text)
		}
	}
	return b.String()
}

// word is a word of the operator's, as one short line.
func word(text string) string {
	text = view.SafeLine(text)
	if r := []rune(text); len(r) > describedWord {
		text = string(r[:describedWord-1]) + "…"
	}
	return text
}

func shellLine(p sandbox.Profile) string {
	shell := map[string]string{sandbox.ShellBash: "bash", sandbox.ShellAuto: "bash if the image has it, else sh"}[p.Shell]
	if shell == "" {
		shell = "sh (POSIX, no bash syntax)"
	}
	image := word(p.Image)
	if p.Image == sandbox.Defaults().Profile.Image {
		image += " (BusyBox only)"
	}
	user := p.User.Numbers()
	if p.User.Name != "" {
		user = word(p.User.Name)
	}
	if !p.User.IsRoot() {
		user += ", never root"
	}
	return fmt.Sprintf("%s in %s, image %s, user %s. There is no terminal, and stdin is empty unless stdin_open: use non-interactive options.", shell, word(p.Workdir), image, user)
}

// filesLine says where a command finds files, and where it can write some.
func filesLine(p sandbox.Profile) string {
	var parts []string
	overWorkdir := false
	for i, m := range p.Mounts {
		overWorkdir = overWorkdir || path.Clean(m.Target) == path.Clean(p.Workdir)
		access := "read-only"
		if m.Writable {
			access = "writable, and changes stay"
		}
		if i < describedPaths {
			whose := "the host's"
			if target.Volume(m.Source) {
				whose = "the volume"
			}
			parts = append(parts, fmt.Sprintf("%s is %s %s (%s)", word(m.Target), whose, word(m.Source), access))
		}
	}
	if more := len(p.Mounts) - describedPaths; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more mounts", more))
	}
	empty := append([]string{"/tmp"}, p.Tmpfs...)
	if !overWorkdir {
		empty = append([]string{p.Workdir}, empty...)
	}
	size := sandbox.FormatSize(p.Limits.Tmp)
	if len(empty) > 1 {
		size += " each"
	}
	parts = append(parts, fmt.Sprintf("%s: writable, empty at first, in memory, %s", shortened(empty, describedPaths), size))
	if p.Limits.Disk > 0 {
		return strings.Join(parts, "; ") + fmt.Sprintf("; all else is the image's, and the user may write what its owner may, up to %s.", sandbox.FormatSize(p.Limits.Disk))
	}
	return strings.Join(parts, "; ") + "; all else is read-only."
}

func networkLine(p sandbox.Profile) string {
	if p.Network == "" || p.Network == "none" {
		return "none, so nothing can be downloaded."
	}
	return word(p.Network) + "."
}

func limitsLine(p sandbox.Profile) string {
	l := p.Limits
	return fmt.Sprintf("%s memory, %s CPU, %d processes, %d open files; %s of output are kept.",
		sandbox.FormatSize(l.Memory), strconv.FormatFloat(l.CPUs, 'f', -1, 64), l.Pids, l.Files, sandbox.FormatSize(l.Output))
}

func timeLine(p sandbox.Profile) string {
	text := fmt.Sprintf("a script is ended after %s", sandbox.FormatDuration(p.Timeout))
	if p.IdleTimeout != sandbox.NoIdleTimeout {
		text += fmt.Sprintf(", or after %s without output", sandbox.FormatDuration(p.IdleTimeout))
	}
	return text + fmt.Sprintf("; timeout_seconds and idle_timeout_seconds change that, up to %s.", sandbox.FormatDuration(p.MaxTimeout))
}

func stateLine(p sandbox.Profile) string {
	kept := "files outside of mounts"
	if len(p.Mounts) == 0 {
		kept = "its files"
	}
	return fmt.Sprintf("each call without a session has a new container: %s and background processes end with the script. With session, they stay for the next call, until %s without one, at most %s.",
		kept, sandbox.FormatDuration(p.Session.Idle), sandbox.FormatDuration(p.Session.Max))
}

// policyLine says which programs are denied, asked about and allowed, by rule.
func policyLine(p sandbox.Profile) string {
	judge, ok := p.Policy.(policy.Rules)
	if !ok {
		return ""
	}
	rules, judged := judge.Scripts()
	if !judged {
		return ""
	}
	var parts []string
	for _, d := range []struct {
		decision policy.Decision
		is       string
	}{{policy.Deny, "denied"}, {policy.Ask, "a person is asked about"}, {policy.Allow, "allowed"}} {
		if text := rulesOf(rules.Rules, d.decision); text != "" {
			parts = append(parts, d.is+": "+text)
		}
	}
	rest := map[policy.Decision]string{policy.Deny: "all else is denied", policy.Ask: "a person is asked about all else", policy.Allow: "all else is allowed"}
	text := strings.Join(append(parts, rest[rules.Default]), ". ") + "."
	if rules.Default != policy.Allow {
		text += " The text of the script is judged: write programs and options out, not in variables. policy_explain judges a script without running it."
	}
	return text
}

// rulesOf are the rules with that decision, as many as there is room for.
func rulesOf(rules []policy.CommandRule, d policy.Decision) string {
	var b strings.Builder
	left := 0
	for _, r := range rules {
		switch {
		case r.Decision != d:
		case b.Len() < describedRules:
			if b.Len() > 0 {
				b.WriteString("; ")
			}
			b.WriteString(shortened(r.Commands, describedPrograms))
			if r.Reason != "" {
				b.WriteString(" (" + word(r.Reason) + ")")
			}
		default:
			left++
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, "; and what %d more rules say", left)
	}
	return b.String()
}

// shortened are the first of the words, and how many more there are.
func shortened(words []string, most int) string {
	var first []string
	for _, w := range words[:min(most, len(words))] {
		first = append(first, word(w))
	}
	text := strings.Join(first, ", ")
	if len(words) > most {
		text += fmt.Sprintf(" and %d more", len(words)-most)
	}
	return text
}
