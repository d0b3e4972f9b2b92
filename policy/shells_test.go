package policy

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestShellsAgree runs scripts that were allowed with the real shells, on a
// PATH where all that is not allowed leaves a mark. It finds where the parser
// and a shell read a script differently.
func TestShellsAgree(t *testing.T) {
	shells := map[string][]string{}
	for name, argv := range map[string][]string{"dash": {"dash"}, "bash": {"bash"}, "bash as sh": {"bash", "--posix"}, "busybox": {"busybox", "sh"}} {
		if found, err := exec.LookPath(argv[0]); err == nil {
			shells[name] = append([]string{found}, argv[1:]...)
		}
	}
	if len(shells) == 0 {
		t.Skip("no shell here")
	}
	dir := trapPath(t)
	sh, bash := trapPolicy(t, ShellPOSIX), trapPolicy(t, ShellBash)
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	ran, deadline := 0, time.Now().Add(soupTime())
	for time.Now().Before(deadline) {
		script := soup(random)
		if random.IntN(2) == 0 {
			script = nest(random)
		}
		forSh, forBash := sh.Judge(script).Decision == Allow, bash.Judge(script).Decision == Allow
		if !strings.Contains(script, "id") || !forSh && !forBash {
			continue
		}
		for name, argv := range shells {
			if ran++; (name == "bash" && forBash || forSh) && marks(dir, argv, script) {
				t.Errorf("%s ran id in %q", name, script)
			}
		}
	}
	t.Logf("%d runs", ran)
}

// soupTime is how long to try: POLICY_SOUP, or little.
func soupTime() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("POLICY_SOUP")); err == nil {
		return d
	}
	return 2 * time.Second
}

func trapPolicy(t *testing.T, shell string) *CommandPolicy {
	return compile(t, CommandRules{Shell: shell, Rules: []CommandRule{{
		Name: "reads", Commands: strings.Fields("ls cat echo printf test [ env xargs sed find awk"), Decision: Allow, Allow: []string{Reads},
	}}})
}

// trapPath is a PATH on which id leaves a mark, and so does whatever starts it.
func trapPath(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"id", "if", "a", "x", "E", "1", "[[", "{", "}", "function", "coproc", "select", "let"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n: > \"$MARK\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ls", "cat", "sed", "find", "awk", "env", "xargs"} {
		if found, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(found, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func marks(dir string, argv []string, script string) bool {
	mark := filepath.Join(dir, "mark")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], slices.Concat(argv[1:], []string{"-c", script})...)
	cmd.Env = []string{"PATH=" + dir, "MARK=" + mark}
	cmd.Dir = filepath.Join(dir, "work")
	_ = cmd.Run() // most fail, which is no matter
	return os.Remove(mark) == nil
}

var tokens = strings.Split(`ls|echo|cat|id|id|id|a|x|E|1|test|[|]|env|xargs|sed|find .|-exec|{}|;|\;|+| | | | |`+"\n|\n|\t"+`|'|'|"|"|\|\\|`+"`|\\`|\\\n"+`|$|$(|$((|)|))|${|}|${x:-|${x|$x|"$x"|$'|$"|#| #|&|&&|bar|{|{ |; }|(|)|!|<|<<E|<<'E'|<<-E|<<\E|`+"\nE\n|\n\tE\n"+`|<(|>(|<<<|<&|2>&1|>&2|>/dev/null|&>/dev/null|=|x=|x=1|a=|a[|[[|]]|((|if |then |; fi|for x in |; do |; done|case x in |esac|;;|x)|*|?|~|{a,id}|,|..|[a|-v|-n|eq|function |ls() |time |coproc |let |select |do|done|in`, "|")

// nestings hide a command in each other's quotes and expansions.
var nestings = []string{
	"\"@\"", "'@'", "${x:-@}", "${x+@}", "${x#@}", "${x%%@}", "${x:=@}", "$(echo @)", "`echo @`", "\\@", "\\\\@", "\\\n@", "cat <<E\n@\nE\n", "cat <<'E'\n@\nE\n",
	"cat <<-E\n\t@\n\tE\n", "$((@))", "$((1+@))", "a@", "@a", "# @\n", "#@", "a#@", "a #@\n", "$'@'", "$\"@\"", "{@,a}", "x=@; ", "x=@ ls", "case @ in a) ;; esac", "case a in @) ;; esac",
	"[ @ ]", "[[ @ ]]", "[[ a =~ @ ]]", "for x in @; do :; done", "(@)", "{ @; }", "if @; then :; fi", "! @", "@ &", "@ | cat", "f() { @; }; f", "<(@)", "< @", "> @", "<<< @", "${x/@/a}", "${x:@}", "${x[@]}", "a=(@)", "((@))",
	"eval @", "eval '@'", "sh -c @", "sh -c '@'", "env @", "xargs @", "trap @ EXIT", "trap '@' 0", "awk @", "awk 'BEGIN { @ }'", "awk 'BEGIN { x = \"@\" }'", "sed @", "sed 's/@/a/'", "find . @", "find . -exec @ ';'", "echo @", "echo '@' @", "echo \"@\" '@'", "ls\n@", "ls; @", "@; ls",
	"test @", "printf @", "system(\"@\")", "\"@\" | getline", "-exec @ ;", "s/x/@/e", "1e @", "@ #'", "@ '", "@ \"", "' @", "\" @", "} @", ") @", "` @", "E\n@", "; @", "\n@",
}

// nest puts id into some of them.
func nest(random *rand.Rand) string {
	script := []string{"id", "id", "$(id)", "`id`", "; id;"}[random.IntN(5)]
	for range 1 + random.IntN(4) {
		script = strings.ReplaceAll(nestings[random.IntN(len(nestings))], "@", script)
		if len(script) > 2000 {
			break
		}
	}
	return []string{"", "echo ", "ls "}[random.IntN(3)] + script
}

// soup is a script of few different tokens, in random order: with all of them
// at once hardly a script would parse.
func soup(random *rand.Rand) string {
	few := []string{"id", "id", " ", "\n"}
	for range 2 + random.IntN(5) {
		token := tokens[random.IntN(len(tokens))]
		if token == "bar" {
			token = "|"
		}
		few = append(few, token, token)
	}
	var b strings.Builder
	b.WriteString([]string{"", "echo ", "ls\n"}[random.IntN(3)])
	for range 3 + random.IntN(8) {
		b.WriteString(few[random.IntN(len(few))])
	}
	return b.String()
}
