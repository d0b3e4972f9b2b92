package policy

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// param judges a parameter expansion.
func (s *script) param(p *syntax.ParamExp, quoted bool) word {
	w := word{splits: !quoted}
	if p.Param == nil || p.Flags != nil || p.NestedParam != nil || len(p.Modifiers) > 0 || p.Width || p.IsSet {
		s.deny("an expansion that POSIX sh does not have", s.spanOf(p))
		return w
	}
	// Within double quotes the parser takes '$(id)' for quoted, but shells run
	// it; they disagree about a double quote and a backslash there.
	if quoted && strings.ContainsAny(s.source(p), "'\"\\") {
		s.deny("quotes in a quoted expansion, which shells read differently", s.spanOf(p))
	}
	name := p.Param.Value
	if p.Excl { // ${!x}: the value names what is evaluated (GHSA-g8r9-g2v8-jv6f)
		s.needBash(p)
		s.hidden("an indirect expansion", s.spanOf(p))
	}
	if name == "@" || name == "*" {
		w.splits = true
	}
	if p.Index != nil {
		if sub, ok := p.Index.(*syntax.Word); ok && (sub.Lit() == "@" || sub.Lit() == "*") {
			w.splits = true
		} else {
			s.arithm(p.Index)
		}
	}
	if p.Slice != nil {
		s.arithm(p.Slice.Offset)
		s.arithm(p.Slice.Length)
	}
	if p.Repl != nil {
		s.word(p.Repl.Orig)
		s.word(p.Repl.With)
	}
	plain := isPlain(p) || p.Length // no operator can follow ${#x}
	if p.Exp != nil {
		s.expansion(p, name)
	}
	if plain && (p.Length || s.isNumber(name)) {
		w.number = true
	}
	w.noBracket = plain && (w.number || s.hasNoBracket(name))
	w.noDash = plain && (name == "PWD" || name == "HOME" || s.startsWithoutDash(name, int(p.Pos().Offset()))) // scripts set neither
	return w
}

func (s *script) expansion(p *syntax.ParamExp, name string) {
	switch p.Exp.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.RemSmallSuffix, syntax.RemLargeSuffix,
		syntax.RemSmallPrefix, syntax.RemLargePrefix:
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		s.assigned(name, s.spanOf(p))
	case syntax.UpperFirst, syntax.UpperAll, syntax.LowerFirst, syntax.LowerAll:
	default: // ${x@P} runs what is in x
		s.needBash(p)
		s.hidden("an expansion that evaluates its value", s.spanOf(p))
	}
	if p.Exp.Word != nil {
		s.word(p.Exp.Word)
	}
}

// arithm judges an arithmetic expression. bash evaluates the values of its
// variables, so that x='a[$(id)]'; echo $((x)) runs id: all must be known numbers.
func (s *script) arithm(x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		s.arithm(x.X)
		s.arithm(x.Y)
		if name, ok := x.X.(*syntax.Word); ok && assigns(x.Op) {
			s.assigned(name.Lit(), s.spanOf(x))
		}
	case *syntax.UnaryArithm:
		s.arithm(x.X)
		if name, ok := x.X.(*syntax.Word); ok && (x.Op == syntax.Inc || x.Op == syntax.Dec) {
			s.assigned(name.Lit(), s.spanOf(x))
		}
	case *syntax.ParenArithm:
		s.arithm(x.X)
	case *syntax.Word:
		if x != nil {
			s.operand(x)
		}
	default:
		s.deny("an unsupported kind of arithmetic", s.spanOf(x))
	}
}

func assigns(op syntax.BinAritOperator) bool {
	switch op {
	case syntax.Assgn, syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
		syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
		return true
	}
	return false
}

func (s *script) operand(w *syntax.Word) {
	if lit := w.Lit(); isDigits(lit) || isName(lit) && s.isNumber(lit) || isHex(lit) {
		return
	}
	value := s.word(w) // judges the expansions in it
	if value.number || s.lang != langBash {
		return
	}
	if value.static && isName(value.text) && s.isNumber(value.text) {
		return
	}
	if len(w.Parts) == 1 {
		if _, nested := w.Parts[0].(*syntax.ArithmExp); nested {
			return
		}
	}
	s.hidden("arithmetic on a value that may not be a number, which bash evaluates", s.spanOf(w))
}

func isHex(text string) bool {
	return strings.HasPrefix(text, "0x") && strings.Trim(text[2:], "0123456789abcdefABCDEF") == ""
}

// testExpr judges [[ … ]].
func (s *script) testExpr(x syntax.TestExpr) {
	if x == nil || !s.enter(x) {
		return
	}
	defer s.leave()
	switch x := x.(type) {
	case *syntax.Word:
		s.word(x)
	case *syntax.ParenTest:
		s.testExpr(x.X)
	case *syntax.UnaryTest:
		s.testExpr(x.X)
		if name, ok := x.X.(*syntax.Word); x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar {
			if !ok || !isName(name.Lit()) {
				s.hidden("a test of an array subscript, which bash evaluates", s.spanOf(x))
			}
		}
	case *syntax.BinaryTest:
		s.testExpr(x.X)
		s.testExpr(x.Y)
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if w, ok := side.(*syntax.Word); ok {
					s.operand(w)
				}
			}
		}
	default:
		s.deny("an unsupported kind of test", s.spanOf(x))
	}
}

// shellVariables decide how the shell itself reads, finds and runs commands.
var shellVariables = []string{
	"HOME", "PWD", "OLDPWD", "OPTIND", "PPID", "UID", "EUID", "PS1", "PS2", "PS3", "SHELL", "HISTFILE", "HISTCMD",
	"TMOUT", "TMPDIR", "POSIXLY_CORRECT", "GLOBIGNORE", "MAIL", "MAILPATH", "MAILCHECK", "EXECIGNORE", "BASH_*", "BASH",
	"FUNCNEST", "INPUTRC", "FCEDIR", "FCEDIT", "EDITOR", "VISUAL", "PAGER", "BROWSER", "LESS*", "MANPAGER", "MORE",
	"TERM", "TERMINFO*", "TERMCAP", "LOCPATH", "NLSPATH", "TEXTDOMAIN*", "RIPGREP_CONFIG_PATH", "GREP_OPTIONS",
	"AWKPATH", "AWKLIBPATH", "MAKEFLAGS", "GNUMAKEFLAGS", "CC", "CXX", "RUSTC*", "CARGO_*", "GO*", "CGO_*", "npm_config_*",
	"TAR_OPTIONS", "RSYNC_RSH", "CVS_RSH", "TMUX*", "EXINIT", "VIMINIT", "COMPOSE_*", "KUBE*", "MANOPT", "XDG_*", "SYSTEMD_*",
	// what programs load or run that the bundled sets take for readers: `pip list`, `openssl version`, `apt search`, `ip -d addr`
	"PIP_PYTHON", "PIP_CONFIG_FILE", "OPENSSL_*", "APT_CONFIG", "IP_LIB_DIR", "PKG_CONFIG", "RPM_CONFIGDIR", "PHPRC", "PHP_INI_SCAN_DIR",
	"BAT_OPTS", "BAT_PAGER", "BAT_CONFIG_*", "CCC_OVERRIDE_OPTIONS", "DPKG_PAGER", "GAWK_PERSIST_FILE", "WGETRC", "SYSTEM_WGETRC",
}

// npmVariables say what npm runs, which reads them in any case.
var npmVariables = []string{
	"NPM_CONFIG_*SHELL", "NPM_CONFIG_NODE_OPTIONS", "NPM_CONFIG_NODE_GYP", "NPM_CONFIG_GIT", "NPM_CONFIG_INIT_MODULE",
	"NPM_CONFIG_EDITOR", "NPM_CONFIG_VIEWER", "NPM_CONFIG_BROWSER", "NPM_CONFIG_*CONFIG",
}

// assigned judges a change of one of the shell's variables, to a value that is not known. If
// it is already in the environment, later commands inherit the change.
func (s *script) assigned(name string, at Span) { s.assignedTo(name, "", false, at) }

// assignedTo is assigned where the value may be known.
func (s *script) assignedTo(name, value string, known bool, at Span) {
	switch {
	case !isName(name):
		s.hidden("a variable whose name is not plain", at)
	case slices.Contains(s.j.policy.rules.Env, name):
	case changesCommands(name):
		s.hidden(fmt.Sprintf("setting %s changes what the commands after it are", name), at)
	case s.j.changesCharset(name, value, known):
		s.hidden(fmt.Sprintf("setting %s %s", name, choosesCharset), at)
	}
}

// assigns judges assignments without a command.
func (s *script) assigns(list []*syntax.Assign) {
	for _, a := range list {
		value := s.assign(a)
		if a.Name != nil {
			s.assignedTo(a.Name.Value, value.text, value.static, s.spanOf(a))
		}
	}
}

// assign judges what an assignment evaluates. The value is static only if the variable has no other then.
func (s *script) assign(a *syntax.Assign) (value word) {
	if a.Append || a.Index != nil {
		s.needBash(a)
	}
	if a.Index != nil {
		s.arithm(a.Index) // or it is a key
	}
	value = s.word(a.Value)
	value.static = value.static && a.Array == nil && a.Index == nil && !a.Append
	if a.Array == nil {
		return value
	}
	for _, elem := range a.Array.Elems {
		if elem.Index != nil {
			s.arithm(elem.Index)
		}
		if elem.Value != nil {
			s.word(elem.Value)
		}
	}
	return value
}

// declare judges export and similar clauses as bash reads them.
func (s *script) declare(d *syntax.DeclClause) {
	var words []word
	for _, a := range d.Args {
		w := word{inner: -1, start: int(a.Pos().Offset()), end: int(a.End().Offset())}
		if a.Naked && a.Name == nil {
			w = s.word(a.Value)
		} else {
			value := s.assign(a)
			w.text, w.static = a.Name.Value, a.Naked && a.Index == nil
			if !a.Naked && a.Index == nil && a.Array == nil {
				w.text, w.static = w.text+"="+value.text, value.static
			}
			if a.Index != nil || a.Array != nil {
				w.text += "[" // not a plain name
			}
		}
		words = append(words, w)
	}
	s.exports(d.Variant.Value, words, s.spanOf(d))
}
