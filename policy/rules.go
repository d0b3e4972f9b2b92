// # Commands
//
// CommandRules say which scripts may be run. The container is the boundary,
// the rules are the guide: they keep an honest agent on its way and make a
// careless one stop, and they know only the text of a script. What the image
// calls ls, what a repository's settings make git run, what links lead to and
// what a file holds is not in it.
//
// The one rule: what cannot be known is denied. A script is parsed, and every
// command in it judged, however deep; the strictest decision counts.
//
//	rules, _ := policy.Bundled("readonly")
//	p, err := rules.Compile()
//	v := p.Judge("cd sub && git log | head; rm -rf .")
//	// v.Decision is Deny, v.Span is on "rm -rf ."
//
// # Design
//
// A program that only starts another (env, timeout, xargs) needs no rule; what
// it starts does, and a rule that names it is heard too. The same goes for the
// shell's own words (cd, test, set) while they change nothing but the shell; a
// script of nothing else gets the default.
//
// A row of the tables says what a program's words make it run or write. What
// it runs is judged as if it stood there; what it writes is held against the
// path rules. What cannot be judged (another language, a hook) needs a rule
// that says runs, or whose own words name it: "make", "git commit".
//
// sh may be dash, busybox or bash. A script for sh is read as POSIX and as
// bash, and denied where bash's reading needs what POSIX has not: a shell
// between the two could see a third. Where the parser itself differs from the
// shells (found by TestShellsAgree) the text is denied.
package policy

import (
	"fmt"
	"time"
)

// Decision is what becomes of a command. The zero Decision is a denial, and of
// two decisions the smaller is the stricter.
type Decision uint8

// The decisions, strictest first.
const (
	Deny Decision = iota
	Ask
	Allow
)

var decisionNames = [...]string{Deny: "deny", Ask: "ask", Allow: "allow"}

func (d Decision) String() string {
	if int(d) < len(decisionNames) {
		return decisionNames[d]
	}
	return decisionNames[Deny]
}

// MarshalText writes "deny", "ask" or "allow".
func (d Decision) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes, and nothing else.
func (d *Decision) UnmarshalText(text []byte) error {
	for i, name := range decisionNames {
		if name == string(text) {
			*d = Decision(i)
			return nil
		}
	}
	return fmt.Errorf("reading decision %q: write allow, ask or deny", text)
}

// The shells whose grammar a script is judged by.
const (
	// ShellPOSIX is whatever the image has as sh: dash, busybox or bash. What
	// they would not all read alike is denied.
	ShellPOSIX = "posix"
	// ShellBash is bash and nothing else.
	ShellBash = "bash"
)

// What a rule may allow beyond the program it names.
const (
	Runs   = "runs"   // running what cannot be judged: hooks, pagers, other languages
	Writes = "writes" // writing any file, whatever the path rules say
	Reads  = "reads"  // nothing but reading, even of a command that is there to run or write
)

// CommandRules are what may be run, as plain data. A script is as allowed as
// its strictest command. Zero CommandRules deny everything.
type CommandRules struct {
	Default Decision      `json:"default" yaml:"default"` // where no rule matches
	Shell   string        `json:"shell" yaml:"shell"`     // ShellPOSIX, also if empty, or ShellBash
	Dir     string        `json:"dir" yaml:"dir"`         // where commands start, absolute; empty is unknown
	Writes  []string      `json:"writes" yaml:"writes"`   // files that any command may write, such as "/work/**"
	Env     []string      `json:"env" yaml:"env"`         // variables that scripts may set for any command
	Rules   []CommandRule `json:"rules" yaml:"rules"`     // the first that matches decides
}

// CommandRule decides on the commands it matches. A zero rule matches nothing.
type CommandRule struct {
	Name string `json:"name" yaml:"name"`
	// Commands are programs ("ls"), or their first words ("git status"), in
	// which "*" stands for one whole word. A path such as "./gradlew" is
	// matched only by itself.
	Commands []string `json:"commands" yaml:"commands"`
	// Args are globs for the words that follow. A rule that allows or asks
	// matches where each word is like one of them, one that denies where any is.
	Args []string `json:"args" yaml:"args"`
	// Deny are options that the rule denies, however abbreviated or clustered.
	Deny     []string `json:"deny" yaml:"deny"`
	Decision Decision `json:"decision" yaml:"decision"`
	Reason   string   `json:"reason" yaml:"reason"` // shown to the caller

	AllowUnknown bool     `json:"allow_unknown" yaml:"allow_unknown"` // words that only the run reveals, after those of Commands
	Allow        []string `json:"allow" yaml:"allow"`                 // Runs, Writes, or Reads
	Writes       []string `json:"writes" yaml:"writes"`               // files that these commands may write
	Env          []string `json:"env" yaml:"env"`                     // variables that may be set for these commands
	Grant        Grant    `json:"grant" yaml:"grant"`
}

// Grant narrows what a script gets that uses the rule. Zero fields narrow
// nothing. Of several rules the tightest counts.
type Grant struct {
	Timeout     time.Duration `json:"timeout" yaml:"timeout"`
	IdleTimeout time.Duration `json:"idle_timeout" yaml:"idle_timeout"`
	Memory      int64         `json:"memory" yaml:"memory"` // bytes
	CPUs        float64       `json:"cpus" yaml:"cpus"`
	Pids        int64         `json:"pids" yaml:"pids"`
	Network     string        `json:"network" yaml:"network"` // "none" or empty
}

// Verdict is what became of a script, and why. The zero Verdict is a denial.
type Verdict struct {
	Decision Decision         `json:"decision"`
	Rule     string           `json:"rule"`     // the rule that decided; empty is the default
	Reason   string           `json:"reason"`   // one line for the caller
	Span     Span             `json:"span"`     // what it was decided on
	Roots    []string         `json:"roots"`    // the programs found, sorted
	Unknown  []Unknown        `json:"unknown"`  // what only the run reveals and mattered
	Commands []CommandVerdict `json:"commands"` // each command in the order of the script
	Grant    Grant            `json:"grant"`    // the tightest of the rules used
}

// CommandVerdict is what became of one command of a script.
type CommandVerdict struct {
	Program  string   `json:"program"` // empty where unknown, or where no program runs
	Decision Decision `json:"decision"`
	Rule     string   `json:"rule"`
	Reason   string   `json:"reason"`
	Span     Span     `json:"span"`
}

// Span is a part of the judged script: bytes [Start, End), and where it starts
// as editors count, from 1 and in bytes.
type Span struct {
	Start  int `json:"start"`
	End    int `json:"end"`
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Unknown is a part of a script that only the run reveals.
type Unknown struct {
	What string `json:"what"`
	Span Span   `json:"span"`
}

func (g Grant) tighten(other Grant) Grant {
	g.Timeout = tighter(g.Timeout, other.Timeout)
	g.IdleTimeout = tighter(g.IdleTimeout, other.IdleTimeout)
	g.Memory = tighter(g.Memory, other.Memory)
	g.CPUs = tighter(g.CPUs, other.CPUs)
	g.Pids = tighter(g.Pids, other.Pids)
	if g.Network == "" {
		g.Network = other.Network
	}
	return g
}

// tighter is the smaller limit, where 0 is none.
func tighter[T time.Duration | int64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
