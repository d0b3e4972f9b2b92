package eval

import (
	"cmp"
	"fmt"

	"belljar/eval/run"
	"belljar/sandbox"
)

// outcome is a verdict and why. Without a verdict the trial goes on.
type outcome struct {
	verdict run.Verdict
	side    run.Side
	phase   run.PhaseName
	cause   sandbox.Cause
	message string
	reward  *float64
	rewards map[string]float64
}

func (s step) outcome(verdict run.Verdict, side run.Side, format string, args ...any) outcome {
	return outcome{verdict: verdict, side: side, phase: s.phase, cause: s.result.Cause, message: fmt.Sprintf(format, args...)}
}

// infrastructure is the outcome of a failure of ours or of the host's.
func infrastructure(phase run.PhaseName, err error) outcome {
	return outcome{verdict: run.Error, side: run.Infrastructure, phase: phase, cause: sandbox.CauseOf(err), message: err.Error()}
}

// fails is the outcome of a command that did not succeed, or no verdict. A command that code
// of the solution can affect is by the solution: what it says is its own doing, and
// only what the engine knows is the infrastructure's.
func (s step) fails(by run.Side) outcome {
	r, said := s.result, cmp.Or(s.result.Message, fmt.Sprintf("exit status %d", s.result.ExitCode))
	bad := run.Failed
	if by == run.ByTask {
		bad = run.Error
	}
	if s.own {
		return s.outcome(run.Failed, run.BySolution, "the container is gone, with what was in it, and the engine is there: %s", s.lost)
	}
	if s.lost != "" {
		return s.outcome(run.Error, run.Infrastructure, "the container is gone, with what was in it: %s", s.lost)
	}
	switch r.Cause {
	case sandbox.CauseExited:
		if r.ExitCode == 0 {
			return outcome{}
		}
		return s.outcome(bad, by, "%s", said)
	case sandbox.CauseSignaled, sandbox.CausePidsLimit, sandbox.CauseDiskFull, sandbox.CauseOutputLimit:
		if r.Evidence.KilledBy == "outside" {
			return s.outcome(run.Error, run.Infrastructure, "the container was ended by someone else: %s", said)
		}
		return s.outcome(bad, by, "%s", said)
	case sandbox.CauseWallTimeout, sandbox.CauseIdleTimeout:
		return s.outcome(run.Timeout, by, "%s", said)
	case sandbox.CauseOOMKilled:
		return s.outcome(run.OOM, by, "%s", said)
	case sandbox.CauseImage, sandbox.CauseInvalid:
		return s.outcome(run.Error, run.ByTask, "%s", said)
	}
	return s.outcome(run.Error, run.Infrastructure, "%s", said)
}

// said is how a command ended, and the last that it wrote to stderr.
func (s step) said() string {
	said := cmp.Or(s.result.Message, fmt.Sprintf("exit status %d", s.result.ExitCode))
	if last := lastLine(s.result.Stderr); last != "" {
		said += ": " + last
	}
	return said
}

// harness is the outcome of a step of our own that did not succeed, in a container that has
// seen no code of the solution: the task's image cannot do it, or the infrastructure.
func (s step) harness(what string) outcome {
	out := s.fails(run.ByTask)
	if out.verdict == "" {
		return out
	}
	out.message = what + ": " + out.message
	if said := lastLine(s.result.Stderr); said != "" {
		out.message += ": " + said
	}
	if out.verdict == run.Timeout || out.verdict == run.OOM {
		out.verdict = run.Error
	}
	return out
}
