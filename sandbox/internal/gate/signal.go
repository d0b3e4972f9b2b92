package gate

// signals are Linux's on amd64 and arm64, by number from 1.
var signals = [...]string{"", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM",
	"STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS"}

// SignalName is "" for a number that is no signal's. The names are the
// container's, so the host's package syscall does not know them.
func SignalName(n int) string {
	if n < 1 || n >= len(signals) {
		return ""
	}
	return "SIG" + signals[n]
}
