package main

import (
	"strconv"
	"strings"
	"unicode"
)

// printable makes text from outside safe to show a person: what a terminal
// would act on, or would show as something else, becomes visible.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default: // controls, C1, bidi overrides, private use, invalid bytes
			b.WriteString(strings.Trim(quoteRune(r), "'"))
		}
	}
	return b.String()
}

func quoteRune(r rune) string { return strconv.QuoteRuneToASCII(r) }

// oneLine is printable text that stays on its line and in its column.
func oneLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(printable(text))
}
