package config

import (
	"testing"

	"belljar/view"
)

func TestCharsetsAreThoseOfViews(t *testing.T) {
	for name, want := range map[string]bool{
		"utf-8": true, "UTF-16": true, "utf-16be": true, "utf-32": true, "UTF-32LE": true, "us-ascii": true,
		"latin1": true, "ISO-8859-15": true, "windows-1252": true, "koi8-r": true, "macintosh": true,
		"Shift_JIS": true, "euc-jp": true, "iso-2022-jp": true, "euc-kr": true, "gbk": true, "gb18030": true, "big5": true,
		"IBM437": true, "IBM850": true, "IBM037": true,
		"iso-2022-kr": false, "hz-gb-2312": false, "replacement": false, "x-user-defined": false,
		"utf-7": false, "latin-9000": false, " ": false, "a\x00b": false,
	} {
		if got := knownCharset(name); got != want || got != view.KnownCharset(name) {
			t.Errorf("%q: %v, for views %v; want %v", name, got, view.KnownCharset(name), want)
		}
	}
}
