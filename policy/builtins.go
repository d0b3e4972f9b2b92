package policy

import (
	"slices"
	"strings"
)

// builtins are the shell's own commands. They need no rule as long as they change
// nothing outside the shell; what they run is judged. echo and printf need
// a rule, as programs do.
var builtins map[string]func(*call)

func init() { // not an initializer, which would be a cycle: the rows judge scripts, which use the rows
	builtins = map[string]func(*call){
		":": pass, "true": pass, "false": pass, "exit": pass, "return": pass, "break": pass, "continue": pass,
		"shift": pass, "cd": pass, "pwd": pass, "umask": pass, "times": pass, "jobs": jobs, "fg": pass, "bg": pass,
		"type": pass, "pushd": pass, "popd": pass, "dirs": pass, "disown": pass,
		"test": testCommand, "[": testCommand,
		"set": set, "unset": unset, "export": declares, "readonly": declares, "local": declares,
		"read": read, "getopts": assignsOperands, "wait": waits, "let": unknownEffect, "hash": hash,
		"eval": eval, "exec": execs, "command": command, "builtin": command, "trap": trap,
		".": unknownEffect, "source": unknownEffect, "alias": unknownEffect, "unalias": unknownEffect, "declare": unknownEffect, "typeset": unknownEffect, "nameref": unknownEffect,
		"enable": unknownEffect, "shopt": shopt, "bind": unknownEffect, "complete": unknownEffect, "compgen": unknownEffect, "compopt": unknownEffect, "fc": unknownEffect, "history": unknownEffect,
		"mapfile": unknownEffect, "readarray": unknownEffect, "coproc": unknownEffect, "function": unknownEffect, "select": unknownEffect, "]]": unknownEffect,
		"logout": unknownEffect, "suspend": unknownEffect, "caller": pass, "time": timeCommand, "ulimit": pass,
	}
}

// bashBuiltins are builtins of bash that other shells look up as programs.
var bashBuiltins = map[string]bool{
	"pushd": true, "popd": true, "dirs": true, "disown": true, "caller": true, "shopt": true, "builtin": true, "let": true, "mapfile": true,
	"readarray": true, "enable": true, "compgen": true, "complete": true, "compopt": true, "bind": true, "declare": true, "typeset": true, "logout": true,
}

func pass(*call) {}

// unknownEffect is for builtins that may change the meaning of all later commands.
func unknownEffect(c *call) { c.s.hidden("what "+c.words[0].text+" does", c.span()) }

func eval(c *call) {
	words := c.words[1:]
	if len(words) > 0 && words[0].is("--") {
		words = words[1:]
	}
	if len(words) > 0 {
		c.sourced(join(words))
	}
}

// trap takes a script, "-", "" or the number of a signal.
func trap(c *call) {
	words := c.words[1:]
	if len(words) > 0 && words[0].is("--") {
		words = words[1:]
	}
	if len(words) == 0 || words[0].is("-") || words[0].is("") || words[0].is("-l") || words[0].is("-p") {
		return
	}
	if words[0].splits || words[0].globs {
		unknownEffect(c)
		return
	}
	c.s.lost = true // it may cd, at any time
	c.sourced(words[0])
}

var commandOptions = newGrammar("p v V @ordered")

func command(c *call) {
	p := c.parse(c.words[1:], commandOptions)
	if p.has("v") || p.has("V") {
		return
	}
	if p.has("p") || len(p.operands) > 0 && !c.words[0].is("command") && builtins[p.operands[0].text] == nil {
		c.s.hidden("which program "+c.words[0].text+" finds", c.span())
	}
	c.start(p.operands, true)
}

var execOptions = newGrammar("a: c l @ordered")

func execs(c *call) {
	p := c.parse(c.words[1:], execOptions)
	if len(p.options) > 0 {
		unknownEffect(c) // -a gives a name, by which busybox finds its applet
	}
	c.run(p.operands)
}

var timeOptions = newGrammar("p,portability v,verbose a,append q,quiet f,format: o,output:!w @ordered")

func timeCommand(c *call) { c.run(c.parse(c.words[1:], timeOptions).operands) }

// set may change how words are read and what is exported.
func set(c *call) {
	if readShellWords(c.words[1:], true).unclear != nil {
		unknownEffect(c)
	}
}

func shopt(c *call) {
	for _, w := range c.words[1:] {
		if !w.is("-s") && !w.is("-u") && !w.is("-q") && !slices.ContainsFunc(shoptOptions, w.is) {
			unknownEffect(c)
			return
		}
	}
}

// declares judges export, readonly and local where the parser sees plain commands.
func declares(c *call) {
	c.s.exports(c.words[0].text, c.words[1:], c.span())
}

// exports judges the arguments of export and similar builtins. Words such as "x=$(id)"
// are static up to the value.
func (s *script) exports(variant string, words []word, at Span) {
	if variant != "export" && variant != "readonly" && variant != "local" {
		s.hidden("what "+variant+" does with a variable", at)
		return
	}
	for i, w := range words {
		name, value, has := strings.Cut(w.text, "=")
		switch {
		case i == 0 && w.is("-p"):
		case !isName(name), !w.static && !has, w.splits && s.lang != langBash:
			s.hidden("what "+variant+" sets", s.span(w.start, w.end))
		case variant == "export":
			s.exported(s.j.setting(name, value, w.static), s.span(w.start, w.end))
		default:
			s.assignedTo(name, value, w.static, s.span(w.start, w.end))
		}
	}
}

// exported judges a variable that is passed to every later command.
func (s *script) exported(setting string, at Span) {
	p := s.j.policy
	if p.maySet(setting, nil) {
		return
	}
	s.assigned(nameOf(setting), at)
	s.j.ruled = true
	s.j.add(CommandVerdict{Decision: p.rules.Default, Reason: "it sets " + quoteShort(setting) + " for all commands, which no rule allows (env)", Span: at})
}

// unset removes functions too, in bash where no variable has the name.
func unset(c *call) {
	for i, w := range c.words[1:] {
		if i == 0 && w.is("-v") {
			continue
		}
		if !w.static || !isName(w.text) {
			unknownEffect(c)
			return
		}
		c.s.assignedTo(w.text, "", true, c.span())
		if !c.words[1].is("-v") {
			c.s.j.names.unset[w.text] = true
			c.mayBeUnset(w.text)
		}
	}
}

// mayBeUnset judges a name that is called as a function in one place and unset
// in another, in either order: a loop or another function may reverse it.
func (c *call) mayBeUnset(name string) {
	if c.s.j.names.called[name] && c.s.j.names.unset[name] {
		c.s.hidden("whether "+quoteShort(name)+" is still a function", c.span())
	}
}

var readOptions = newGrammar("r s e p: d: n: N: t: u:")

func read(c *call) {
	for _, w := range c.parse(c.words[1:], readOptions).operands {
		c.assigns(w)
	}
}

// assigns judges a word that names a variable: bash evaluates its subscript.
func (c *call) assigns(w word) {
	if !w.static {
		c.s.hidden("which variable is set", c.s.span(w.start, w.end))
		return
	}
	c.s.assigned(w.text, c.s.span(w.start, w.end))
}

// assignsOperands is getopts. Before its words bash accepts --, after which the name
// is another word.
func assignsOperands(c *call) {
	if len(c.words) > 2 {
		c.assigns(c.words[2])
	}
	for i, w := range c.words[1:] {
		if w.splits || i == 0 && w.mayBeOption() {
			unknownEffect(c)
		}
	}
}

func waits(c *call) {
	for _, w := range c.words[1:] {
		if w.static && strings.HasPrefix(w.text, "-") && w.text != "-n" || !w.static && w.mayBeOption() && len(c.words) > 2 {
			unknownEffect(c)
		}
	}
}

// jobs -x runs a command.
func jobs(c *call) {
	for _, w := range c.words[1:] {
		if !w.static || !slices.Contains([]string{"-l", "-n", "-p", "-r", "-s"}, w.text) {
			unknownEffect(c)
		}
	}
}

// hash -p makes a name refer to another program.
func hash(c *call) {
	for _, w := range c.words[1:] {
		if !w.static || strings.HasPrefix(w.text, "-") && w.text != "-r" {
			unknownEffect(c)
		}
	}
}

// testCommand: bash evaluates the subscript in `test -v 'a[$(id)]'`. A word
// that may contain one may only be a string to compare. After a word
// that may be -v it is a subscript even if the text itself is known.
func testCommand(c *call) {
	mayBeTest := false
	for i, w := range c.words[1:] {
		before := mayBeTest
		mayBeTest = mayBeTest || !w.static && w.mayBeOption()
		switch {
		case before && w.static && !w.noBracket && !c.plainTest():
			c.s.hidden("what is tested", c.s.span(w.start, w.end))
		case w.is("-v") || w.is("-R"):
			next := c.words[1+i:]
			if len(next) < 2 || !next[1].static || !isName(next[1].text) {
				c.s.hidden("a test of an array subscript, which bash evaluates", c.span())
			}
		case w.static || w.noBracket || w.number:
		case w.splits || w.globs:
			c.s.hidden("what is tested (quote it)", c.s.span(w.start, w.end))
		case !c.plainTest():
			c.s.hidden("what is tested", c.s.span(w.start, w.end))
		}
	}
}

// plainTest reports whether the words are one of POSIX's forms of up to four
// words, with known operators.
func (c *call) plainTest() bool {
	words := c.words[1:]
	if c.words[0].is("[") && len(words) > 0 {
		words = words[:len(words)-1]
	}
	if len(words) > 1 && words[0].is("!") {
		words = words[1:]
	}
	switch len(words) {
	case 0, 1:
		return true
	case 2:
		return words[0].static
	case 3:
		return words[1].static && words[1].text != "-a" && words[1].text != "-o"
	}
	return false
}
