package sandbox

import (
	"encoding/base64"
	"slices"
	"strings"
)

// core is what there is of a value where the blanks around it are cut off: where
// that is masked, so is the whole.
func core(value string) string {
	if trimmed := strings.TrimSpace(value); len(trimmed) >= minSecret {
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
	forms := []string{value, unix, strings.ReplaceAll(unix, "\n", "\r\n")}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// plainForms are what a value looks like in output, byte for byte: itself, its
// longer lines, and as programs escape it in HTML and quote it for a shell.
func plainForms(value string) []string {
	forms := lineForms(value)
	if len(forms) > 1 {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minSecret {
				forms = append(forms, line)
			}
		}
	}
	if strings.ContainsAny(value, "&<>\"'") {
		for _, escapes := range markup {
			forms = append(forms, escapes.Replace(core(value)))
		}
		for _, quote := range []string{`'\''`, `'"'"'`} {
			forms = append(forms, strings.ReplaceAll(core(value), "'", quote))
		}
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// markup are the ways in which programs escape text in XML and HTML: that of text
// alone, that of serializers of XML, JavaScript's, Go's, Python's and PHP's.
var markup = []*strings.Replacer{
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;"),
	strings.NewReplacer("&", "&amp;", "<", "&lt;"),
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;"),
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;"),
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;"),
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;"),
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#x27;"),
	strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#039;"),
}

// base64Forms are what the value alone decides of its base64, for each place
// that it can have among three bytes: whatever is before and after it.
func base64Forms(value string) (forms []string) {
	value = core(value)
	for before := range 3 {
		all := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
		first, end := (8*before+5)/6, 8*(before+len(value))/6
		forms = append(forms, all[first:end])
	}
	return forms
}

// base64Byte makes one of the two alphabets.
func base64Byte(b byte) byte {
	switch b {
	case '-':
		return '+'
	case '_':
		return '/'
	}
	return b
}

// urlForms are a value with all escapes undone.
func urlForms(value string) []string {
	forms := lineForms(value)
	for i := range forms {
		forms[i] = strings.ReplaceAll(forms[i], " ", "+")
	}
	return forms
}

// urlByte makes one of the two blanks: + is one in a query, and a plus in a path.
func urlByte(b byte) byte {
	if b == ' ' {
		return '+'
	}
	return b
}

// slashForms are so, too.
func slashForms(value string) []string { return lineForms(value) }

func sameByte(b byte) byte { return b }
