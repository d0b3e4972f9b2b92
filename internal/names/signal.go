package names

import (
	"slices"
	"strings"

	"belljar/sandbox"
)

// Signals are those that a command can be sent: those of kill(1) on any POSIX system
// that programs commonly act on.
func Signals() []sandbox.Signal {
	return []sandbox.Signal{"SIGHUP", "SIGINT", "SIGQUIT", "SIGABRT", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGTERM", "SIGCONT", "SIGSTOP", "SIGTSTP"}
}

// numbers are the signals that people call by number, with the same number on all
// systems (kill(1p)).
var numbers = map[string]sandbox.Signal{"1": "SIGHUP", "2": "SIGINT", "3": "SIGQUIT", "6": "SIGABRT", "9": "SIGKILL", "14": "SIGALRM", "15": "SIGTERM"}

// ParseSignal reads a signal as kill(1) does: SIGTERM, TERM, term or 15.
func ParseSignal(text string) (sandbox.Signal, error) {
	signal, numbered := numbers[text]
	if !numbered {
		signal = sandbox.Signal("SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG"))
	}
	if !slices.Contains(Signals(), signal) {
		return "", unknownSignal(text)
	}
	return signal, nil
}

// CheckSignal refuses signals that cannot be sent to a command.
func CheckSignal(s sandbox.Signal) error {
	if !slices.Contains(Signals(), s) {
		return unknownSignal(string(s))
	}
	return nil
}

func unknownSignal(text string) error {
	var list []string
	for _, s := range Signals() {
		list = append(list, string(s))
	}
	return sandbox.Invalid("one of "+strings.Join(list, ", "), "signal %.80q is unknown", text)
}
