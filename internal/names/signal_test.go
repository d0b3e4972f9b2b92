package names_test

import (
	"testing"

	"belljar/internal/names"
	"belljar/sandbox"
)

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]sandbox.Signal{
		"SIGTERM": "SIGTERM", "TERM": "SIGTERM", "term": "SIGTERM", "sigusr1": "SIGUSR1", "15": "SIGTERM", "9": "SIGKILL", "1": "SIGHUP",
		"": "", "SIG": "", "SIGSIGTERM": "", "SEGV": "", "0": "", "-9": "", "10": "", "SIG TERM": "", "SIGRTMIN": "", "99": "",
	} {
		got, err := names.ParseSignal(text)
		if got != want || (err == nil) != (want != "") || want == "" && sandbox.CauseOf(err) != sandbox.CauseInvalid {
			t.Errorf("%q: %q, error %v, want %q", text, got, err, want)
		}
	}
	for _, s := range names.Signals() {
		if err := names.CheckSignal(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []sandbox.Signal{"", "TERM", "sigterm", "15"} {
		if sandbox.CauseOf(names.CheckSignal(s)) != sandbox.CauseInvalid {
			t.Errorf("%q is a signal", s)
		}
	}
}
