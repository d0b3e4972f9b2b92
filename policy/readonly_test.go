package policy

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// maxDenied is the share of the uses that may be denied, in percent.
const maxDenied = 5

const readonlyTable = "testdata/readonly.txt"

// readonlyRow is a line of the table.
type readonlyRow struct {
	kind    string
	decided map[string]string // by shell
	script  string
	why     string
}

func readReadonly(t testing.TB) (rows []readonlyRow) {
	t.Helper()
	data, err := os.ReadFile(readonlyTable)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		quoted, err := strconv.QuotedPrefix(fields[3])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		script, _ := strconv.Unquote(quoted)
		why := strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(fields[3], quoted)), "# ")
		rows = append(rows, readonlyRow{fields[0], map[string]string{ShellPOSIX: fields[1], ShellBash: fields[2]}, script, why})
	}
	return rows
}

// TestReadonly: the set allows commands that only read, except for a few with a
// reason in the table, and none of the counterexamples next to them.
func TestReadonly(t *testing.T) {
	rows := readReadonly(t)
	for _, shell := range []string{ShellPOSIX, ShellBash} {
		p, asks := bundled(t, "readonly", shell), askingReadonly(t, shell)
		uses, denied, nos := 0, 0, 0
		for _, row := range rows {
			v := p.Judge(row.script, "/work")
			checkVerdict(t, row.script, v)
			if got := v.Decision.String(); got != row.decided[shell] && !*update {
				t.Errorf("%s: %q is %s, want %s: %s", shell, row.script, got, row.decided[shell], v.Reason)
			}
			row.decided[shell] = v.Decision.String()
			asked := asks.Judge(row.script, "/work")
			switch row.kind {
			case "use":
				if uses++; v.Decision == Allow {
					break
				}
				denied++
				t.Logf("%s: denied: %-40q %s", shell, row.script, row.why)
				if row.why == "" && !*update {
					t.Errorf("%s: %q is denied, and the table gives no reason: %s", shell, row.script, v.Reason)
				}
				if asked.Decision != Ask {
					t.Errorf("%s: %q is %s where the default asks: %s", shell, row.script, asked.Decision, asked.Reason)
				}
			case "no":
				nos++
				if v.Decision == Allow && (shell == ShellPOSIX || row.why == "") {
					t.Errorf("%s: %q is allowed: %s", shell, row.script, v.Reason)
				}
				if asked.Decision == Allow && v.Decision != Allow {
					t.Errorf("%s: %q is allowed where the default asks", shell, row.script)
				}
			}
		}
		share := 100 * float64(denied) / float64(uses)
		t.Logf("%s: %d of %d uses are denied, %.1f %%; of %d others none is allowed", shell, denied, uses, share, nos)
		if share > maxDenied || uses < 400 || nos < 600 {
			t.Errorf("%s: that is more than %d %%, or rows are missing", shell, maxDenied)
		}
	}
	if *update {
		writeReadonly(t, rows)
	}
}

// askingReadonly is the set with a default that asks a person.
func askingReadonly(t testing.TB, shell string) *CommandPolicy {
	rules, _ := Bundled("readonly")
	rules.Shell, rules.Default = shell, Ask
	return compile(t, rules)
}

// writeReadonly updates the decisions, and keeps everything else.
func writeReadonly(t *testing.T, rows []readonlyRow) {
	data, err := os.ReadFile(readonlyTable)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			out.WriteString(line)
			continue
		}
		fields := strings.SplitN(line, " ", 4)
		fmt.Fprint(&out, fields[0], " ", rows[0].decided[ShellPOSIX], " ", rows[0].decided[ShellBash], " ", fields[3])
		rows = rows[1:]
	}
	if err := os.WriteFile(readonlyTable, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNothingUnknownIsApprovedForLonger: what readonly leaves to a person is
// asked about each time, because a read rule says nothing about the next command.
func TestNothingUnknownIsApprovedForLonger(t *testing.T) {
	p := askingReadonly(t, ShellPOSIX)
	for _, script := range []string{
		`rg foo "$DIR"`, "sort -o x f", "find . -delete", "ls @(a|b)", "cat <(a) ${x@P}", "[[ -f f ]] && echo $'x'", "function f { ls; }; f", "tar xf x", "less x", "go list -mod=mod ./...",
		"python3 --version x", "ls $'a'", "echo ${x:-<(id)}",
	} {
		if v := p.Judge(script, "/work"); v.Decision != Ask || len(v.Unknown) == 0 {
			t.Errorf("%q is %s with %d unknown: %s", script, v.Decision, len(v.Unknown), v.Reason)
		}
	}
	for _, script := range []string{"ls '", "ls $(", "cat <<<", "diff <(a", strings.Repeat("ls;", 60_000), "ls \x1b[2J"} { // no shell can read these, or they are too long to judge
		if v := p.Judge(script, "/work"); v.Decision != Deny {
			t.Errorf("%.50q is %s: %s", script, v.Decision, v.Reason)
		}
	}
	rules, _ := Bundled("readonly")
	rules.Default, rules.Rules = Ask, append([]CommandRule{{Name: "no", Commands: []string{"rm"}, Decision: Deny}}, rules.Rules...)
	strict := compile(t, rules)
	for _, script := range []string{"rm @(a|b)", "ls @(a|b); rm x", "diff <(rm x) y", "ls @(a|b)"} { // the last one could be rm
		if v := strict.Judge(script, "/work"); v.Decision != Deny {
			t.Errorf("%q is %s: %s", script, v.Decision, v.Reason)
		}
	}
}
