// # Commands
//
// CommandRules say which scripts may be run. The container is the boundary,
// the rules are the guide: they keep an honest agent on its way and make a
// careless one stop, and they know only the text of a script. What the image
// calls ls, what a repository's settings make git run, what links lead to and
// what a file holds is not in it.
//
// The one rule: what cannot be known is denied. A script is parsed, and every
// command in it judged, however deep; the strictest decision counts. Where the
// default allows, rules that deny are advice only: there are more programs that
// start others than the tables know.
//
//	rules, _ := policy.Bundled("readonly")
//	p, err := rules.Compile()
//	v := p.Judge("cd sub && git log | head; rm -rf .", "/work")
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
// A script has one container and one environment, so what a rule narrows is
// narrowed for all of it, and a secret is given where all its commands are given
// it. Where several rules may be meant, all of them have a say.
//
// sh may be dash, busybox or bash. A script for sh is read as POSIX and as
// bash, and denied where bash's reading needs what POSIX has not: a shell
// between the two could see a third. Where the parser itself differs from the
// shells (found by TestShellsAgree) the text is denied. So it is with awk and sed,
// of which each implementation must read a program the same way (TestLanguagesAgree).
package policy

import "belljar/sandbox"

type (
	// Verdict is the sandbox's, which takes it to the caller, to who approves and
	// to the audit, and so is what it is made of.
	Verdict = sandbox.Verdict
	// Decision is deny, ask or allow.
	Decision = sandbox.Decision
	// CommandVerdict is what became of one command of a script.
	CommandVerdict = sandbox.CommandVerdict
	// Span is a part of a script.
	Span = sandbox.ScriptSpan
	// Unknown is a part of a script that only the run reveals.
	Unknown = sandbox.Unknown
	// Grant is what rules give and narrow.
	Grant = sandbox.Grant
)

// The decisions, strictest first.
const (
	Deny  = sandbox.Deny
	Ask   = sandbox.Ask
	Allow = sandbox.Allow
)

// The shells whose grammar a script is judged by.
const (
	// ShellPOSIX is whatever the image has as sh: dash, busybox or bash. What
	// they would not all read the same way is denied.
	ShellPOSIX = "posix"
	// ShellBash is bash and nothing else, and what sandbox.Command.Shell calls it.
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
	Default Decision      `json:"default"`          // where no rule matches
	Shell   string        `json:"shell,omitempty"`  // ShellPOSIX or ShellBash; empty is the shell that runs the script
	Writes  []string      `json:"writes,omitempty"` // files that any command may write, such as "/work/**"
	Env     []string      `json:"env,omitempty"`    // variables that scripts may set for any command
	Rules   []CommandRule `json:"rules,omitempty"`  // the first that matches decides
}

// CommandRule decides on the commands it matches. A zero rule matches nothing.
type CommandRule struct {
	Name string `json:"name,omitempty"`
	// Commands are programs ("ls"), or their first words ("git status"), in
	// which "*" stands for one whole word. A path such as "./gradlew" is
	// matched only by itself.
	Commands []string `json:"commands,omitempty"`
	// Args are globs for the words that follow. A rule that allows or asks
	// matches where each word is like one of them, one that denies where any is.
	Args []string `json:"args,omitempty"`
	// Deny are options that the rule denies, however abbreviated or clustered.
	Deny     []string `json:"deny,omitempty"`
	Decision Decision `json:"decision"`
	Reason   string   `json:"reason,omitempty"` // shown to the caller

	AllowUnknown bool     `json:"allow_unknown,omitempty"` // words that only the run reveals, after those of Commands
	Allow        []string `json:"allow,omitempty"`         // Runs, Writes, or Reads
	Writes       []string `json:"writes,omitempty"`        // files that these commands may write
	Env          []string `json:"env,omitempty"`           // variables that may be set for these commands
	Grant        Grant    `json:"grant,omitzero"`
}
