package main

import (
	"fmt"
	"testing"
)

func TestAnswers(t *testing.T) {
	for text, want := range map[string]string{
		"y": "once true", "YES ": "once true", "": "deny true", "n": "deny true", "No": "deny true", "a": "always true", "always": "always true",
		"yy": " false", "ok": " false", "y n": " false", "\x03": " false",
	} {
		if a, ok := parseAnswer(text, true); fmt.Sprint(a, " ", ok) != want {
			t.Errorf("%q: %q, %v", text, a, ok)
		}
	}
	if _, ok := parseAnswer("a", false); ok {
		t.Error("always, where that is not offered")
	}
}
