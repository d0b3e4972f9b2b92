package view

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gogs/chardet"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
)

// charset is an encoding of text. UTF-8, UTF-16 and UTF-32 have no enc.
type charset struct {
	name string
	enc  encoding.Encoding
}

// KnownCharset says whether text can be declared to be in the charset of that
// name, which is one of WHATWG's labels or IANA's names, in any case.
func KnownCharset(name string) bool {
	_, ok := lookupCharset(name)
	return ok
}

// Charset implements sandbox.Viewer.
func (Viewer) Charset(name string) string {
	if c, ok := lookupCharset(name); ok {
		return c.name
	}
	return name
}

// lookupCharset prefers WHATWG's table, where latin1 means windows-1252, as
// those who say latin1 mostly do.
func lookupCharset(name string) (charset, bool) {
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case "utf-32", "utf-32le":
		return charset{name: "utf-32le"}, true
	case "utf-32be":
		return charset{name: "utf-32be"}, true
	}
	if enc, err := htmlindex.Get(name); err == nil {
		name, err := htmlindex.Name(enc)
		switch {
		case err != nil, name == "replacement", name == "x-user-defined":
			return charset{}, false // they decode to nothing readable
		case name == "utf-8", name == "utf-16le", name == "utf-16be":
			return charset{name: name}, true
		}
		return charset{name, enc}, true
	}
	enc, err := ianaindex.IANA.Encoding(name)
	if err != nil || enc == nil {
		return charset{}, false
	}
	canonical, err := ianaindex.IANA.Name(enc)
	if err != nil {
		return charset{}, false
	}
	switch canonical = strings.ToLower(canonical); canonical {
	case "utf-8", "utf-16", "utf-16le", "utf-16be":
		return lookupCharset(canonical)
	}
	return charset{canonical, enc}, true
}

const (
	// minConfidence of the detector's 100; below, it guesses.
	minConfidence = 25
	// Of the multi-byte characters in a sample of UTF-8, one in this many may be
	// invalid: a log that has a line of something else.
	maxInvalid = 5
)

// detectCharset guesses the charset of a sample that has bytes above ASCII. What
// nothing fits is UTF-8 with invalid bytes.
func detectCharset(sample []byte) charset {
	if mostlyUTF8(sample) {
		return charset{name: "utf-8"}
	}
	found, err := chardet.NewTextDetector().DetectAll(sample)
	if err != nil {
		return charset{name: "utf-8"}
	}
	// The detector's own order is that of its goroutines where two are equal.
	slices.SortFunc(found, func(a, b chardet.Result) int {
		return cmp.Or(cmp.Compare(b.Confidence, a.Confidence), cmp.Compare(a.Charset, b.Charset))
	})
	for _, f := range found {
		if f.Confidence < minConfidence || !asciiBased(f.Charset) {
			continue
		}
		if c, ok := lookupCharset(f.Charset); ok && decodes(c, sample) {
			return c
		}
	}
	return charset{name: "utf-8"}
}

// asciiBased leaves out what a sample cannot be: EBCDIC, and UTF-16 and UTF-32,
// which the sniffer knows; and ISO-2022, whose escape sequences would turn the
// rest of an output into something else than the terminal shows.
func asciiBased(name string) bool {
	name = strings.ToUpper(name)
	return !strings.HasPrefix(name, "UTF-") && !strings.HasPrefix(name, "IBM") && !strings.HasPrefix(name, "ISO-2022")
}

func mostlyUTF8(sample []byte) bool {
	valid, invalid := 0, 0
	for i := 0; i < len(sample); {
		if sample[i] < utf8.RuneSelf {
			i++
			continue
		}
		if !utf8.FullRune(sample[i:]) {
			break // its rest is not in the sample
		}
		r, size := utf8.DecodeRune(sample[i:])
		if r == utf8.RuneError && size == 1 {
			invalid++
		} else {
			valid++
		}
		i += size
	}
	return invalid*maxInvalid <= valid
}

// decodes says whether a sample is text in a charset.
func decodes(c charset, sample []byte) bool {
	fits := true
	newDecoder(c).decode(sample, false, func(r rune, _ weight) {
		if r == utf8.RuneError || r >= 0x80 && r < 0xA0 {
			fits = false
		}
	})
	return fits
}
