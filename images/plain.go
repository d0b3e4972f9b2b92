package images

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/docker/docker/pkg/jsonmessage"
)

// printable is a character as it is shown on terminals, which others' control characters
// do not reach.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}

// printableText also keeps lines and columns.
func printableText(r rune) rune {
	if r == '\n' || r == '\t' {
		return r
	}
	return printable(r)
}

// plainWriter shows what a tool says. Characters may come in parts.
type plainWriter struct {
	to   io.Writer
	rest []byte
}

func (w *plainWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	var text []byte
	for utf8.FullRune(w.rest) {
		r, size := utf8.DecodeRune(w.rest)
		text, w.rest = utf8.AppendRune(text, printableText(r)), w.rest[size:]
	}
	if _, err := w.to.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plainMessages are an engine's messages, in whose texts are also those of an image's or a
// registry's. The bars that they become have control characters, so that these cannot be
// replaced later.
func plainMessages(stream io.Reader) io.Reader {
	var ready bytes.Buffer
	in, out := json.NewDecoder(stream), json.NewEncoder(&ready)
	return readerFunc(func(p []byte) (int, error) {
		for ready.Len() == 0 {
			var m jsonmessage.JSONMessage
			if err := in.Decode(&m); err != nil {
				return 0, err
			}
			for _, text := range []*string{&m.Stream, &m.Status, &m.ProgressMessage, &m.ID, &m.From} { //nolint:staticcheck // engines send it, and it is shown
				*text = strings.Map(printableText, *text)
			}
			if m.Progress != nil {
				m.Progress.Units = strings.Map(printable, m.Progress.Units)
			}
			if err := out.Encode(m); err != nil {
				return 0, err
			}
		}
		return ready.Read(p)
	})
}
