package sandbox

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// plainForms are what a value looks like in output, byte for byte: itself, its
// longer lines, and as programs escape it in JSON.
func plainForms(value string) []string {
	forms := []string{value, jsonEscaped(value, true), jsonEscaped(value, false)}
	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minSecret {
				forms = append(forms, line)
			}
		}
	}
	return forms
}

// jsonEscaped is what stands between the quotes.
func jsonEscaped(value string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	e.Encode(value) // a string always marshals
	return b.String()[1 : b.Len()-2]
}

// base64Forms are what the value alone decides of its base64, for each place
// that it can have among three bytes: whatever is before and after it.
func base64Forms(value string) (forms []string) {
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

// urlForm is a value with all escapes undone.
func urlForm(value string) string {
	return strings.ReplaceAll(value, " ", "+")
}

// urlByte makes one of the two blanks: + is one in a query, and a plus in a path.
func urlByte(b byte) byte {
	if b == ' ' {
		return '+'
	}
	return b
}
