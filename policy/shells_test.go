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

	"belljar/internal/shelltest"
)

// evil is the program that must not run. No shell has it as a builtin, as busybox
// has id.
const evil = "evil"

// TestShellsAgree runs allowed scripts in the real shells, on a
// PATH where every program that is not allowed leaves a mark. It finds where the parser
// and a shell read a script differently.
func TestShellsAgree(t *testing.T) {
	dir := trapPath(t)
	shells := shelltest.Commands(t)
	for name, argv := range shells {
		for _, script := range []string{evil, "ls; echo \"$(" + evil + ")\"", "env " + evil, "echo | xargs " + evil, "find . -exec " + evil + " ';'"} {
			marked := false
			for try := 0; !marked && try < 5; try++ { // a busy host may take longer than marks waits
				marked = marks(dir, argv, script)
			}
			if !marked {
				t.Fatalf("%s does not run evil in %q: this test would find nothing", name, script)
			}
		}
		if marks(dir, argv, "ls; echo "+evil) {
			t.Fatalf("%s leaves a mark by itself", name)
		}
	}
	sh, bash := trapPolicy(t, ShellPOSIX), trapPolicy(t, ShellBash)
	ran := map[string]int{}
	random, more := fuzzTime(t)
	for more() {
		script := randomScript(random)
		if random.IntN(2) == 0 {
			script = nest(random)
		}
		if !strings.Contains(script, evil) {
			continue
		}
		forSh, forBash := sh.Judge(script, "").Decision == Allow, bash.Judge(script, "").Decision == Allow
		for name, argv := range shells {
			if mayRun := forSh || forBash && strings.HasPrefix(name, "bash"); !mayRun {
				continue
			}
			if ran[name]++; marks(dir, argv, script) {
				t.Errorf("%s ran evil in %q", name, script)
			}
		}
	}
	for name := range shells {
		if ran[name] < 100 {
			t.Errorf("%s ran %d scripts, too few for a result", name, ran[name])
		}
	}
	t.Log("scripts run:", ran)
}

// fuzzTime is how long to try: the same scripts each time, or other ones for the time
// in POLICY_FUZZ.
func fuzzTime(t *testing.T) (random *rand.Rand, more func() bool) {
	seed := uint64(1)
	left := 2500
	more = func() bool { left--; return left >= 0 }
	if d, err := time.ParseDuration(os.Getenv("POLICY_FUZZ")); err == nil {
		seed = uint64(time.Now().UnixNano())
		t.Log("seed", seed)
		deadline := time.Now().Add(d)
		more = func() bool { return time.Now().Before(deadline) }
	}
	return rand.New(rand.NewPCG(1, seed)), more
}

func trapPolicy(t *testing.T, shell string) *CommandPolicy {
	return compile(t, CommandRules{Shell: shell, Rules: []CommandRule{{
		Name: "reads", Commands: strings.Fields("ls cat echo printf test [ [[ env xargs sed find awk"), Decision: Allow, Allow: []string{Reads},
	}}})
}

// trapPath is a PATH on which evil leaves a mark, and so do programs that start it.
func trapPath(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{evil, "if", "a", "x", "E", "1", "{", "}", "function", "coproc", "select", "let"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n: > \"$MARK\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ls", "cat", "sed", "find", "awk", "env", "xargs", "[["} {
		program := name
		if name == "[[" {
			program = "test" // as busybox has it
		}
		if found, err := exec.LookPath(program); err == nil {
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
	_ = cmd.Run() // most fail, which does not matter
	return os.Remove(mark) == nil
}

var tokens = strings.Split(`ls|echo|cat|evil|evil|evil|a|x|E|1|test|[|]|env|xargs|sed|find .|-exec|{}|;|\;|+| | | | |`+"\n|\n|\t"+`|'|'|"|"|\|\\|`+"`|\\`|\\\n"+`|$|$(|$((|)|))|${|}|${x:-|${x|$x|"$x"|$'|$"|#| #|&|&&|bar|{|{ |; }|(|)|!|<|<<E|<<'E'|<<-E|<<\E|`+"\nE\n|\n\tE\n"+`|<(|>(|<<<|<&|2>&1|>&2|>/dev/null|&>/dev/null|=|x=|x=1|a=|a[|[[|]]|((|if |then |; fi|for x in |; do |; done|case x in |esac|;;|x)|*|?|~|{a,evil}|,|..|[a|-v|-n|eq|function |ls() |time |coproc |let |select |do|done|in|a=(|${x//a/b}|${x:0:1}|${x^^}|${#a[@]}|for ((i=0;i<1;i++)); do |&>/dev/null |&>>|-f|== |=~ |$`, "|")

// nestings put a command into each other's quotes and expansions.
var nestings = []string{
	"\"@\"", "'@'", "${x:-@}", "${x+@}", "${x#@}", "${x%%@}", "${x:=@}", "$(echo @)", "`echo @`", "\\@", "\\\\@", "\\\n@", "cat <<E\n@\nE\n", "cat <<'E'\n@\nE\n",
	"cat <<-E\n\t@\n\tE\n", "$((@))", "$((1+@))", "a@", "@a", "# @\n", "#@", "a#@", "a #@\n", "$'@'", "$\"@\"", "{@,a}", "x=@; ", "x=@ ls", "case @ in a) ;; esac", "case a in @) ;; esac",
	"[ @ ]", "[[ @ ]]", "[[ a =~ @ ]]", "for x in @; do :; done", "(@)", "{ @; }", "if @; then :; fi", "! @", "@ &", "@ | cat", "f() { @; }; f", "<(@)", "< @", "> @", "<<< @", "${x/@/a}", "${x:@}", "${x[@]}", "a=(@)", "((@))",
	"[[ @ == a ]] && ls", "[[ -f @ ]] || ls", "[[ a =~ @ ]]", "cat <(@)", "cat < <(@)", "cat <<< @", "cat <<< \"@\" | ls", "read y <<< @", "a=(x @)", "a=('@' x)", "echo ${a[@]}", "for ((@)); do ls; done", "for ((i=0; i<1; i++)); do @; done",
	"@ |& cat", "ls |& @", "@ &>/dev/null", "@ &>/dev/null | ls", "${x//@/a}", "${x//a/@}", "${x:@:1}", "${x^^@}", "ls &>/dev/null; @", "<<< x @", "cat <<< x<(@)",
	"eval @", "eval '@'", "sh -c @", "sh -c '@'", "env @", "xargs @", "trap @ EXIT", "trap '@' 0", "awk @", "awk 'BEGIN { @ }'", "awk 'BEGIN { x = \"@\" }'", "sed @", "sed 's/@/a/'", "find . @", "find . -exec @ ';'", "echo @", "echo '@' @", "echo \"@\" '@'", "ls\n@", "ls; @", "@; ls",
	"test @", "printf @", "system(\"@\")", "\"@\" | getline", "-exec @ ;", "s/x/@/e", "1e @", "@ #'", "@ '", "@ \"", "' @", "\" @", "} @", ") @", "` @", "E\n@", "; @", "\n@",
}

// nest puts evil into some of them.
func nest(random *rand.Rand) string {
	script := []string{evil, evil, "$(" + evil + ")", "`" + evil + "`", "; " + evil + ";"}[random.IntN(5)]
	for range 1 + random.IntN(4) {
		script = strings.ReplaceAll(nestings[random.IntN(len(nestings))], "@", script)
		if len(script) > 2000 {
			break
		}
	}
	return []string{"", "echo ", "ls "}[random.IntN(3)] + script
}

// randomScript is a script of a few different tokens, in random order: with all of
// them at once hardly any script would parse.
func randomScript(random *rand.Rand) string {
	few := []string{evil, evil, " ", "\n"}
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
