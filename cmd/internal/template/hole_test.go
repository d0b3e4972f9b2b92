package template

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"belljar/internal/shelltest"
)

// forms are what may follow a builtin's name.
var forms = []string{
	"{{args}}", "{{args}} 1", "1 {{args}}", "x y {{args}}", "{{args}} {{args}}", "{{args}}=1", "x={{args}}", "-- {{args}}", "-- {{args}} x", "+ {{args}}", "-{{args}}", "-v{{args}} x",
	"-a {{args}}", "-c {{args}}", "-C {{args}}", "-d : {{args}}", "-F ls -C {{args}}", "-i {{args}}", "-l {{args}}", "-n {{args}}", "-n -p {{args}}", "-n1 {{args}}", "-O {{args}}", "-o {{args}}", "-p {{args}}", "-s {{args}}", "-t {{args}}", "-u {{args}}", "-u0 {{args}}", "-v {{args}}", "-v {{args}} x",
	"'%d' {{args}}", "'%s' {{args}} {{args}}", "'%n' {{args}}", "'%(%s)T' {{args}}", "%d {{args}}", "%d\\\\n {{args}}", "'' {{args}} x", "''{{args}} x", "{-v,{{args}}} x", "\"\\\n-v\" {{args}} x", "a[{{args}}]", "a[{{args}}]=1",
	"{{args}} EXIT", "{{args}} = x", "x = {{args}}", "x != {{args}}", "{{args}} -eq {{args}}", "1 -eq {{args}}", "! -v {{args}}", "! -f {{args}}", "! {{args}} = x", "-f {{args}} -a x", "{{args}} -a {{args}}", "{-v,{{args}}} = x", "{{args}} a[1]",
	"x {{args}} {a[{{args}}]}>/dev/null", "x >/dev/null {{args}}",
}

// hostile are arguments that make a file, should anybody evaluate them.
func hostile(mark string) []string {
	name := "a[$(touch " + mark + ")]"
	return []string{name, name + "=1", "-v" + name, "$(touch " + mark + ")", "touch " + mark, "x=touch " + mark, "-v", "-eq"}
}

// No command of sh's own that takes arguments evaluates them.
func TestBuiltinsDoNotEvaluate(t *testing.T) {
	var scripts []func(args string) string
	for _, name := range builtinsOf(t) {
		if _, known := builtins[name]; !known {
			t.Errorf("%s is a shell's own, and not known to be", name)
		}
		for _, form := range forms {
			text := "!{" + name + " " + form + "}"
			if name == "[" {
				text = strings.TrimSuffix(text, "}") + " ]}"
			}
			if p, err := Parse(text); err == nil {
				scripts = append(scripts, func(args string) string { return one(t, p, args) })
			}
		}
	}
	if len(scripts) < 100 {
		t.Errorf("only %d of them take arguments", len(scripts))
	}
	for _, shell := range shelltest.Commands(t) {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "mark")
			for _, args := range hostile(mark) {
				var all []string
				for _, s := range scripts {
					all = append(all, s(args))
				}
				if !makes(t, shell, mark, all...) {
					continue
				}
				for _, s := range all {
					if makes(t, shell, mark, s) {
						t.Errorf("%s runs them", s)
					}
				}
			}
		})
	}
}

// That what is refused would make the file shows that one is seen.
func TestEvaluationIsSeen(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "mark")
	for _, shell := range shelltest.Commands(t) {
		if !makes(t, shell, mark, "eval 'touch "+mark+"'") {
			t.Errorf("%v: eval", shell)
		}
		if shell[0] != "bash" {
			continue
		}
		for _, script := range []string{"read X", "[ -v X ]", "printf -v X x", "unset X"} {
			script = strings.ReplaceAll(script, "X", "'a[$(touch "+mark+")]'")
			if !makes(t, shell, mark, script) {
				t.Errorf("%v: %s", shell, script)
			}
		}
	}
}

// The documentation's first example once let the arguments be options of git,
// and --output=FILE writes a file.
func TestDocumentedExampleTakesNoOptions(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED: there is no git")
	}
	page, err := os.ReadFile("../../../docs/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```md\n")
	example, _, _ = strings.Cut(example, "```")
	p, err := Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	git := exec.Command("sh", "-c", "git init -q && git -c user.name=x -c user.email=x@localhost commit -q --allow-empty -m first")
	git.Dir = dir
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	mark := filepath.Join(dir, "mark")
	for args, want := range map[string]bool{"HEAD": true, "--output=" + mark: false, "HEAD --output=" + mark: false} {
		cmd := exec.Command("sh", "-c", one(t, p, args))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if made := makes(t, []string{"sh"}, mark); made || (err == nil) != want {
			t.Errorf("%s: %v: %s", args, err, out)
		}
	}
}

// one is the script of a template that has one.
func one(t *testing.T, p *Template, args string) string {
	t.Helper()
	commands, err := p.Commands(args)
	if err != nil {
		t.Fatal(err)
	}
	return commands[0].Script
}

// makes reports whether the scripts make the file in a shell.
func makes(t *testing.T, shell []string, mark string, scripts ...string) bool {
	t.Helper()
	var b strings.Builder
	for _, s := range scripts {
		b.WriteString("(a=1; " + s + "\n)\n")
	}
	cmd := exec.Command(shell[0], append(shell[1:], "-c", b.String())...)
	cmd.Dir = filepath.Dir(mark)
	cmd.Run() // many fail
	_, err := os.Stat(mark)
	os.Remove(mark)
	return err == nil
}

// builtinsOf are those of the shells: bash tells its own.
func builtinsOf(t *testing.T) []string {
	t.Helper()
	// dash(1), and what busybox's ash has more.
	list := strings.Fields(`. : [ alias bg break cd chdir command continue echo eval exec exit export false fg getopts
		hash jobs kill local printf pwd read readonly return set shift test times trap true type ulimit umask unalias unset wait
		help history let source`)
	if out, err := exec.Command("bash", "-c", "compgen -b").Output(); err == nil {
		list = append(list, strings.Fields(string(out))...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}
