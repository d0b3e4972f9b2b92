package policy

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// dirSet is the set of directories that the shell may be in. Without a known start
// they are relative to the start of the script. The zero value is empty.
type dirSet struct {
	dirs []string
	lost bool
}

var unknownDirs = dirSet{lost: true}

func startIn(dir string) dirSet {
	if !path.IsAbs(dir) {
		dir = "."
	}
	return dirSet{dirs: []string{path.Clean(dir)}}
}

// is reports whether the shell is certainly in that directory.
func (w dirSet) is(dir string) bool { return !w.lost && len(w.dirs) == 1 && w.dirs[0] == dir }

// or is the union of both.
func (w dirSet) or(other dirSet) dirSet {
	if w.lost || other.lost {
		return unknownDirs
	}
	dirs := w.dirs
	for _, dir := range other.dirs {
		if !slices.Contains(dirs, dir) {
			dirs = append(slices.Clip(dirs), dir)
		}
	}
	if len(dirs) > 8 {
		return unknownDirs
	}
	return dirSet{dirs: dirs}
}

// cd is where `cd dir` leads: shells resolve ".." in the text (cd -L).
func (w dirSet) cd(dir word) dirSet {
	if w.lost || !dir.static || dir.text == "" || dir.text[0] == '-' {
		return unknownDirs
	}
	var to dirSet
	for _, from := range w.dirs {
		if path.IsAbs(dir.text) {
			from = ""
		}
		to.dirs = append(to.dirs, path.Join(from, dir.text))
	}
	return to
}

// files are the paths that a name may mean, or false where they are unknown.
// Unlike in cd, ".." follows a link before it.
func (w dirSet) files(name word) ([]string, bool) {
	switch {
	case !name.static, name.text == "", slices.Contains(strings.Split(name.text, "/"), ".."):
		return nil, false
	case path.IsAbs(name.text):
		return []string{path.Clean(name.text)}, true
	case w.lost:
		return nil, false
	}
	var files []string
	for _, dir := range w.dirs {
		files = append(files, path.Join(dir, name.text))
	}
	return files, true
}

// dirsAfter returns the directories that the shell may be in after the command, when
// it started in these.
func (c *call) dirsAfter(in dirSet) (ok, fail dirSet) {
	words := c.words
	for len(words) > 1 && (words[0].is("command") || words[0].is("builtin")) {
		switch words = words[1:]; {
		case words[0].is("-v") || words[0].is("-V"):
			return in, in
		case !words[0].static || strings.HasPrefix(words[0].text, "-"): // an option, or what follows --
			return unknownDirs, unknownDirs
		}
	}
	switch name := words[0]; {
	case !name.static:
		return unknownDirs, unknownDirs
	case name.text == "cd" && len(words) == 2:
		return in.cd(words[1]), in
	case slices.Contains([]string{"cd", "pushd", "popd", "eval", ".", "source"}, name.text):
		return unknownDirs, unknownDirs
	}
	return in, in
}

// harmlessFiles may be written by any command.
var harmlessFiles = []string{"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2"}

// goElsewhere marks that the call's command runs in another root or on another host,
// where paths have other meanings.
func (c *call) goElsewhere() {
	there := *c.s
	there.elsewhere = true
	c.s, c.in = &there, unknownDirs
}

// mayWrite reports whether path rules allow writing the file from there.
func (s *script) mayWrite(w dirSet, name word, rule *ruleMatch) bool {
	p := s.j.policy
	globs := p.rules.Writes
	if rule != nil {
		globs = slices.Concat(globs, rule.Writes)
	}
	files, known := w.files(name)
	if !known || s.elsewhere {
		return slices.Contains(globs, "/**")
	}
	return !slices.ContainsFunc(files, func(file string) bool {
		return !slices.Contains(harmlessFiles, file) && !slices.ContainsFunc(globs, func(glob string) bool {
			return s.j.covers(glob, file)
		})
	})
}

// loopIn returns where a loop's body may start: anywhere, if it changes directory.
func (s *script) loopIn(in dirSet, lists ...[]*syntax.Stmt) dirSet {
	for _, list := range lists {
		for _, stmt := range list {
			if changesDir(stmt) {
				return unknownDirs
			}
		}
	}
	return in
}

// changesDir reports whether the statement may change the shell's own directory.
func changesDir(stmt *syntax.Stmt) (yes bool) {
	syntax.Walk(stmt, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Subshell, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Word:
			return false
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				if strings.Contains(n.Args[0].Lit(), "\\") {
					yes = true // such as c\d
				}
				switch n.Args[0].Lit() {
				case "", "cd", "pushd", "popd", "eval", ".", "source", "builtin", "trap":
					yes = true
				case "command":
					yes = len(n.Args) < 2 || n.Args[1].Lit() != "-v" && n.Args[1].Lit() != "-V"
				}
			}
		}
		return !yes
	})
	return yes
}

// redirects judges redirections by the rule of the command they belong to, if any.
func (s *script) redirects(list []*syntax.Redirect, in dirSet, rule *ruleMatch) {
	for _, r := range list {
		s.redirect(r, in, rule)
	}
}

func (s *script) redirect(r *syntax.Redirect, in dirSet, rule *ruleMatch) {
	if !s.enter(r) {
		return
	}
	defer s.leave()
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
		s.needBash(r)
		s.assigned(strings.Trim(r.N.Value, "{}"), s.spanOf(r.N))
	}
	target := s.word(r.Word)
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		s.hereDoc(r)
	case syntax.WordHdoc:
	case syntax.DplIn: // it duplicates a number; shells refuse a name
	case syntax.RdrIn:
		s.connects(r, target, rule)
	case syntax.RdrOut, syntax.AppOut, syntax.RdrInOut, syntax.RdrClob, syntax.DplOut, syntax.RdrAll, syntax.AppAll:
		s.connects(r, target, rule)
		s.writes(r, target, in, rule)
	default:
		s.deny("an unsupported redirection", s.spanOf(r))
	}
}

// connects judges a name that may be a connection. It needs a rule that allows
// running anything: path rules are about files.
func (s *script) connects(r *syntax.Redirect, target word, rule *ruleMatch) {
	switch {
	case s.lang != langBash, target.number, target.procSubst, target.static && !target.connects(), s.isNotConn(r.Word):
	case !target.static && rule != nil && rule.AllowUnknown:
	default:
		s.redirected("may open a network connection, as bash does for files below /dev/tcp (write ./ before the name)", r, target, Runs, rule)
	}
}

func (s *script) writes(r *syntax.Redirect, target word, in dirSet, rule *ruleMatch) {
	if r.Op == syntax.DplOut && target.static && (target.text == "-" || isDigits(strings.TrimSuffix(target.text, "-"))) || target.procSubst {
		return // a duplicate of an open file, or a pipe
	}
	if rule == nil && (!target.static || path.Clean(target.text) != "/dev/null") {
		// The shell itself, as in export -p, writes what only commands may see.
		s.j.granted.share(nil)
	}
	if s.mayWrite(in, target, rule) {
		return
	}
	s.redirected("writes "+showWritten(target), r, target, Writes, rule)
}

// redirected decides on a redirection that the path rules do not cover.
func (s *script) redirected(what string, r *syntax.Redirect, target word, use string, rule *ruleMatch) {
	p := s.j.policy
	if rule != nil && slices.Contains(rule.Allow, use) {
		return
	}
	if !target.static {
		s.j.unknown = append(s.j.unknown, Unknown{What: "which file a redirection writes or reads", Span: s.spanOf(r)})
	}
	c := CommandVerdict{Reason: "a redirection " + what + ", which no path rule allows", Span: s.spanOf(r)}
	if use == Runs {
		c.Reason = "a redirection " + what
	}
	if use == Runs || len(p.rules.Writes) == 0 {
		c.Decision = p.rules.Default
		s.j.ruled = true
	}
	if rule != nil {
		c.Rule = rule.Name
	}
	s.j.add(c)
}

// hereDoc judges the expansions in it. Shells join lines before they look
// for the end, which the parser does not.
func (s *script) hereDoc(r *syntax.Redirect) {
	if r.Hdoc == nil {
		return
	}
	s.j.hereDocs = append(s.j.hereDocs, s.spanOf(r.Hdoc))
	quoted := false
	for _, part := range r.Word.Parts {
		lit, isLit := part.(*syntax.Lit)
		quoted = quoted || !isLit || strings.Contains(lit.Value, "\\")
	}
	if body := r.Hdoc; !quoted {
		if start, end := int(body.Pos().Offset()), int(body.End().Offset()); end <= len(s.text) && start <= end && strings.Contains(s.text[start:end], "\\\n") {
			s.deny("a here-document joins lines with a backslash, which shells read differently", s.spanOf(r))
		}
		s.parts(body.Parts, true)
	}
}

func isDigits(text string) bool {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return text != ""
}
