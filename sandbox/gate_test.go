package sandbox

import (
	"bytes"
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
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shell is a /bin/sh of this host, and the only sh of a directory.
type shell struct{ name, path, bin, cat string }

// shells are the kinds that images have. Outside CI one may be missing.
func shells(t testing.TB) (list []shell) {
	t.Helper()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dash", "bash", "busybox"} {
		path, err := exec.LookPath(name)
		if err != nil && os.Getenv("CI") == "" {
			t.Logf("skipped: this host has no %s", name)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		bin := t.TempDir()
		if err := os.Symlink(path, filepath.Join(bin, "sh")); err != nil {
			t.Fatal(err)
		}
		list = append(list, shell{name, path, bin, cat})
	}
	if len(list) == 0 {
		t.Skip("this host has no shell that the test knows")
	}
	keepFiles(t)
	return list
}

// keepFiles has no shell inherit what go test -fuzz leaves open for its workers.
func keepFiles(t testing.TB) {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if fd, err := strconv.Atoi(file.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// tells is the beginning of a script that says what it has become, and never
// looks at its other lines. The kernel's "Linux" stands between what it was
// started with and what it reads.
func (s shell) tells() string {
	return s.cat + ` /proc/$$/cmdline /proc/$$/environ /proc/sys/kernel/ostype -
pwd -P; umask
for f in 3 4 5 6 7 8 9 10 11 12 255; do [ ! -e /proc/$$/fd/$f ] || echo file $f; done
while read -r a b; do case "$a" in SigBlk:|SigIgn:) echo "$a$b";; esac; done </proc/$$/status
exit 3
`
}

// ran is all that tells one run from another.
type ran struct {
	Args, Env      []string
	Rest           string // what it read and inherited otherwise
	Stdout, Stderr string // where it said nothing of that
	Status         int
}

// start runs `sh -c script` as an engine does.
func (s shell) start(t *testing.T, script, dir string, env []string, stdin string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	c := exec.CommandContext(ctx, s.path)
	c.Args, c.Dir, c.Env = []string{"sh", "-c", script}, dir, env
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("%s: %v", s.name, err)
	}
	return ran{Stdout: stdout.String(), Stderr: stderr.String(), Status: c.ProcessState.ExitCode()}
}

// cold is the command as an exec starts it.
func (s shell) cold(t *testing.T, c Command, base []string, stdin string) ran {
	t.Helper()
	env := map[string]string{}
	for _, kv := range slices.Concat(base, c.Env) {
		name, _, _ := strings.Cut(kv, "=")
		env[name] = kv
	}
	return s.start(t, c.Script, c.Dir, slices.Collect(maps.Values(env)), stdin).parsed(s)
}

var gateWords = regexp.MustCompile(`\A[0-9]+\n\n\n`)

// warm is the command as a gate becomes it. All is written at once: nothing but
// its lines is the gate's.
func (s shell) warm(t *testing.T, text string, base []string, stdin string) ran {
	t.Helper()
	r := s.start(t, gateScript, "/", base, "\n"+text+stdin)
	words := gateWords.FindString(r.Stdout)
	if words == "" {
		t.Fatalf("%s: the gate said %q (stderr %q)\ntold %q", s.name, r.Stdout, r.Stderr, text)
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
		// bash tells everything that it execs where that is, and how deep. The
		// bash that the command is makes both anew: 0 is as good as unset.
		if s.name != "bash" || kv != "_="+s.bin+"/sh" && kv != "SHLVL=0" {
			r.Env = append(r.Env, kv)
		}
	}
	slices.Sort(r.Env)
	r.Rest, r.Stdout = rest, ""
	return r
}

// usable tells whether a command comes as far as to a gate.
func usable(c *Command) bool {
	env := map[string]string{}
	for _, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
		// What the dynamic linker obeys, cat would, too.
		if strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "GLIBC_") {
			return false
		}
	}
	var err error
	c.Env, err = checkEnviron(env)
	return err == nil && c.checkScript() == nil && c.checkDir() == nil
}

// letters is a name of a variable, or nearly, so that fuzzing finds more of them.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
}

// FuzzDelivery proves that what a gate becomes is what an exec would start:
// the same arguments, variables, directory, input, open files and signals.
func FuzzDelivery(f *testing.F) {
	type seed struct{ dir, name, value, other, second, script, stdin string }
	for _, s := range []seed{
		{},
		{"plain", "A", "b", "C", "d e", "echo hi", "some\ninput\n"},
		{"it's", "Q", `'"'"'`, "R", `''`, `echo 'it'"'"'s' "x"`, "'"},
		{"two\nlines", "N", "a\nb\n\n", "M", "\n", "\n\necho a\necho b\n", "\n\n"},
		{" spaced ", "S", "  lead and trail  ", "T", "\t\t", "  echo  ", " "},
		{`back\slash\`, "B", `\`, "D", `\\\n\`, `printf '%s\n' "\\"` + "\\\n", `\`},
		{"$(touch pwned)", "X", "$(touch pwned)", "Y", "`touch pwned`", "echo $(true) `true` ${x-$1}", "$(touch pwned)"},
		{"-n", "OPT", "-n", "E", "-e", "-n", "-n\n"},
		{"ü€🦀", "U", "ü€🦀", "L", "āĂăĄąĆćĈ", "echo ü # āĂăĄąĆćĈ\u0081\u0082\u0088", "\x81\x82\x83\x84\x85\x86\x87\x88\xff"},
		{"a\rb", "CR", "\r\n\r", "W", "\x01\x02\x03\x7f\x1b", "echo\r\n", "\r\n"},
		{"*", "G", "*", "H", "~ ~root [a-z]? {a,b}", "echo *", "*"},
		{"$1", "ONE", "$1", "AT", `$@ "$1"`, `echo "$1"`, "$1"},
		{"e", "EMPTY", "", "EQ", "=a=b=", ";&|<>(){}!#", ""},
		{"long", "LONG", strings.Repeat("x'", 5000), "LINES_", strings.Repeat("\n", 3000), strings.Repeat("# 'long'\n", 5000), strings.Repeat("in\x00put", 20000)},
		{"p", "PATH", "/nowhere:with space:'", "HOME", "/ho\nme", "cd", "x"},
		{"i", "IFS", "abcdefghij kl/$-=", "PS4", "$(touch pwned)+", "set -x", "x"},
		{"l", "l", "other", "PWD", "/elsewhere", "echo $l", "x"},
		{"o", "OLDPWD", "/old", "TMOUT", "1", "cd -", "x"},
		{"c", "LC_ALL", "C", "LANG", "tr_TR.UTF-8", "echo ı", "x"},
		{"c2", "LC_ALL", "en_US.UTF-8", "Z", "āĂăĄąĆćĈ", "x", "x"},
		{"c3", "LC_CTYPE", "ja_JP.SJIS", "Z", "表\\", "echo 表\\", "x"},
		{"cd", "CDPATH", "/usr:/tmp", "ENV", "/etc/passwd", "x", "x"},
		{"n", "PS1", "$(x)", "PS2", ">'", "x", "x"},
		{"d", "MAIL", "/x", "MAILPATH", "/x?y:z", "x", "x"},
		{"e1", "export", "exec", "sh", "unset", "x", "x"},
		{"f", "2bad", "x", "a-b", "x", "x", "x"},
		{"r", "readonly", "1", "HISTSIZE", "oops", "x", "x"},
		{"a/../b//c/.", "POSIX_PEDANTIC", "1", "GLOBIGNORE", "*", "x", "x"},
	} {
		f.Add(s.dir, s.name, s.value, s.other, s.second, s.script, s.stdin, s.stdin != "")
	}
	all, root := shells(f), f.TempDir()
	f.Fuzz(func(t *testing.T, dir, name, value, other, second, script, stdin string, hasStdin bool) {
		for _, s := range []*string{&dir, &value, &second, &script} { // anything else is refused before
			*s = strings.ReplaceAll(strings.ToValidUTF8(*s, "\u0081"), "\x00", "")
		}
		name, other = letters(name), letters(other)
		if dir = filepath.Join(root, "d") + "/" + dir; !within(root+"/d", filepath.Clean(dir)) || os.MkdirAll(dir, 0o755) != nil {
			t.Skip("no such directory can be made")
		}
		defer os.RemoveAll(root + "/d")
		for _, s := range all {
			base := []string{"PATH=" + s.bin, "HOSTNAME=box"}
			c := Command{Dir: dir, Script: s.tells() + script}
			for _, kv := range [][2]string{{name, value}, {other, second}} {
				if kv[0] == "PATH" { // which must lead to the shell
					kv[1] = s.bin + ":" + kv[1]
				}
				if kv[0] != "" {
					c.Env = append(c.Env, kv[0]+"="+kv[1])
				}
			}
			if !usable(&c) {
				t.Skip("refused before")
			}
			in := ""
			if hasStdin {
				in, c.Stdin = stdin, strings.NewReader(stdin)
			}
			text, ok := delivery(c)
			if !ok {
				t.Skip("goes cold")
			}
			want, got := s.cold(t, c, base, in), s.warm(t, text, base, in)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, cold and warm: %s", s.name, diff)
			}
			if got.Status != 3 || len(got.Args) != 3 || got.Args[2] != c.Script {
				t.Errorf("%s ran something else: %+v", s.name, got)
			}
		}
	})
}

// What a gate is told before its command is all that it obeys, and only whole.
func TestGateScript(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	text := func(change func(c *Command)) string {
		c := Command{Dir: dir, Script: "echo ran; cat", Stdin: strings.NewReader("")}
		change(&c)
		text, ok := delivery(c)
		if !ok {
			t.Fatalf("%+v goes cold", c)
		}
		return text
	}
	whole := text(func(*Command) {})
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
		"no stdin":            {text(func(c *Command) { c.Stdin = nil }) + "in", "\nran\n", 0},
		"no such directory":   {text(func(c *Command) { c.Dir = dir + "/no 'such'\ndir" }), "n\n", 126},
		"no directory":        {text(func(c *Command) { c.Dir = file }), "n\n", 126},
		"status":              {text(func(c *Command) { c.Script = "exit 7" }), "\n", 7},
		"syntax error":        {text(func(c *Command) { c.Script = "echo ran; (" }), "\n", 2},
	} {
		for _, s := range shells(t) {
			env := []string{"PATH=" + s.bin + ":" + filepath.Dir(s.cat)}
			r := s.start(t, gateScript, "/", env, test.in)
			pid, rest, _ := strings.Cut(r.Stdout, "\n")
			if name == "syntax error" { // what a shell makes of it is its own
				cold := s.start(t, "echo ran; (", "/", env, "")
				r.Stderr, test.want, test.status = "", "\n"+cold.Stdout, cold.Status
			}
			if _, err := strconv.Atoi(pid); err != nil || rest != test.want || r.Status != test.status || r.Stderr != "" {
				t.Errorf("%s, %s: it said %q, then %q and %q, status %d; want %q, %d", name, s.name, pid, rest, r.Stderr, r.Status, test.want, test.status)
			}
		}
	}
}

func TestExportable(t *testing.T) {
	for names, want := range map[string]bool{
		"A a Z z _x x_ A1 _1 LONG_name_2 PATH HOME IFS PS1 PS4 ENV CDPATH PWD OLDPWD TMOUT TERM LANG LC_ALL TZ l HISTSIZE MAPFILE REPLY OPTARG ABASH bash": true,
		"1 1A A-B A.B a+ a[0] a;b $a a$ `a` ü aü é A\u0301 \u0081 a\x00 -n ! @ * ?":                                                                        false,
		"_ UID EUID PPID GROUPS SHELLOPTS SHLVL FUNCNAME FUNCNEST DIRSTACK HISTCMD LINENO OPTIND RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME":        false,
		"COMP_WORDBREAKS POSIXLY_CORRECT BASH BASH_ENV BASHOPTS BASHPID BASH_FUNC_x%%":                                                                     false,
		// Once a bug of shellsOwn: a bash given the first finds no sh any more, and does
		// not export the second, which is an array.
		"EXECIGNORE PIPESTATUS": false,
	} {
		for _, name := range strings.Fields(names) {
			if exportable(name) != want {
				t.Errorf("%q is exportable: %v", name, !want)
			}
			c := Command{Dir: "/", Script: "x", Env: []string{"A=", name + "=b", "Z="}}
			if text, ok := delivery(c); ok != want || ok && !strings.Contains(text, " "+name+"='b'") {
				t.Errorf("%q is delivered: %v, %q", name, ok, text)
			}
		}
	}
	for _, name := range []string{"", " ", "\n", "A ", " A", "A\n", "A\tB", "A=B"} {
		if exportable(name) {
			t.Errorf("%q is exportable", name)
		}
	}
}

func TestMaxDelivery(t *testing.T) {
	long := func(n int) Command {
		return Command{Dir: "/", Script: "x", Env: []string{"A=" + strings.Repeat("x", n)}}
	}
	text, ok := delivery(long(0))
	if !ok {
		t.Fatal("goes cold")
	}
	room := maxDelivery - len(text)
	if text, ok := delivery(long(room)); !ok || len(text) != maxDelivery {
		t.Errorf("%d bytes: %v", len(text), ok)
	}
	if _, ok := delivery(long(room + 1)); ok {
		t.Error("more than the most is delivered")
	}
	quotes := Command{Dir: "/", Script: strings.Repeat("'", maxDelivery/4)}
	if _, ok := delivery(quotes); ok {
		t.Error("what is too long when quoted is delivered")
	}
}

// quietGate is a gate without a process, and the output of its command.
func quietGate() (*gate, *output) {
	o := newOutput(1<<20, OutputTruncate)
	o.begin(NoIdleTimeout)
	return &gate{in: &gateStdin{lines: make(chan []byte, 2), stop: make(chan struct{})}, words: make(chan string, 1)}, o
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
			t.Errorf("%s: heard %q, want %q", name, pid, test.pid)
		}
		(gateStderr{g}).Write([]byte("hostile"))
		write(test.between)
		if ok := tell(g, Command{Dir: "/", Script: "x"}, o); ok != (test.after != nil) {
			t.Errorf("%s: delivered: %v", name, ok)
		}
		write(test.after)
		if test.after == nil { // nor later
			write([]string{"\nhostile\n"})
			(gateStderr{g}).Write([]byte("hostile"))
		}
		if got := string(o.capture.output(stdout).Bytes()); got != test.want || g.began != test.began {
			t.Errorf("%s: %q is the command's, began %v; want %q, %v", name, got, g.began, test.want, test.began)
		}
		if got := string(o.capture.output(stderr).Bytes()); got != "" {
			t.Errorf("%s: stderr %q is the command's", name, got)
		}
		if err := g.failure(""); (err == nil) != (test.began || test.after == nil) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A gate is told one command, once.
func TestGateIsToldOnce(t *testing.T) {
	g, o := quietGate()
	c := Command{Dir: "/", Script: "x", Stdin: strings.NewReader("in")}
	text, _ := delivery(c)
	if !tell(g, c, o) || tell(g, c, o) || g.in.say([]byte("\n")) || g.in.end(nil) {
		t.Error("told twice")
	}
	got, err := io.ReadAll(g.in)
	if string(got) != text+"in" || err != nil {
		t.Errorf("told %q, %v", got, err)
	}
}

// Once the engine wants no more, nothing is told, and a Read ends.
func TestGateStdinEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, o := quietGate()
		read := make(chan error)
		go func() {
			_, err := g.in.Read(make([]byte, 1))
			read <- err
		}()
		synctest.Wait()
		for range 2 {
			if err := g.in.SetReadDeadline(time.Now()); err != nil {
				t.Error(err)
			}
		}
		if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		if tell(g, Command{Dir: "/", Script: "x"}, o) || g.in.say(nil) || g.in.end(nil) {
			t.Error("told a gate that is gone")
		}
		if g.to != nil {
			t.Error("what it says is taken for the command's")
		}
	})
}

func tell(g *gate, c Command, o *output) bool {
	text, ok := delivery(c)
	return ok && g.deliver(text, c, o)
}
