package config

import (
	"strings"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/ianaindex"
)

// charset is an encoding that text can be in.
var charset = kind{
	schema: map[string]any{"type": "string", "examples": []string{"iso-8859-1", "shift_jis"}},
	tags:   []string{tagString},
	scalar: func(text, _ string) (any, *Problem) {
		if !knownCharset(text) {
			return nil, wrong("write one as IANA names it, such as iso-8859-1 or shift_jis", "%q is not a known charset", text)
		}
		return text, nil
	},
}

// knownCharset is view.KnownCharset, which a test holds it to: this package
// knows the parts' data only.
func knownCharset(name string) bool {
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case "utf-32", "utf-32le", "utf-32be":
		return true
	}
	if e, err := htmlindex.Get(name); err == nil {
		canonical, err := htmlindex.Name(e)
		return err == nil && canonical != "replacement" && canonical != "x-user-defined"
	}
	e, err := ianaindex.IANA.Encoding(name)
	return err == nil && e != nil
}
