package gate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"belljar/internal/shelltest"
	"belljar/sandbox"
)

// shell is a shell to test gates with.
type shell struct {
	shelltest.Shell
	bash string // the shell that runs the command instead, or ""
}

func shells(t testing.TB) (list []shell) {
	bash := shelltest.Commands(t)["bash"]
	for _, s := range shelltest.Shells(t) {
		list = append(list, shell{s, ""})
		if bash == nil {
			continue
		}
		with := s
		with.Bin = t.TempDir()
		for name, path := range map[string]string{"sh": s.Path, "bash": bash[0]} {
			if err := os.Symlink(path, filepath.Join(with.Bin, name)); err != nil {
				t.Fatal(err)
			}
		}
		list = append(list, shell{with, bash[0]})
	}
	return list
}

// runs is the command's shell.
func (s shell) runs() string {
	if s.bash != "" {
		return sandbox.ShellBash
	}
	return sandbox.ShellSh
}

// tells is the beginning of a script that prints its state, and never
// reads its other lines. The kernel's "Linux" separates its
// arguments from what it reads.
func (s shell) tells() string {
	return s.Cat + ` /proc/$$/cmdline /proc/$$/environ /proc/sys/kernel/ostype -
pwd -P; umask
for f in 3 4 5 6 7 8 9 10 11 12 255; do [ ! -e /proc/$$/fd/$f ] || echo file $f; done
while read -r a b; do case "$a" in SigBlk:|SigIgn:) echo "$a$b";; esac; done </proc/$$/status
exit 3
`
}

// ran is everything that can differ between two runs.
type ran struct {
	Args, Env      []string
	Rest           string // what else it read and inherited
	Stdout, Stderr string // without the lines about that
	Status         int
}

// start runs `sh -c script` as an engine does.
func (s shell) start(t *testing.T, script, dir string, env []string, stdin string) ran {
	t.Helper()
	return s.startAs(t, s.Path, sandbox.ShellSh, script, dir, env, stdin)
}

func (s shell) startAs(t *testing.T, path, name, script, dir string, env []string, stdin string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, path)
	c.Args, c.Dir, c.Env = []string{name, "-c", script}, dir, env
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("%s: %v", s.Name, err)
	}
	return ran{Stdout: stdout.String(), Stderr: stderr.String(), Status: c.ProcessState.ExitCode()}
}

// cold is the command as an exec starts it.
func (s shell) cold(t *testing.T, c sandbox.Command, base []string, stdin string) ran {
	t.Helper()
	env := map[string]string{}
	for _, kv := range slices.Concat(base, c.Env) {
		name, _, _ := strings.Cut(kv, "=")
		env[name] = kv
	}
	return s.startAs(t, cmp.Or(s.bash, s.Path), s.runs(), c.Script, c.Dir, slices.Collect(maps.Values(env)), stdin).parsed(s)
}

var gateWords = regexp.MustCompile(`\A[0-9]+\n\n\n`)

// warm is the command as a gate becomes it. All is written at once: only
// its lines are the gate's.
func (s shell) warm(t *testing.T, text string, base []string, stdin string) ran {
	t.Helper()
	r := s.start(t, script, "/", base, "\n"+text+stdin)
	words := gateWords.FindString(r.Stdout)
	if words == "" {
		t.Fatalf("%s: the gate said %q (stderr %q)\nsent %q", s.Name, r.Stdout, r.Stderr, text)
	}
	r.Stdout = r.Stdout[len(words):]
	return r.parsed(s)
}

func (r ran) parsed(s shell) ran {
	rest := r.Stdout
	next := func() (field string, ok bool) {
		field, after, ok := strings.Cut(rest, "\x00")
		if ok {
			rest = after
		}
		return field, ok
	}
	for range 3 {
		arg, ok := next()
		if !ok {
			return r
		}
		r.Args = append(r.Args, arg)
	}
	for !strings.HasPrefix(rest, "Linux\n") {
		kv, ok := next()
		if !ok {
			break
		}
		// bash passes its path and depth to everything that it execs. The bash
		// of the command sets both again: 0 is as good as unset.
		if s.Name != "bash" || kv != "_="+s.Bin+"/"+s.runs() && kv != "SHLVL=0" {
			r.Env = append(r.Env, kv)
		}
	}
	slices.Sort(r.Env)
	r.Rest, r.Stdout = rest, ""
	return r
}

// Before its command a gate only obeys complete lines.
func TestGateScript(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	text := func(change func(c *sandbox.Command)) string {
		c := sandbox.Command{Dir: dir, Script: "echo ran; cat", Stdin: strings.NewReader("")}
		change(&c)
		text, ok := Line(c, MaxShort)
		if !ok {
			t.Fatalf("%+v cannot be delivered", c)
		}
		return text
	}
	whole := text(func(*sandbox.Command) {})
	for name, test := range map[string]struct {
		in, want string
		status   int
	}{
		"nothing":             {"", "", 1},
		"asked, then nothing": {"\n\n\n", "\n\n\n", 1},
		"no line's end":       {strings.TrimSuffix(whole, "\n"), "", 1},
		"half":                {whole[:len(whole)/2], "", 1},
		"the command":         {whole + "in", "\nran\nin", 0},
		"asked before":        {"\n\n" + whole, "\n\n\nran\n", 0},
		"no stdin":            {text(func(c *sandbox.Command) { c.Stdin = nil }) + "in", "\nran\n", 0},
		"no such directory":   {text(func(c *sandbox.Command) { c.Dir = dir + "/no 'such'\ndir" }), "n\n", 126},
		"no directory":        {text(func(c *sandbox.Command) { c.Dir = file }), "n\n", 126},
		"status":              {text(func(c *sandbox.Command) { c.Script = "exit 7" }), "\n", 7},
		"syntax error":        {text(func(c *sandbox.Command) { c.Script = "echo ran; (" }), "\n", 2},
	} {
		for _, s := range shells(t) {
			env := []string{"PATH=" + s.Bin + ":" + filepath.Dir(s.Cat)}
			r := s.start(t, script, "/", env, test.in)
			pid, rest, _ := strings.Cut(r.Stdout, "\n")
			if name == "syntax error" { // shells differ in the message
				cold := s.start(t, "echo ran; (", "/", env, "")
				r.Stderr, test.want, test.status = "", "\n"+cold.Stdout, cold.Status
			}
			if _, err := strconv.Atoi(pid); err != nil || rest != test.want || r.Status != test.status || r.Stderr != "" {
				t.Errorf("%s, %s: it said %q, then %q and %q, status %d; want %q, %d", name, s.Name, pid, rest, r.Stderr, r.Status, test.want, test.status)
			}
		}
	}
}

// lasting is a container that is not lost.
type lasting struct{ sandbox.Container }

func (lasting) Lost() <-chan struct{} { return nil }

// written is what a command wrote.
type written struct{ stdout, stderr strings.Builder }

// quietGate is a gate without a process, and the output of its command.
func quietGate() (*Gate, *written) {
	o := &written{}
	return &Gate{box: lasting{}, in: &stdinQueue{lines: make(chan []byte, 2), stop: make(chan struct{})}, words: make(chan string, 1)}, o
}

// A gate's words are taken as far as a gate has any, and nothing of them is the
// command's.
func TestGateListens(t *testing.T) {
	for name, test := range map[string]struct {
		before  []string // written until the PID is heard
		pid     string   // "" is none
		between []string // written after that
		after   []string // written once the command was delivered; nil: it is not
		want    string   // of which that is the command's
		began   bool
	}{
		"a gate":                   {[]string{"12\n"}, "12", nil, []string{"\nout\n\nmore"}, "out\n\nmore", true},
		"byte by byte":             {[]string{"1", "2", "\n"}, "12", nil, []string{"\n", "o", "\n", "\n"}, "o\n\n", true},
		"no output":                {[]string{"12\n"}, "12", nil, []string{"\n"}, "", true},
		"not obeying":              {[]string{"12\n"}, "12", nil, []string{""}, "", false},
		"an answer before":         {[]string{"12\n"}, "12", []string{"\n"}, nil, "", false},
		"answers before":           {[]string{"12\n"}, "12", []string{"\n\n\nout"}, nil, "", false},
		"half an answer before":    {[]string{"12\n"}, "12", []string{"hostile"}, nil, "", false},
		"all at once":              {[]string{"12\n\nhostile\n"}, "12", nil, nil, "", false},
		"PID and output":           {[]string{"12\nhostile"}, "12", nil, nil, "", false},
		"a long word":              {[]string{strings.Repeat("1", maxWord-1) + "\n"}, strings.Repeat("1", maxWord-1), nil, []string{"\n."}, ".", true},
		"too long":                 {[]string{strings.Repeat("1", maxWord) + "\n"}, "", nil, nil, "", false},
		"too long, in parts":       {slices.Repeat([]string{"1"}, maxWord), "", []string{"\n12\n"}, nil, "", false},
		"a flood":                  {slices.Repeat([]string{strings.Repeat("x", 1<<16)}, 16), "", []string{"\n"}, nil, "", false},
		"a flood instead of an OK": {[]string{"12\n"}, "12", nil, []string{strings.Repeat("x", 1<<16), "\nout"}, "", false},
	} {
		g, o := quietGate()
		write := func(parts []string) {
			for _, p := range parts {
				if n, err := (gateStdout{g}).Write([]byte(p)); n != len(p) || err != nil {
					t.Errorf("%s: wrote %d bytes, %v", name, n, err)
				}
			}
			// Once a bug of gate.listen: of one that is broken it keeps on keeping the
			// beginning of each write.
			if len(g.line) > maxWord {
				t.Errorf("%s: keeps %d bytes", name, len(g.line))
			}
		}
		write(test.before)
		pid := ""
		select {
		case pid = <-g.words:
		default:
		}
		if pid != test.pid {
			t.Errorf("%s: received %q, want %q", name, pid, test.pid)
		}
		(gateStderr{g}).Write([]byte("hostile"))
		write(test.between)
		if ok := tell(g, sandbox.Command{Dir: "/", Script: "x"}, o); ok != (test.after != nil) {
			t.Errorf("%s: delivered: %v", name, ok)
		}
		write(test.after)
		if test.after == nil { // nor later
			write([]string{"\nhostile\n"})
			(gateStderr{g}).Write([]byte("hostile"))
		}
		if got := o.stdout.String(); got != test.want || g.began != test.began {
			t.Errorf("%s: %q is the command's, began %v; want %q, %v", name, got, g.began, test.want, test.began)
		}
		if got := o.stderr.String(); got != "" {
			t.Errorf("%s: stderr %q is the command's", name, got)
		}
		if err := g.failure(Exit{}); (err == nil) != (test.began || test.after == nil) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A gate gets one command, once.
func TestGateIsToldOnce(t *testing.T) {
	g, o := quietGate()
	c := sandbox.Command{Dir: "/", Script: "x", Stdin: strings.NewReader("in")}
	text, _ := Line(c, MaxShort)
	if !tell(g, c, o) || tell(g, c, o) || g.in.send([]byte("\n")) || g.in.finish(nil, nil) {
		t.Error("told twice")
	}
	got, err := io.ReadAll(g.in)
	if string(got) != text+"in" || err != nil {
		t.Errorf("sent %q, %v", got, err)
	}
}

func tell(g *Gate, c sandbox.Command, o *written) bool {
	text, ok := Line(c, MaxShort)
	return ok && g.Deliver(text, c, &o.stdout, &o.stderr)
}
