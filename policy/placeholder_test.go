package policy

import (
	"strings"
	"testing"
)

// Text in single quotes is an argument of any bytes, which is not parsed;
// elsewhere such bytes are denied.
func TestUnreadableBytes(t *testing.T) {
	reads := bundled(t, "readonly", ShellPOSIX)
	long := "'" + strings.Repeat(strings.Repeat("x", 60)+"'\\''y", 2_000) + "' "
	for script, want := range map[string]Decision{
		"printf %s 'a\nb'":                                 Allow,
		"printf %s 'a\xffb'":                               Allow,
		"printf %s '\r\n\x1b\x7f\x01\u202e\u0085'":         Allow,
		"printf %s 'a\xff'; ls":                            Allow,
		"grep 'a\xff' /etc/passwd":                         Allow,
		"cat \"$(printf %s '\xff')\"":                      Allow,
		"cat 'a\xff' | head -n 1":                          Allow,
		"printf %s " + long + long:                         Allow,
		"'printf' %s " + strings.Repeat("'x\xff' ", 2_000): Allow,

		"printf %s a\xffb":                         Deny,
		"printf %s \"a\x1bb\"":                     Deny,
		"printf %s 'a'\x1b":                        Deny,
		"printf %s $'a\x1b'":                       Deny,
		"ls # it's \xff\nls 'x'":                   Deny,
		"cat <<'X'\n'\xff'\nX":                     Deny,
		"rm 'a\xff'":                               Deny,
		"'\xff' x":                                 Deny,
		"l's\xff'":                                 Deny,
		"sed '1e\rid' f":                           Deny,
		"sed '1e\xffid' f":                         Deny,
		"awk 'BEGIN{system(\"id\")} # \xff' f":     Deny,
		"sh -c 'ls \xff'":                          Deny,
		"sh -c 'ls \r'":                            Deny,
		"eval 'ls \xff'":                           Deny,
		"find . '-delete\x01'":                     Deny,
		"find . '\xff-delete'":                     Deny,
		"sort '-o\xff' f":                          Deny,
		"cat f >'a\xff'":                           Deny,
		"printf %s " + long + long + ">f":          Deny,
		"printf %s " + strings.Repeat("$x", 1<<17): Deny,
		"sh -c " + long + long:                     Deny,
		"printf %s '" + strings.Repeat("x", 1<<18): Deny,
	} {
		if v := reads.Judge(script, "/work"); v.Decision != want {
			t.Errorf("%q: %v: %s", script[:min(len(script), 60)], v.Decision, v.Reason)
		}
	}
}

// Denied text is shown as it was given.
func TestUnreadableSpan(t *testing.T) {
	if v := bundled(t, "readonly", ShellPOSIX).Judge("ls 'a\xffb'\nls \x1b", ""); v.Reason != "the script contains the control character U+001B" || v.Span != (Span{Start: 12, End: 13, Line: 2, Column: 4}) {
		t.Errorf("%+v", v)
	}
}
