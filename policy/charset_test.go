package policy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// In Big5 the backslash after a character of UTF-8 is its second half for bash, so that the
// quote after it ends the text.
func TestCharsets(t *testing.T) {
	const hides = "; echo \"\u4e2d\\\"; id; #\""
	for _, shell := range []string{ShellPOSIX, ShellBash} {
		p := bundled(t, "readonly", shell)
		named := compile(t, CommandRules{Shell: shell, Env: []string{"LC_ALL", "LANG"}, Rules: []CommandRule{readFiles()}})
		globs := compile(t, CommandRules{Shell: shell, Env: []string{"LC_*", "LANG*"}, Rules: []CommandRule{readFiles()}})
		for _, sets := range strings.Split(`LC_ALL=zh_TW.BIG5¦LC_ALL='zh_TW.BIG5'¦LC_ALL="$x"¦LANG=ja_JP.SJIS¦LC_CTYPE=zh_CN.GB18030¦LC_ALL=zh_TW¦LC_ALL=chinese-t¦export LC_ALL=zh_TW.BIG5¦export LANG="$x"¦LC_ALL=zh_TW.BIG5 ls¦env LC_ALL=zh_TW.BIG5 ls¦env LC_ALL="$x" ls¦`+
			`read LC_ALL¦for LC_ALL in zh_TW.BIG5; do :; done¦: ${LC_ALL:=zh_TW.BIG5}¦readonly LC_ALL=zh_TW.BIG5¦LC_ALL=zh_TW.BIG5 eval ls¦LC_ALL=zh_TW.BIG5 sh -c ls¦LC_ALL=zh_TW@x.utf8¦LC_ALL=zh_TW.BIG5@x.utf8¦LC_ALL=/work/x.UTF-8¦LC_ALL=~/x.UTF-8`, "¦") {
			for name, p := range map[string]*CommandPolicy{"readonly": p, "with a glob": globs} {
				if v := p.Judge(sets+hides, ""); v.Decision != Deny {
					t.Errorf("%s, %s: %q is %s: %s", shell, name, sets+hides, v.Decision, v.Reason)
				}
			}
			if v := p.Judge(sets+"; ls", ""); v.Decision != Allow {
				t.Errorf("%s: %q is %s: %s", shell, sets+"; ls", v.Decision, v.Reason)
			}
		}
		for _, sets := range strings.Split(`LC_ALL=C¦LC_ALL=¦LC_ALL=POSIX¦LC_ALL=C.UTF-8¦LANG=en_US.utf8¦LC_ALL=de_DE@euro¦LC_ALL=en_US.ISO-8859-1¦LC_CTYPE=ja_JP.eucJP¦export LC_ALL=C¦export LANG="C.UTF-8"¦LC_ALL=C sort f¦env LC_ALL=C sort f¦unset LC_ALL¦LC_ALL=C cd x¦LC_COLLATE=zh_TW.BIG5¦echo $LANG`, "¦") {
			if v := p.Judge(sets+"; echo \u4e2d", ""); v.Decision != Allow {
				t.Errorf("%s: %q is %s: %s", shell, sets, v.Decision, v.Reason)
			}
			if v := named.Judge(strings.ReplaceAll(sets, "C.UTF-8", "zh_TW.BIG5")+"; echo \u4e2d", ""); v.Decision != Allow {
				t.Errorf("%s: %q is %s, though it is named: %s", shell, sets, v.Decision, v.Reason)
			}
		}
	}
	for setting, want := range map[string]bool{"LC_ALL=zh_TW.BIG5": true, "LC_ALL=zh_TW@x.UTF-8": true, "LANG=C.UTF-8": false, "LC_ALL": false, "LC_TIME=zh_TW.BIG5": false, "PATH=x": true, "STAGE=LC_ALL=zh_TW.BIG5": false} {
		if got := (Rules{}).Steers(setting); got != want {
			t.Errorf("%s: %t", setting, got)
		}
	}
}

// TestCharsetsOfBash shows that bash reads a script so.
func TestCharsetsOfBash(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("localedef", "-i", "zh_TW", "-f", "BIG5", filepath.Join(dir, "zh_TW.BIG5")).CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: %s: scripts/setup installs locales", err, out)
		}
		t.Skipf("NOT TESTED: this host cannot make a locale: %v: %s", err, out)
	}
	for locale, want := range map[string]bool{"zh_TW.BIG5": true, "zh_TW.BIG5@x.utf8": true, "C.UTF-8": false} {
		mark := filepath.Join(dir, "mark")
		cmd := exec.Command("bash", "-c", "LC_ALL="+locale+"\necho \"\u4e2d\\\"; : >mark; #\"")
		cmd.Dir, cmd.Env = dir, []string{"LOCPATH=" + dir}
		out, err := cmd.CombinedOutput()
		if _, left := os.Stat(mark); (left == nil) != want || err != nil {
			t.Errorf("%s: %v, %v: %s", locale, left, err, out)
		}
		os.Remove(mark)
	}
}
