package policy

import (
	"fmt"

	"mvdan.cc/sh/v3/syntax"
)

// stmts judges a list. Functions declared at the top level are known from there on.
func (s *script) stmts(list []*syntax.Stmt, in dirSet, top bool) dirSet {
	for _, stmt := range list {
		if f, ok := stmt.Cmd.(*syntax.FuncDecl); ok && top && !stmt.Background && !stmt.Negated && f.Name != nil && hasOwnBody(f) {
			s.functions[f.Name.Value] = true
		}
		ok, fail := s.stmt(stmt, in)
		in = ok.or(fail)
	}
	return in
}

// hasOwnBody reports whether the function is declared in this shell. For
// `f() { ls; } | cat` the parser returns a body with a pipe, but shells run a
// pipe with a declaration, which is lost when the pipe ends.
func hasOwnBody(f *syntax.FuncDecl) bool {
	_, block := f.Body.Cmd.(*syntax.Block)
	_, subshell := f.Body.Cmd.(*syntax.Subshell)
	return (block || subshell) && !f.Body.Background && !f.Body.Negated
}

// stmt judges a statement that starts in one of the directories, and returns
// the shell's directories afterwards if it succeeded and if it failed.
func (s *script) stmt(stmt *syntax.Stmt, in dirSet) (ok, fail dirSet) {
	if !s.enter(stmt) {
		return unknownDirs, unknownDirs
	}
	defer s.leave()
	if s.lost {
		in = unknownDirs
	}
	if stmt.Coprocess || stmt.Disown {
		s.deny("an operator that POSIX sh does not have", s.spanOf(stmt))
	}
	call, isCall := stmt.Cmd.(*syntax.CallExpr)
	pipe, isPipe := stmt.Cmd.(*syntax.BinaryCmd)
	judge := func() {
		if isCall {
			ok, fail = s.simple(call, stmt.Redirs, in)
		} else {
			s.redirects(stmt.Redirs, in, nil)
			ok, fail = s.compound(stmt.Cmd, in)
		}
	}
	if len(stmt.Redirs) > 0 || isPipe && (pipe.Op == syntax.Pipe || pipe.Op == syntax.PipeAll) {
		s.showInput(judge)
	} else {
		judge()
	}
	switch {
	case stmt.Background:
		return in, in
	case stmt.Negated:
		return fail, ok
	}
	return ok, fail
}

// compound judges everything but simple commands. An unknown kind of node is
// denied, since a later version of the parser may add some.
func (s *script) compound(cmd syntax.Command, in dirSet) (ok, fail dirSet) {
	switch cmd := cmd.(type) {
	case nil:
	case *syntax.Subshell:
		s.stmts(cmd.Stmts, in, false)
	case *syntax.Block:
		in = s.stmts(cmd.Stmts, in, false)
	case *syntax.BinaryCmd:
		return s.binary(cmd, in)
	case *syntax.IfClause:
		in = s.ifClause(cmd, in)
	case *syntax.WhileClause:
		in = s.loopIn(in, cmd.Cond, cmd.Do)
		s.stmts(cmd.Cond, in, false)
		s.stmts(cmd.Do, in, false)
	case *syntax.ForClause:
		in = s.forClause(cmd, in)
	case *syntax.CaseClause:
		in = s.caseClause(cmd, in)
	case *syntax.FuncDecl:
		s.lost = true // it may contain a cd, and be called from anywhere
		s.function(cmd)
		return unknownDirs, unknownDirs
	default:
		return s.bashOnly(cmd, in)
	}
	return in, in
}

// bashOnly judges the commands that only bash has.
func (s *script) bashOnly(cmd syntax.Command, in dirSet) (ok, fail dirSet) {
	if decl, isDecl := cmd.(*syntax.DeclClause); isDecl { // export, as bash parses it
		s.declare(decl)
		return in, in
	}
	if clause, isTime := cmd.(*syntax.TimeClause); isTime {
		if clause.Stmt == nil {
			return in, in
		}
		return s.stmt(clause.Stmt, in)
	}
	if test, isTest := cmd.(*syntax.TestClause); isTest {
		s.testExpr(test.X)
		c := &call{s: s, words: []word{{text: "[[", static: true, inner: -1, start: int(test.Left.Offset()), end: int(test.End().Offset())}}, in: in, wrapper: true}
		c.subject = c.words
		c.decide()
		return in, in
	}
	s.needBash(cmd)
	switch cmd := cmd.(type) {
	case *syntax.ArithmCmd:
		s.arithm(cmd.X)
	case *syntax.LetClause:
		for _, x := range cmd.Exprs {
			s.arithm(x)
		}
	case *syntax.CoprocClause:
		if cmd.Name != nil {
			s.word(cmd.Name)
			s.assigned(cmd.Name.Lit(), s.spanOf(cmd.Name))
		}
		s.stmt(cmd.Stmt, in)
	default:
		s.deny(fmt.Sprintf("an unsupported kind of command (%T)", cmd), s.spanOf(cmd))
	}
	return in, in
}

// needBash denies what other shells read differently. Otherwise a shell with
// part of bash's syntax, such as busybox, could see commands that neither the POSIX
// nor the bash reading has: `[[ a && id ]]` behind a $'\”.
func (s *script) needBash(n syntax.Node) {
	if !s.onlyBash {
		s.unsure("only bash reads this in this way, and sh may be another shell", s.spanOf(n))
	}
}

func (s *script) binary(cmd *syntax.BinaryCmd, in dirSet) (ok, fail dirSet) {
	switch cmd.Op {
	case syntax.AndStmt:
		ok, fail = s.stmt(cmd.X, in)
		ok2, fail2 := s.stmt(cmd.Y, ok)
		return ok2, fail.or(fail2)
	case syntax.OrStmt:
		ok, fail = s.stmt(cmd.X, in)
		ok2, fail2 := s.stmt(cmd.Y, fail)
		return ok.or(ok2), fail2
	case syntax.Pipe, syntax.PipeAll:
		s.toPipe(cmd.X, in)
		s.stmt(cmd.Y, in)
		return in, in
	}
	s.deny("an unsupported operator", s.spanOf(cmd))
	return in, in
}

// toPipe judges the left side of a pipe, which may be a pipe itself. The commands of
// other compounds may have their output elsewhere.
func (s *script) toPipe(stmt *syntax.Stmt, in dirSet) {
	left, isBinary := stmt.Cmd.(*syntax.BinaryCmd)
	switch _, isCall := stmt.Cmd.(*syntax.CallExpr); {
	case isCall:
		s.piped = true
	case isBinary && left.Op == syntax.Pipe && len(stmt.Redirs) == 0 && s.enter(stmt):
		s.toPipe(left.X, in)
		s.toPipe(left.Y, in)
		s.leave()
		return
	}
	s.stmt(stmt, in)
	s.piped = false
}

func (s *script) ifClause(cmd *syntax.IfClause, in dirSet) dirSet {
	end := dirSet{}
	for ; cmd != nil; cmd = cmd.Else {
		after := s.stmts(cmd.Cond, in, false)
		end = end.or(s.stmts(cmd.Then, after, false))
		in = after
	}
	return end.or(in)
}

func (s *script) forClause(cmd *syntax.ForClause, in dirSet) dirSet {
	if cmd.Select || cmd.Braces {
		s.needBash(cmd)
	}
	switch loop := cmd.Loop.(type) {
	case *syntax.WordIter:
		s.assigned(loop.Name.Value, s.spanOf(loop.Name))
		for _, item := range loop.Items {
			s.word(item)
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{loop.Init, loop.Cond, loop.Post} {
			s.arithm(x)
		}
	default:
		s.deny("an unsupported kind of loop", s.spanOf(cmd))
	}
	in = s.loopIn(in, cmd.Do)
	s.stmts(cmd.Do, in, false)
	return in
}

func (s *script) caseClause(cmd *syntax.CaseClause, in dirSet) dirSet {
	s.word(cmd.Word)
	end := in
	for _, item := range cmd.Items {
		for _, pattern := range item.Patterns {
			s.word(pattern)
		}
		if item.Op != syntax.Break {
			s.needBash(item) // falls through to the next
			end = unknownDirs
		}
		end = end.or(s.stmts(item.Stmts, end, false))
	}
	return end
}

// function judges a body at its declaration. Calls need no rule of their own
// if the declaration has certainly run, since it is in the script's own list.
func (s *script) function(f *syntax.FuncDecl) {
	if f.RsrvWord {
		s.needBash(f)
	}
	if f.Name == nil || len(f.Names) > 0 {
		s.deny("a function that does not have one name", s.spanOf(f))
		return
	}
	name := f.Name.Value
	if s.j.policy.named[name] || builtins[name] != nil || programs[name] != nil || !isName(name) {
		s.hidden(fmt.Sprintf("the function %s replaces the program of that name", name), s.spanOf(f))
	}
	s.stmt(f.Body, unknownDirs)
}
