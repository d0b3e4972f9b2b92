package suite

import (
	"crypto/rand"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"

	"belljar/internal/lazyregexp"
	"belljar/sandbox"

	"mvdan.cc/sh/v3/syntax"
)

// language says how tests in it are made to fail, and to print one line more, although what they test is right. The tests run
// before what is added: a solution that ends them early, as a success, is found out by that.
type language struct {
	extensions []string
	needs      *lazyregexp.Regexp // what a file must have, or nil
	replace    *lazyregexp.Regexp // with by
	by         string
	end        string // that is added; NAME is a new one each time
	before     *lazyregexp.Regexp
}

// jsEnd fails unless assertions do nothing any more.
const jsEnd = `
;(() => {
  const p = globalThis.process;
  console.log("NAME");
  const look = a => {
    for (const f of [() => a(0), () => a.ok(0), () => a.equal(1, 2), () => a.strictEqual(1, 2), () => a.deepEqual([1], [2]), () => a.deepStrictEqual([1], [2])])
      try { f(); globalThis.NAME = 1; } catch {}
  };
  const looked = typeof require === "function" ? look(require("assert")) : import("assert").then(m => look(m.default), () => 0);
  if (p && p.once) p.once("beforeExit", async () => { await looked; if (!globalThis.NAME) p.exit(97); });
  const add = typeof test === "function" ? test : typeof it === "function" ? it : 0;
  if (add) add("NAME", async () => { await looked; if (!globalThis.NAME) throw new Error("NAME"); });
})();
`

// rubyEnd fails with each of the libraries that a file may be for, or as a program.
const rubyEnd = `
puts "NAME"
if defined?(Minitest::Test)
  class TNAME < Minitest::Test
    def test_NAME; assert_equal 1, 2; end
  end
elsif defined?(Test::Unit::TestCase)
  class TNAME < Test::Unit::TestCase
    def test_NAME; assert_equal 1, 2; end
  end
elsif defined?(RSpec)
  RSpec.describe("NAME") { it("NAME") { raise "NAME" } }
elsif __FILE__ == $0
  raise "NAME"
end
`

var languages = []language{
	{
		extensions: []string{".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".jsx", ".tsx"},
		replace:    lazyregexp.New(`\bprocess\.exit\(`), by: "process.exit(globalThis.NAME ? 0 : 97,", end: jsEnd,
	},
	{
		extensions: []string{".c", ".cc", ".cpp", ".cxx"},
		needs:      lazyregexp.New(`\bint\s+main\s*\(`), replace: lazyregexp.New(`\bint\s+main\s*\(`), by: "int NAME(",
		end: "\n#ifdef __cplusplus\nextern \"C\"\n#endif\nint puts(const char *);\nint main(int c, char **v) { ((int (*)(int, char **))NAME)(c, v); puts(\"NAME\"); return 97; }\n",
	},
	{extensions: []string{"_test.go"}, needs: lazyregexp.New(`"testing"`), end: "\nfunc Test_NAME(t *testing.T) { t.Fatal(\"NAME\") }\n"},
	{extensions: []string{".rs"}, needs: lazyregexp.New(`#\[test\]`), end: "\n#[test]\nfn NAME() { panic!(\"NAME\"); }\n"},
	{
		extensions: []string{".rb"},
		end:        rubyEnd,
		before:     lazyregexp.New(`(?m)^__END__$`),
	},
	{extensions: []string{".pl", ".t"}, end: "\n;unless (caller) { print \"NAME\\n\"; die \"NAME\" }\n", before: lazyregexp.New(`(?m)^__(END|DATA)__$`)},
}

// FailingTests are the tests in languages other than Python that can be made to fail, by language.
func FailingTests(g Grader) (all [][]sandbox.File) {
	for _, l := range languages {
		var list []sandbox.File
		for _, f := range g.Tests {
			if slices.ContainsFunc(l.extensions, func(e string) bool { return strings.HasSuffix(f.Path, e) }) && (l.needs == nil || l.needs.Get().Match(f.Content)) {
				f.Content = []byte(l.failing(asWritten(f.Path, string(f.Content))))
				list = append(list, f)
			}
		}
		if len(list) > 0 {
			all = append(all, list)
		}
	}
	return all
}

// typeScript are files whose types may be checked, which what is added does not have. It may be checked where first is.
var (
	typeScript = []string{".ts", ".cts", ".mts", ".tsx"}
	first      = lazyregexp.New(`^(#!.*\n)?(\s*/\*[\s\S]*?\*/)?`)
)

// asWritten is the file, and how what is added to it is to be written to compile there.
func asWritten(file, text string) (string, func(string) string) {
	same := func(added string) string { return added }
	if slices.Contains(typeScript, path.Ext(file)) {
		head := first.Get().FindString(text)
		return head + "\n// @ts-nocheck\n" + text[len(head):], same
	}
	if !strings.HasSuffix(file, "_test.go") {
		return text, same
	}
	f, _ := parser.ParseFile(token.NewFileSet(), "", text, parser.ImportsOnly)
	if f == nil {
		return text, same
	}
	for _, i := range f.Imports {
		if i.Path.Value == `"testing"` && i.Name != nil {
			return text, func(added string) string {
				if i.Name.Name == "_" { // it has no tests
					return ""
				}
				return strings.ReplaceAll(added, "*testing.", "*"+strings.TrimPrefix(i.Name.Name+".", ".."))
			}
		}
	}
	return text, same
}

func (l language) failing(text string, as func(string) string) string {
	name := "t" + strings.ToLower(rand.Text()[:9])
	named := func(s string) string { return as(strings.ReplaceAll(s, "NAME", name)) }
	if l.replace != nil {
		text = l.replace.Get().ReplaceAllLiteralString(text, named(l.by))
	}
	if l.before != nil {
		if at := l.before.Get().FindStringIndex(text); at != nil {
			return text[:at[0]] + named(l.end) + text[at[0]:]
		}
	}
	return text + named(l.end)
}

// inline are programs that take code as an argument, after which option, and what makes it print something and fail at its
// end. That has no quotes, since the code is in some.
var inline = []struct {
	program string
	options []string
	end     string
}{
	{"python", []string{"-c"}, "\nprint(97)\nraise SystemExit(97)\n"},
	{"node", []string{"-e", "--eval"}, "\n;process.once(Object.keys({beforeExit:0})[0],()=>{console.log(97);process.exit(97)})\n"},
	{"perl", []string{"-e", "-E"}, "\n;print 97;die 97\n"},
	{"ruby", []string{"-e"}, "\nputs 97\nraise RuntimeError\n"},
	{"php", []string{"-r"}, "\n;echo 97;exit(97);\n"},
}

// FailingScript is the grader with code that the script itself has, after an option such as -c or as
// a program's input, made to fail at its end.
func FailingScript(g Grader) (Variant, bool) {
	text := g.script()
	f := parse(text)
	if f == nil {
		return Variant{}, false
	}
	var changes []change
	syntax.Walk(f, func(n syntax.Node) bool {
		s, ok := n.(*syntax.Stmt)
		if !ok {
			return true
		}
		call, ok := s.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		for _, p := range inline {
			if strings.HasPrefix(path.Base(call.Args[0].Lit()), p.program) {
				for _, at := range codeEnds(text, s, call, p.options) {
					end := p.end
					if text[at-1] == '\n' {
						end = end[1:]
					}
					changes = append(changes, change{at, at, end})
				}
			}
		}
		return true
	})
	if len(changes) == 0 {
		return Variant{}, false
	}
	return g.variant(changed(text, changes)), true
}

// codeEnds are where code ends that a command has as an argument or as its input.
func codeEnds(text string, s *syntax.Stmt, call *syntax.CallExpr, options []string) (ends []uint) {
	for i, word := range call.Args[:len(call.Args)-1] {
		if slices.Contains(options, word.Lit()) && len(call.Args[i+1].Parts) == 1 {
			switch q := call.Args[i+1].Parts[0].(type) {
			case *syntax.SglQuoted:
				if !q.Dollar {
					ends = append(ends, q.Right.Offset())
				}
			case *syntax.DblQuoted:
				ends = append(ends, q.End().Offset()-1)
			}
		}
	}
	fromInput := func(w *syntax.Word) bool { return w.Lit() == "-" }
	isProgram := func(w *syntax.Word) bool {
		return !strings.HasPrefix(w.Lit(), "-") || slices.Contains(options, w.Lit())
	}
	if words := call.Args[1:]; !slices.ContainsFunc(words, fromInput) && slices.ContainsFunc(words, isProgram) {
		return ends // its input is data
	}
	for _, r := range s.Redirs {
		if r.Hdoc == nil || len(r.Hdoc.Parts) != 1 {
			continue
		}
		if lit, ok := r.Hdoc.Parts[0].(*syntax.Lit); ok && strings.HasPrefix(text[lit.Pos().Offset():], lit.Value) {
			ends = append(ends, lit.Pos().Offset()+uint(len(lit.Value)))
		}
	}
	return ends
}

// exits end a program before what is added to it.
var exits = lazyregexp.New(`\b(exit|_exit|_Exit|Exit|quit)\b`)

// IsUnsure reports whether tests that are made to fail need not change the grade: the script uses what a program prints, or
// cannot be read, or tests end before their end.
func IsUnsure(g Grader) bool {
	text := g.script()
	f := parse(text)
	if f == nil || usesOutput(f, strings.Contains(text, "pipefail")) {
		return true
	}
	if _, ok := FailingScript(g); ok && exits.Get().MatchString(text) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(FailingTests(g)...), func(f sandbox.File) bool {
		return !slices.Contains(languages[0].extensions, path.Ext(f.Path)) && exits.Get().Match(f.Content)
	})
}

// filters are programs that only pass text on, or look for some.
var filters = []string{"grep", "diff", "cmp", "wc", "head", "tail", "sort", "uniq", "sed", "awk", "tr", "cut", "ls", "find", "date", "basename", "dirname", "mktemp", "pwd"}

func usesOutput(f *syntax.File, pipefail bool) (uses bool) {
	tests := func(n syntax.Node) (has bool) {
		syntax.Walk(n, func(n syntax.Node) bool {
			call, ok := n.(*syntax.CallExpr)
			if ok && len(call.Args) > 0 {
				name := path.Base(call.Args[0].Lit())
				has = has || !slices.Contains(noTests, name) && !slices.Contains(filters, name)
			}
			return !has
		})
		return has
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			uses = uses || tests(n)
		case *syntax.BinaryCmd:
			uses = uses || (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && !pipefail && tests(n.X)
		case *syntax.Stmt:
			for _, r := range n.Redirs {
				out := r.Op == syntax.RdrOut || r.Op == syntax.AppOut || r.Op == syntax.RdrClob || r.Op == syntax.RdrAll || r.Op == syntax.AppAll
				uses = uses || out && r.Word.Lit() != "/dev/null" && n.Cmd != nil && tests(n.Cmd)
			}
		}
		return !uses
	})
	return uses
}
