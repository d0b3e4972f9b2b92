package mask

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"
)

// core is a value without the blanks around it: if it
// is masked, so is the value.
func core(value string) string {
	if trimmed := strings.TrimSpace(value); len(trimmed) >= MinSecret {
		return trimmed
	}
	return value
}

// lineForms are a value with either line end.
func lineForms(value string) []string {
	value = core(value)
	if !strings.Contains(value, "\n") {
		return []string{value}
	}
	unix := strings.ReplaceAll(value, "\r\n", "\n")
	return longForms([]string{value, unix, strings.ReplaceAll(unix, "\n", "\r\n")})
}

// lines are a value's, if it has several, without the blanks around them.
func lines(value string) (list []string) {
	if strings.Contains(core(value), "\n") {
		for line := range strings.Lines(value) {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// longForms are those that are long enough to be masked, without duplicates.
func longForms(forms []string) []string {
	slices.Sort(forms)
	return slices.DeleteFunc(slices.Compact(forms), func(form string) bool { return len(form) < MinSecret })
}

// plainForms are how a value appears in output, byte for byte: itself, its
// longer lines, its words joined by single blanks as in the shell, and as
// programs quote it.
func plainForms(value string) []string {
	forms := append(lineForms(value), lines(value)...)
	words := strings.Join(strings.Fields(value), " ")
	for _, form := range longForms(append(forms, words)) {
		forms = append(append(forms, form), quoteForms(form)...)
	}
	return longForms(append(forms, arithmeticForms(words)...))
}

// base64Forms are the part of a value's base64 that depends only on the value, for each
// offset modulo three bytes, independent of the text around it.
func base64Forms(value string) (forms []string) {
	value = core(value)
	for before := range 3 {
		all := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
		first, end := (8*before+5)/6, 8*(before+len(value))/6
		forms = append(forms, all[first:end])
	}
	return forms
}

// base64Byte maps both alphabets to one.
func base64Byte(b byte) byte {
	switch b {
	case '-':
		return '+'
	case '_':
		return '/'
	}
	return b
}

// maxNested is the longest value, in bytes, that is also searched for encoded
// twice, or with its own escapes decoded.
const maxNested = 4 << 10

// codedForms are the possible forms of a value after one decoding: itself, or
// encoded another way.
func codedForms(value string) []string {
	forms := lineForms(value)
	if value = core(value); len(value) <= maxNested {
		forms = append(forms, nestedForms(value)...)
	}
	return longForms(forms)
}

// urlForms are a value with all escapes decoded, including its own. Some
// programs write characters up to U+00FF as single bytes.
func urlForms(value string) []string {
	forms := codedForms(value)
	for i, form := range forms {
		forms[i] = strings.ReplaceAll(undone(form, urlEscape), " ", "+")
		forms = append(forms, latin1(forms[i]))
	}
	return longForms(forms)
}

// urlByte maps both blanks to one: + is a blank in a query, and a plus in a path.
func urlByte(b byte) byte {
	if b == ' ' {
		return '+'
	}
	return b
}

// slashForms do the same for backslashes. sed -n l writes each line separately.
func slashForms(value string) []string {
	forms := append(codedForms(value), lines(value)...)
	if len(value) <= maxNested {
		forms = append(forms, quoteForms(core(value))...)
	}
	for i, form := range forms {
		form = strings.ReplaceAll(strings.TrimRight(form, `\`), "\\\n", "\n") // lines that do not continue
		forms[i] = undone(form, slashEscape)
		forms = append(forms, latin1(forms[i]), undone(latin1(form), slashEscape))
	}
	return longForms(forms)
}

// markForms do the same for HTML. Go's encoder replaces characters that XML cannot have.
func markForms(value string) []string {
	cleaned := strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, core(value))
	return longForms(append(codedForms(value), cleaned))
}

// undone is a value with its own escapes decoded.
func undone(value string, e escape) string {
	var out []byte
	for p := []byte(value); len(p) > 0; {
		n := 1
		if p[0] == e.first {
			n, out = e.decode(out, p, true)
		} else {
			out = append(out, p[0])
		}
		p = p[n:]
	}
	return string(out)
}

func latin1(value string) string {
	var out []byte
	for _, r := range value {
		if r >= utf8.RuneSelf && r <= 0xff {
			out = append(out, byte(r))
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

func sameByte(b byte) byte { return b }
