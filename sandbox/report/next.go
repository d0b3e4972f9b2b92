package report

import (
	"fmt"
	"time"

	"belljar/sandbox"
)

// usually is what exit codes mean by convention, where that helps: timeout(1), the
// shell's own, ssh(1). Those above 128 are signals.
var usually = map[int]string{
	124: "timeout(1) ended the program",
	125: "timeout(1), env(1) or a container tool failed itself",
	126: "the program was found but cannot be executed",
	127: "command not found",
	130: "interrupted, as by Ctrl-C",
	134: "the program aborted itself",
	137: "killed",
	139: "segmentation fault",
	141: "the reader of its output went away",
	143: "asked to terminate",
	255: "ssh(1) failed, or the program exited with -1",
}

func exitCode(r sandbox.Result) string {
	text := fmt.Sprint(r.ExitCode)
	switch why := usually[r.ExitCode]; {
	case why == "" || r.Cause == sandbox.CauseOOMKilled:
		return text
	case r.ExitCode == 137 && r.Evidence.Source == "": // else it would be known
		return text + " (usually: killed, often because memory ran out)"
	default:
		return text + " (usually: " + why + ")"
	}
}

// advice is the next step by cause, where it depends on nothing else.
var advice = map[sandbox.Cause]string{
	sandbox.CauseWallTimeout: "raise the timeout, or do the work in smaller steps",
	sandbox.CauseIdleTimeout: "if it waits for input, pass the input or use a non-interactive option; if it works silently, raise the idle timeout",
	sandbox.CauseOutputLimit: "write the output to a file, and read the part that you need",
	sandbox.CauseOOMKilled:   "use less memory, for example fewer parallel jobs, or raise limits.memory",
	sandbox.CausePidsLimit:   "start fewer processes at the same time, or raise limits.pids",
	sandbox.CauseDiskFull:    "delete files that are not needed, or raise limits.tmp",
	sandbox.CauseEngineLost:  "it is not known whether the command finished: check what it did before you run it again",
}

// Next is what the caller can do, "" where the result speaks for itself.
func Next(r sandbox.Result) string {
	switch {
	case r.Cause == sandbox.CauseDenied:
		return afterDenial(r)
	case r.Error != nil && r.Error.RetryAfter > 0:
		return fmt.Sprintf("run it again in %s or later", sandbox.FormatDuration(r.Error.RetryAfter.Round(time.Second)))
	case r.Error != nil && r.Error.Hint != "" && adviceOn(r) != "":
		return adviceOn(r) + "; " + r.Error.Hint
	case r.Error != nil && r.Error.Hint != "":
		return r.Error.Hint
	}
	return adviceOn(r)
}

// adviceOn is what depends on the cause, and on what bounds the container.
func adviceOn(r sandbox.Result) string {
	if r.Cause == sandbox.CausePidsLimit && r.Container.Limits == "no-pids" {
		return "start fewer processes at the same time, or raise podPidsLimit of the nodes' kubelets"
	}
	return advice[r.Cause]
}

// afterDenial tells three denials apart: to repeat the command is of use after one of
// them only.
func afterDenial(r sandbox.Result) string {
	by := sandbox.ByPolicy
	if r.Policy != nil {
		by = r.Policy.By
	}
	switch by {
	case sandbox.ByPerson:
		return "do not run it again: ask what to do instead"
	case sandbox.ByNobody:
		return "run it again when a person can approve it, or use a command that needs no approval"
	}
	return "do not run it again: use a command that the policy allows"
}
