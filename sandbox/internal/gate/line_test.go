package gate

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"belljar/internal/names"
	"belljar/sandbox"

	"github.com/google/go-cmp/cmp"
)

// usable reports whether a command comes as far as to a gate.
func usable(c *sandbox.Command) bool {
	env := map[string]string{}
	for _, kv := range c.Env {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
		// What the dynamic linker obeys, cat would, too.
		if name == "" || !utf8.ValidString(kv) || strings.HasPrefix(name, "LD_") || strings.HasPrefix(name, "GLIBC_") {
			return false
		}
	}
	c.Env = nil
	for _, name := range slices.Sorted(maps.Keys(env)) {
		c.Env = append(c.Env, name+"="+env[name])
	}
	return strings.TrimSpace(c.Script) != "" && path.IsAbs(c.Dir) && utf8.ValidString(c.Dir)
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
		{"bytes", "Y", "z", "", "", "printf %s '\xff\xfe\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\xc3\n\xc3\x28\x01\x7f\x1b\r'", "\xff"},
		{"bytes", "LC_ALL", "en_US.UTF-8", "", "", "# \xff\xe2\x82\n\x80\x5c", "\xff"},
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
			*s = strings.ReplaceAll(*s, "\x00", "")
			if s != &script {
				*s = strings.ToValidUTF8(*s, "\u0081")
			}
		}
		name, other = letters(name), letters(other)
		if dir = filepath.Join(root, "d") + "/" + dir; !strings.HasPrefix(filepath.Clean(dir)+"/", root+"/d/") || os.MkdirAll(dir, 0o755) != nil {
			t.Skip("no such directory can be made")
		}
		defer os.RemoveAll(root + "/d")
		for _, s := range all {
			base := []string{"PATH=" + s.Bin, "HOSTNAME=box"}
			c := sandbox.Command{Dir: dir, Script: s.tells() + script, Shell: s.runs()}
			for _, kv := range [][2]string{{name, value}, {other, second}} {
				if kv[0] == "PATH" { // which must lead to the shell
					kv[1] = s.Bin + ":" + kv[1]
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
			text, ok := Line(c, MaxShort)
			if !ok {
				t.Skip("goes cold")
			}
			want, got := s.cold(t, c, base, in), s.warm(t, text, base, in)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s in %s, cold and warm: %s", s.runs(), s.Name, diff)
			}
			if got.Status != 3 || len(got.Args) != 3 || got.Args[2] != c.Script {
				t.Errorf("%s ran something else: %+v", s.Name, got)
			}
		}
	})
}

func TestExportable(t *testing.T) {
	for list, want := range map[string]bool{
		"A a Z z _x x_ A1 _1 LONG_name_2 PATH HOME IFS PS1 PS4 ENV CDPATH PWD OLDPWD TMOUT TERM LANG LC_ALL TZ l HISTSIZE MAPFILE REPLY OPTARG ABASH bash": true,
		"1 1A A-B A.B a+ a[0] a;b $a a$ `a` ü aü é A\u0301 \u0081 a\x00 -n ! @ * ?":                                                                        false,
		"_ UID EUID PPID GROUPS SHELLOPTS SHLVL FUNCNAME FUNCNEST DIRSTACK HISTCMD LINENO OPTIND RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME":        false,
		"COMP_WORDBREAKS POSIXLY_CORRECT BASH BASH_ENV BASHOPTS BASHPID BASH_FUNC_x%%":                                                                     false,
		// Once a bug of shellsOwn: a bash given the first finds no sh any more, and does
		// not export the second, which is an array.
		"EXECIGNORE PIPESTATUS": false,
	} {
		for _, name := range strings.Fields(list) {
			if names.Exportable(name) != want {
				t.Errorf("%q is exportable: %v", name, !want)
			}
			c := sandbox.Command{Dir: "/", Script: "x", Env: []string{"A=", name + "=b", "Z="}}
			if text, ok := Line(c, MaxShort); ok != want || ok && !strings.Contains(text, " "+name+"='b'") {
				t.Errorf("%q is delivered: %v, %q", name, ok, text)
			}
		}
	}
	for _, name := range []string{"", " ", "\n", "A ", " A", "A\n", "A\tB", "A=B"} {
		if names.Exportable(name) {
			t.Errorf("%q is exportable", name)
		}
	}
}

func TestMaxDelivery(t *testing.T) {
	long := func(n int) sandbox.Command {
		return sandbox.Command{Dir: "/", Script: "x", Env: []string{"A=" + strings.Repeat("x", n)}}
	}
	text, ok := Line(long(0), MaxShort)
	if !ok {
		t.Fatal("goes cold")
	}
	room := MaxShort - len(text)
	if text, ok := Line(long(room), MaxShort); !ok || len(text) != MaxShort {
		t.Errorf("%d bytes: %v", len(text), ok)
	}
	if _, ok := Line(long(room+1), MaxShort); ok {
		t.Error("a line over the limit is delivered")
	}
	quotes := sandbox.Command{Dir: "/", Script: strings.Repeat("'", MaxShort/4)}
	if _, ok := Line(quotes, MaxShort); ok {
		t.Error("a script that is too long when quoted is delivered")
	}
}
