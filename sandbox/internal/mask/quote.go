package mask

import (
	"belljar/internal/lazyregexp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoteForms are the forms of a value in programs that have one way to quote: quotes
// doubled, as in CSV and SQL, or escaped by other quotes, as in shells, or as coreutils
// and cat -v print it.
func quoteForms(value string) (forms []string) {
	for _, quote := range []string{`""`, `''`, "``"} {
		forms = append(forms, strings.ReplaceAll(value, quote[:1], quote))
	}
	for _, quote := range []string{`'\''`, `'"'"'`} {
		forms = append(forms, strings.ReplaceAll(value, "'", quote))
	}
	// dash quotes several at once, and leaves no quote open at the end.
	dash := quotes.Get().ReplaceAllStringFunc(value, func(run string) string { return `'"` + run + `"'` })
	if strings.HasSuffix(value, "'") {
		dash = strings.TrimSuffix(dash, "'")
	}
	forms = append(forms, dash, coreutils(value, false), coreutils(value, true), caret(value, false), caret(value, true))
	for _, shown := range []rune{utf8.MaxRune, 0x2ff, '~'} {
		forms = append(forms, questions(value, shown))
	}
	return append(forms, mojibake(value))
}

// questions is a value as git and ls show it: git's messages have a question mark for
// each control character, and ls also one for all bytes after some character.
func questions(value string, shown rune) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && (r != '\n' && r != '\t' || shown < utf8.MaxRune) || r > shown {
			return '?'
		}
		return r
	}, value)
}

// mojibake is a value whose bytes were read as Latin-1 characters.
func mojibake(value string) string {
	var out []byte
	for _, b := range []byte(value) {
		out = utf8.AppendRune(out, rune(b))
	}
	return string(out)
}

var quotes = lazyregexp.New(`'+`)

// coreutils is the text between the quotes in "ls: cannot access 'x'": characters that
// cannot be printed have their own quotes, $'\001'. In the C locale these are all
// that are not ASCII.
func coreutils(value string, inC bool) string {
	var b strings.Builder
	special := false
	for len(value) > 0 {
		r, n := utf8.DecodeRuneInString(value)
		shown := r != utf8.RuneError && unicode.IsPrint(r) && (r < utf8.RuneSelf || !inC)
		if special == shown && r != '\'' {
			b.WriteString(map[bool]string{true: "''", false: "'$'"}[shown])
			special = !shown
		}
		switch i := strings.IndexByte("\a\b\t\n\v\f\r", value[0]); {
		case r == '\'':
			b.WriteString(`'\''`)
			special = false
		case shown:
			b.WriteString(value[:n])
		case i >= 0:
			b.WriteString(`\` + "abtnvfr"[i:i+1])
		default:
			for _, c := range []byte(value[:n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		value = value[n:]
	}
	return strings.TrimPrefix(b.String(), "'$'") // which is left out at the beginning
}

// caret is the output of cat -v and, with tabs, cat -t.
func caret(value string, tabs bool) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if c >= utf8.RuneSelf {
			b.WriteString("M-")
			c -= utf8.RuneSelf
		} else if c == '\n' || c == '\t' && !tabs {
			b.WriteByte(c)
			continue
		}
		if c < ' ' || c == 0x7f {
			b.WriteString("^")
			c ^= 0x40
		}
		b.WriteByte(c)
	}
	return b.String()
}

// nestedForms are a value encoded once, to be found in text that is encoded
// again: as JSON with few or many escapes or for HTML, and as HTML.
func nestedForms(value string) []string {
	html := markup.Replace(value)
	return []string{
		mojibake(value), inJSON(value, ""), inJSON(value, "&<>"), inJSON(value, ascii),
		html, strings.ReplaceAll(html, "&#39;", "'"), strings.ReplaceAll(html, "&#39;", "&apos;"),
	}
}

var (
	markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")
	short  = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\b", `\b`, "\f", `\f`)
)

// ascii makes inJSON escape all characters that are not ASCII.
const ascii = "\x7f"

// inJSON is a value in JSON by an encoder that also escapes these characters,
// or all that are not ASCII.
func inJSON(value, also string) string {
	var b strings.Builder
	for _, r := range value {
		switch s := short.Replace(string(r)); {
		case r > 0xffff && also == ascii:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case len(s) == 1 && r < ' ', strings.ContainsRune(also, r), r >= utf8.RuneSelf && also == ascii:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s)
		}
	}
	return b.String()
}
