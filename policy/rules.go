// # Commands
//
// CommandRules say which scripts may run. The container is the boundary; the
// rules are guidance: they keep an honest agent within its task and stop a
// careless one. They know only the text of a script, not what the image
// calls ls, what a repository's settings make git run, where links lead or
// what a file contains.
//
// The one rule: what cannot be known is denied. A script is parsed, and every
// command in it is judged, at any depth; the strictest decision counts. Where the
// default allows, rules that deny are only advice: more programs can start others
// than the tables list.
//
//	rules, _ := policy.Bundled("readonly")
//	p, err := rules.Compile()
//	v := p.Judge("cd sub && git log | head; rm -rf .", "/work")
//	// v.Decision is Deny, v.Span is on "rm -rf ."
//
// # Design
//
// A program that only starts another (env, timeout, xargs) needs no rule, but the
// program it starts does; a rule that names the first applies too. Likewise for
// builtins of the shell (cd, test, set) while they change nothing but the shell; a
// script of nothing else gets the default.
//
// A row of the tables says what a program's arguments make it run or write. What
// it runs is judged as a command of the script; what it writes is compared with the
// path rules. What cannot be judged (another language, a hook) needs a rule
// that allows "runs", or that names these words: "make", "git commit".
//
// A script has one container and one environment, so the limits of each rule apply
// to all of it, and it gets a secret only where the rules of all its commands grant
// it. Where several rules may match, all of them count.
//
// sh may be dash, busybox or bash. A script for sh is read as POSIX and as
// bash, and denied where bash's reading needs syntax that POSIX does not have: a shell
// between the two could read it in a third way. Where the parser itself differs from the
// shells (found by TestShellsAgree) the text is denied. The same goes for awk and sed:
// every implementation must read a program the same way (TestLanguagesAgree).
package policy

import "belljar/sandbox"

type (
	// Verdict and its parts are types of sandbox, which passes them to the caller, the
	// approver and the audit log.
	Verdict = sandbox.Verdict
	// Decision is deny, ask or allow.
	Decision = sandbox.Decision
	// CommandVerdict is the decision on one command of a script.
	CommandVerdict = sandbox.CommandVerdict
	// Span is a part of a script.
	Span = sandbox.ScriptSpan
	// Unknown is a part of a script whose value is known only when it runs.
	Unknown = sandbox.Unknown
	// Grant is what rules grant and limit.
	Grant = sandbox.Grant
)

// The decisions, strictest first.
const (
	Deny  = sandbox.Deny
	Ask   = sandbox.Ask
	Allow = sandbox.Allow
)

// The shells by whose grammar a script is judged.
const (
	// ShellPOSIX is any sh of an image: dash, busybox or bash. What they
	// would read differently is denied.
	ShellPOSIX = "posix"
	// ShellBash is only bash. It is also the value of sandbox.Command.Shell.
	ShellBash = "bash"
)

// What a rule may allow beyond the program that it names.
const (
	Runs   = "runs"   // running what cannot be judged: hooks, pagers, other languages
	Writes = "writes" // writing any file, regardless of the path rules
	Reads  = "reads"  // only reading, even by a command whose purpose is to run or write
)

// CommandRules say what may run, as plain data. The strictest command decides
// on a script. Zero CommandRules deny everything.
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
	// which "*" stands for one whole word. A path such as "./gradlew" matches
	// only itself.
	Commands []string `json:"commands,omitempty"`
	// Args are globs for the words that follow. A rule that allows or asks
	// matches where each word matches one of them, one that denies where any does.
	Args []string `json:"args,omitempty"`
	// Deny are options that the rule denies, also abbreviated or clustered.
	Deny     []string `json:"deny,omitempty"`
	Decision Decision `json:"decision"`
	Reason   string   `json:"reason,omitempty"` // shown to the caller

	AllowUnknown bool     `json:"allow_unknown,omitempty"` // words known only at run time, after those of Commands
	Allow        []string `json:"allow,omitempty"`         // Runs, Writes, or Reads
	Writes       []string `json:"writes,omitempty"`        // files that these commands may write
	Env          []string `json:"env,omitempty"`           // variables that may be set for these commands
	Grant        Grant    `json:"grant,omitzero"`
}
