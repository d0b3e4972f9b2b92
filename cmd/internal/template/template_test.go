package template

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"belljar/internal/shelltest"
	"belljar/sandbox"

	"pgregory.net/rapid"
)

// scripts are those of all spans, with these arguments.
func scripts(t *testing.T, text, args string) []string {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return nil
	}
	commands, err := p.Commands(args)
	if err != nil {
		t.Errorf("%s: %v", text, err)
	}
	var list []string
	for _, c := range commands {
		list = append(list, c.Script)
	}
	return list
}

func TestSpans(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                  nil,
		"no command { } }":                  nil,
		"a !{ls} b":                         {"ls"},
		"!{ls}!{pwd}":                       {"ls", "pwd"},
		"!{echo ${x}} }":                    {"echo ${x}"},
		"!{echo ${x:-${y}}} }":              {"echo ${x:-${y}}"},
		"!{echo ${x:-{a}}} }":               {"echo ${x:-{a}}"},
		"!{awk '{print $1}' f} }":           {"awk '{print $1}' f"},
		"!{echo {a,b}} }":                   {"echo {a,b}"},
		"!{echo {a,{b,c}}} }":               {"echo {a,{b,c}}"},
		"!{f() { a; }; f} }":                {"f() { a; }; f"},
		"!{{ a; }} }":                       {"{ a; }"},
		"!{echo \"}\"} }":                   {"echo \"}\""},
		"!{echo '}'} }":                     {"echo '}'"},
		"!{echo \"{\"} }":                   {"echo \"{\""},
		`!{echo \}} }`:                      {`echo \}`},
		`!{echo \{} }`:                      {`echo \{`},
		`!{echo \\} }`:                      {`echo \\`},
		"!{find . -exec ls {} \\;} }":       {"find . -exec ls {} \\;"},
		"!{echo \"$(echo '}')\"} }":         {"echo \"$(echo '}')\""},
		"!{cat <<E\n}\nE\n} }":              {"cat <<E\n}\nE\n"},
		"!{cat <<E\n{\nE\n} }":              {"cat <<E\n{\nE\n"},
		"!{\n# a comment\nls\n} }":          {"\n# a comment\nls\n"},
		"!{case x in a) b;; esac} }":        {"case x in a) b;; esac"},
		"!{while a; do\n b; done | c} }":    {"while a; do\n b; done | c"},
		"!{git show HEAD@{1}} }":            {"git show HEAD@{1}"},
		`\!{ls} and !{pwd}`:                 {"pwd"},
		`\\!{ls}`:                           nil, // a backslash, and text
		"日本 !{echo 日本}":                     {"echo 日本"},
		"!{echo 'it''s'; echo \"$x{y}\"} }": {"echo 'it''s'; echo \"$x{y}\""},
	} {
		if got := scripts(t, text, ""); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestHoles(t *testing.T) {
	const args = "it's $(x) !{y} {{args}}"
	const word = `'it'\''s $(x) !{y} {{args}}'`
	for text, want := range map[string]string{
		"!{grep {{args}} f}":                  "grep " + word + " f",
		"!{grep -e {{args}} -e{{args}}}":      "grep -e " + word + " -e" + word,
		"!{grep --regexp={{args}} f}":         "grep --regexp=" + word + " f",
		"!{a | b {{args}} && c {{args}}}":     "a | b " + word + " && c " + word,
		"!{echo \"$(grep {{args}} f)\"}":      "echo \"$(grep " + word + " f)\"",
		"!{echo $(grep {{args}} f)}":          "echo $(grep " + word + " f)",
		"!{X=1 grep {{args}}}":                "X=1 grep " + word,
		"!{f() { ls {{args}}; }; f}":          "f() { ls " + word + "; }; f",
		"!{ls a\"b\"{{args}}'c'}":             "ls a\"b\"" + word + "'c'",
		`!{ls \\{{args}}}`:                    `ls \\` + word,
		`!{ls \${{args}}}`:                    `ls \$` + word,
		"!{[ -f {{args}} ]}":                  "[ -f " + word + " ]",
		"!{! test ! x{{args}} != \"$x\"}":     "! test ! x" + word + " != \"$x\"",
		"!{printf %s\\\\n {{args}}}":          "printf %s\\\\n " + word,
		"!{./a-b.sh {{args}}; :}":             "./a-b.sh " + word + "; :",
		"!{ls {{args}}{{args}}}":              "ls " + word + word,
		"!{ls {{args}} <<E\nx\nE\n}":          "ls " + word + " <<E\nx\nE\n",
		"!{if a; then ls {{args}}; fi >f}":    "if a; then ls " + word + "; fi >f",
		"!{# c\nls {{args}}\n}":               "# c\nls " + word + "\n",
		"!{ls \\\n {{args}}}":                 "ls \\\n " + word,
		"!{for x in a; do ls {{args}}; done}": "for x in a; do ls " + word + "; done",
	} {
		if got := scripts(t, text, args); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestBadTemplates(t *testing.T) {
	const notWord = "{{args}} is not a word of a command here: write {{args}} outside quotes, as an argument after the program's name"
	for text, want := range map[string]string{
		"a\n !{ls":                                   "2:2: it does not end: no } ",
		"!{ls 'x}":                                   "1:1: it does not end",
		"!{echo {}":                                  "1:1: it does not end",
		"!{echo $(echo })} }":                        "1:1: it does not end",
		"!{if x} !{ls}":                              "1:1: it does not end",
		"!{}":                                        "1:1: it is empty",
		"x!{ \n }":                                   "1:2: it is empty",
		"!{ls # all}":                                "1:11: a comment contains a }",
		"!{ls # a } b\n}":                            "1:10: a comment contains a }",
		"!{ls # {{args}}}":                           "1:8: " + notWord,
		"!{# {{args}}\nls}":                          "1:5: " + notWord,
		"!{" + strings.Repeat("(", 101):              "1:1: its parentheses or braces are nested",
		"a\x00b":                                     "1:2: this is not UTF-8",
		"日\xff":                                      "1:4: this is not UTF-8",
		"日\n !{ls '{{args}}'}":                       "2:8: " + notWord,
		"!{ls \"{{args}}\"}":                         "1:7: " + notWord,
		"!{ls \"$({{args}})\"}":                      "1:9: " + notWord,
		"!{{{args}}}":                                "1:3: " + notWord,
		"!{{{args}} x}":                              "1:3: " + notWord,
		"!{a; {{args}} x}":                           "1:6: " + notWord,
		"!{a | {{args}}}":                            "1:7: " + notWord,
		"!{x{{args}} y}":                             "1:4: " + notWord,
		"!{X=1 {{args}}}":                            "1:7: " + notWord,
		"!{X={{args}} ls}":                           "1:5: " + notWord,
		"!{X={{args}}}":                              "1:5: " + notWord,
		"!{ls >{{args}}}":                            "1:7: " + notWord,
		"!{cat <<E\n{{args}}\nE\n}":                  "2:1: " + notWord,
		"!{cat <<E\n$(ls {{args}})\nE\n}":            "2:6: " + notWord,
		"!{cat <<{{args}}\n\n{{args}}\n}":            "1:9: " + notWord,
		"!{ls ${x:-{{args}}}}":                       "1:11: " + notWord,
		"!{ls ${x:-$(ls {{args}})}}":                 "1:16: " + notWord,
		"!{ls `ls {{args}}`}":                        "1:10: " + notWord,
		"!{ls $((1+$(ls {{args}})))}":                "1:16: " + notWord,
		`!{ls \{{args}}}`:                            "1:7: " + notWord,
		`!{ls \\\{{args}}}`:                          "1:9: " + notWord,
		"!{for x in {{args}}; do :; done}":           "1:12: " + notWord,
		"!{case {{args}} in a) b;; esac}":            "1:8: " + notWord,
		"!{eval {{args}}}":                           "1:8: sh may evaluate the arguments of eval: pass them to a program",
		"!{exec {{args}}}":                           "1:8: sh may evaluate the arguments of exec: pass them to a program",
		"!{. {{args}}}":                              "1:5: sh may evaluate the arguments of .: pass them to a program",
		"!{export X={{args}}}":                       "1:12: sh may evaluate the arguments of export",
		"!{[[ {{args}} ]]}":                          "1:6: the program's name here is not plain",
		"!{\\eval {{args}}}":                         "1:9: the program's name here is not plain",
		"!{\"eval\" {{args}}}":                       "1:10: the program's name here is not plain",
		"!{x=eval; $x {{args}}}":                     "1:14: the program's name here is not plain",
		"!{e\\\nval {{args}}}":                       "2:5: the program's name here is not plain",
		"!{{eval,x} {{args}}}":                       "1:12: the program's name here is not plain",
		"!{$(echo eval) {{args}}}":                   "1:16: the program's name here is not plain",
		"!{ls {a[{{args}}]}>f}":                      "1:9: " + notWord, // bash evaluates it
		"!{read {{args}}}":                           "1:8: sh may evaluate the arguments of read",
		"!{[ -v {{args}} ]}":                         "1:8: sh may evaluate the arguments of [: write [ -f {{args}} ]",
		"!{test -v {{args}}}":                        "1:11: sh may evaluate the arguments of test: write test -f {{args}}",
		"!{[ 1 -eq {{args}} ]}":                      "1:11: sh may evaluate the arguments of [",
		"!{[ {{args}} x ]}":                          "1:5: sh may evaluate the arguments of [",
		"!{[ {-v,{{args}}} = x ]}":                   "1:9: sh may evaluate the arguments of [",
		"!{[ a = {{args}} -a b ]}":                   "1:9: sh may evaluate the arguments of [",
		"!{printf -v {{args}} x}":                    "1:13: sh may evaluate the arguments of printf: write printf '%s\\n' {{args}}",
		"!{printf {{args}} x}":                       "1:10: sh may evaluate the arguments of printf",
		"!{printf '-'v {{args}} x}":                  "1:15: sh may evaluate the arguments of printf",
		"!{printf \"\\\n-v\" {{args}} x}":            "2:5: sh may evaluate the arguments of printf",
		"!{printf {-v,{{args}}} x}":                  "1:14: sh may evaluate the arguments of printf",
		"!{printf \"$x\" {{args}}}":                  "1:15: sh may evaluate the arguments of printf",
		"!{alias {{args}}}":                          "1:9: sh may evaluate the arguments of alias",
		"!{time sh {{args}}}":                        "1:11: sh may evaluate the arguments of time",
		"!{coproc {{args}}}":                         "1:10: sh may evaluate the arguments of coproc",
		"!{set {{args}}}":                            "1:7: sh may evaluate the arguments of set: write set -- {{args}}",
		"!{grep {{ args }} f}":                       "1:8: {{ args }} contains blanks: write {{args}}",
		"x\n {{\targs}} !{ls}":                       "2:2: {{\targs}} contains blanks: write {{args}}",
		"!{ls '{{args }}'}":                          "1:7: {{args }} contains blanks: write {{args}}",
		"!{echo $'\\' {{args}} ''}":                  "1:1: shells read it in different ways",
		"!{ls # c\\\n{{args}}\n}":                    "1:1: it joins lines with a backslash",
		"!{cat <<E\nx\\\nE\nls {{args}}\nE\n}":       "1:1: it joins lines with a backslash",
		strings.Repeat("!{ls}", 101):                 "1:501: more than 100 commands",
		"!{ls " + strings.Repeat("x", maxSpan) + "}": "1:1: it does not end",
		strings.Repeat("x", MaxBytes+1):              "1:1: the template is longer than 1048576 bytes",
		"!{ls " + strings.Repeat("{}", 60000) + "{}": "1:1: it takes too long",
	} {
		if _, err := Parse(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

func TestBadArguments(t *testing.T) {
	for _, test := range []struct{ text, args, want string }{
		{"x\n!{ls {{args}}}", "a\x00", "2:1: the arguments contain the control character U+0000 at byte 1"},
		{"!{ls {{args}}}", "a\x1b[2J", "1:1: the arguments contain the control character U+001B"},
		{"!{ls {{args}}}", "\u0085", "1:1: the arguments contain the control character U+0085"},
		{"!{ls {{args}}}", "\xff", "1:1: the arguments are not UTF-8 at byte 0"},
		{"!{ls {{args}}}", strings.Repeat("x", sandbox.MaxArgument), "1:1: with the arguments the command has"},
		{"!{ls {{args}}}", strings.Repeat("'", sandbox.MaxArgument/3), "1:1: with the arguments the command has"},
		{strings.Repeat("{{args}}", 1000), strings.Repeat("x", 17000), "1:1: with the arguments the template has 17000000 bytes of text"},
	} {
		p, err := Parse(test.text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Commands(test.args); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%.40s: %v, want %s", test.text, err, test.want)
		}
	}
	p, _ := Parse("!{ls} {{args}}")
	if _, err := p.Commands("\x1b\x00\xff"); err != nil {
		t.Errorf("as text: %v", err)
	}
}

func TestFill(t *testing.T) {
	const args = "!{evil} {{args}} \\ \x1b"
	p, err := Parse("a {{args}}!{b {{args}}}c\\!{d} \\{{args}} !{e}\n")
	if err == nil {
		_, err = p.Commands("x")
	}
	if err != nil {
		t.Fatal(err)
	}
	if !p.HasArgs() {
		t.Error("it has arguments")
	}
	want := "a " + args + "{{args}} !{f}c!{d} {{args}} out\n"
	if got := p.Fill(args, []string{"{{args}} !{f}", "out"}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for text, want := range map[string]string{`\{{ args }} {{ argsx }} {{args.x}}`: "{{ args }} {{ argsx }} {{args.x}}", `\\{{args }}`: `\{{args }}`, "{{\n args}}": "{{\n args}}"} {
		if p, err := Parse(text); err != nil || p.Fill("x", nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]bool{"a": false, "\\{{args}}": false, "!{ls}": false, "{{args}}": true, "!{ls {{args}}}": true} {
		if p, err := Parse(text); err != nil || p.HasArgs() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// pieces are what hostile templates and arguments are made of.
var pieces = rapid.SampledFrom([]string{"!{", "}", "{", "{{args}}", "ls", " ", "\n", "'", "\"", "\\", "$", "$(", "(", ")", "`", "#", ";", "|", "&", "<<E\n", "E\n", "${x:-", "<", ">", "x", "=", "~", "*", "[", "]", "!",
	"eval ", "X=", "日本", "\u00a0", "\u200d", "\t", "case x in a)", ";; esac", "$((", "))", "-", "f() ", "\\\n"})

var nasty = rapid.Map(rapid.SliceOfN(pieces, 0, 20), func(list []string) string { return strings.Join(list, "") })

func TestPartsAreTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { partsAreTheWhole(t, nasty.Draw(t, "text")) })
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a !{ls {{args}}} \\!{", "!{cat <<E\n}\nE\n}", "!{echo ${x:-{a}}}", "!{`a`}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { partsAreTheWhole(t, text) })
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func partsAreTheWhole(t fataler, text string) {
	p, err := Parse(text)
	if err != nil {
		return
	}
	var all, plain strings.Builder
	outputs := []string{}
	for _, part := range p.parts {
		all.WriteString(part.raw)
		if part.span != nil {
			outputs = append(outputs, "")
		} else if !part.hole {
			plain.WriteString(part.text)
		}
	}
	if all.String() != text {
		t.Fatalf("%q became %q", text, all.String())
	}
	if got := p.Fill("", outputs); got != plain.String() {
		t.Fatalf("%q, want %q", got, plain.String())
	}
	if strings.Contains(text, "\x00") || !utf8.ValidString(text) {
		t.Fatalf("%q is taken for text", text)
	}
}

// In every place where a hole may be, every shell sees one word: the arguments.
func TestShellsSeeOneWord(t *testing.T) {
	places := []string{
		"!{printf '%s\\n' {{args}}}",
		"!{x=$(printf '%s.' {{args}}); printf '%s\\n' \"${x%.}\"}",
		"!{printf '%s\\n' \"$(printf '%s' {{args}})\"}",
		"!{f() { printf '%s\\n' \"$@\"; }; f {{args}}}",
		"!{if :; then printf '%s\\n' {{args}} <<E\nbody $(echo x)\nE\nfi}",
		"!{: <<E && printf '%s\\n' {{args}}\nbody\nE\n}",
		"!{set -- {{args}}; printf '%s\\n' \"$#:$1\" | sed '1s/^1://'}",
		"!{case a in a) printf '%s\\n' {{args}};; esac}",
		"!{printf '%s\\n' \\\n {{args}}}",
	}
	var templates []*Template
	for _, text := range places {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, p)
	}
	all := shelltest.Commands(t)
	check := func(t *rapid.T, args string) {
		i := rapid.IntRange(0, len(places)-1).Draw(t, "place")
		commands, err := templates[i].Commands(args)
		if err != nil {
			t.Fatal(err)
		}
		for _, shell := range all {
			out, err := exec.Command(shell[0], append(shell[1:], "-c", commands[0].Script)...).CombinedOutput()
			want := args + "\n"
			if i == 2 { // a shell takes line ends off what is substituted
				want = strings.TrimRight(args, "\n") + "\n"
			}
			if err != nil || string(out) != want {
				t.Fatalf("%v: %q became %q: %q, %v", shell, args, commands[0].Script, out, err)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, nasty.Draw(t, "args")) })
}

// What stands right beside a hole does not make more of it, or less.
func TestHolesNextToText(t *testing.T) {
	for text, want := range map[string]string{
		"!{printf '%s\\n' ~{{args}}}":         "~root",
		"!{printf '%s\\n' X={{args}}}":        "X=root",
		"!{printf '%s\\n' a\"b\"{{args}}'c'}": "abrootc",
		`!{printf '%s\n' \\{{args}}}`:         `\root`,
		`!{printf '%s\n' \${{args}}}`:         `$root`,
		"!{printf '%s\\n' {{{args}}}}":        "{root}",
		"!{printf '%s\\n' {{args}}#x}":        "root#x",
	} {
		for _, shell := range shelltest.Commands(t) {
			script := scripts(t, text, "root")
			out, err := exec.Command(shell[0], append(shell[1:], "-c", script[0])...).CombinedOutput()
			if err != nil || string(out) != want+"\n" {
				t.Errorf("%v: %q: %q, %v", shell, script, out, err)
			}
		}
	}
}
