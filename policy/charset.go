package policy

import (
	"slices"
	"strings"

	"belljar/internal/lazyregexp"
)

// In some charsets the second byte of a character may be an ASCII one: after a locale with
// Big5, GBK or Shift JIS is set, bash takes the backslash in `"é\"; id; \""` for a part of the
// character before it, and so do sed and others. A script of ASCII only has no such characters.

// charsetVariables choose the charset.
var charsetVariables = []string{"LC_ALL", "LC_CTYPE", "LANG"}

// plainLocale matches locales without such characters: a Chinese one without a charset may have them.
var plainLocale = lazyregexp.New(`^(|C|POSIX|([^.@/~]*\.(?i:utf-?8|iso-?8859-?[0-9]+|euc-?(jp|kr|cn|tw))|([a-y][a-z]|z[a-gi-z])_[A-Z]{2})(@[a-z]+)?)$`)

// choosesCharset is why a setting is refused that plainLocale does not match.
const choosesCharset = "may choose a charset in which the script is another one (use C.UTF-8)"

// changesCharset reports whether a variable of that value, if it is known, may choose a
// charset in which the script is another one.
func (j *judge) changesCharset(name, value string, known bool) bool {
	return j.wide && slices.Contains(charsetVariables, name) && (!known || !plainLocale.MatchString(value))
}

// isWide reports whether a text has bytes that some charset joins with the next one.
func isWide(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r > 0x7f })
}

// setting is how a variable that a command is given is listed: by its name, or with its value
// if that may choose another charset, which only a rule that names the variable allows.
func (j *judge) setting(name, value string, known bool) string {
	if j.changesCharset(name, value, known) {
		return name + "=" + value
	}
	return name
}

// nameOf is the variable's name in a setting.
func nameOf(setting string) string {
	name, _, _ := strings.Cut(setting, "=")
	return name
}
