package sandboxtest

import (
	"context"
	"errors"
	"strings"
	"time"

	"belljar/sandbox"
)

// Behind is what the Runner of a test has behind it. Its JSON form is whole, so
// that the Runner's other half may be in another process.
type Behind struct {
	Profile   sandbox.Profile // without its policy, which is Judge's
	Admission sandbox.Admission
	Fault     FaultName
	Answer    sandbox.Answer // of whoever is asked; "" never answers
}

// FaultName says what goes wrong in the engine.
type FaultName string

// The faults. The empty one is none.
const (
	CreateFails FaultName = "create fails"
	CreateHangs FaultName = "create hangs"
	ExecHangs   FaultName = "exec hangs"
	ImageFails  FaultName = "image fails"
	ImageHangs  FaultName = "image hangs"
)

// Engine plays the scripts of the suites.
func (b Behind) Engine() *Engine {
	switch b.Fault {
	case CreateFails:
		return &Engine{OnCreate: Fail(&sandbox.Error{Cause: sandbox.CauseEngine, Message: "creating the container", Err: errors.New("no space left"), Hint: "make room"})}
	case CreateHangs:
		return &Engine{OnCreate: Hang}
	case ExecHangs:
		return &Engine{OnExec: Hang}
	}
	return &Engine{}
}

// Images has every image, but for the faults.
func (b Behind) Images() *Images {
	switch b.Fault {
	case ImageFails:
		return &Images{OnResolve: Fail(&sandbox.Error{Cause: sandbox.CauseImage, Message: "there is no such image", Hint: "pull it"})}
	case ImageHangs:
		return &Images{OnResolve: Hang}
	}
	return &Images{}
}

// Profiles are the Runner's: there is one.
func (b Behind) Profiles() map[string]sandbox.Profile {
	p := b.Profile
	p.Policy = Judge{}
	return map[string]sandbox.Profile{sandbox.DefaultProfile: p}
}

// Spooling keeps outputs for as long as a test takes.
func (b Behind) Spooling() sandbox.Spooling {
	return sandbox.Spooling{Total: 1 << 30, Age: time.Hour}
}

// Judge is a policy: it denies what is to echo "denied", asks about what is to
// echo "asked", and allows no mount and one variable.
type Judge struct{}

// AllowEnv implements sandbox.Policy.
func (Judge) AllowEnv(name string) bool { return name == "ALLOWED" }

// Steers implements sandbox.Policy.
func (Judge) Steers(string) bool { return false }

// CheckMount implements sandbox.Policy.
func (Judge) CheckMount(m sandbox.Mount) error {
	return &sandbox.Error{Cause: sandbox.CauseDenied, Message: "mount of " + m.Source, Hint: "there are none here"}
}

// Writable implements sandbox.Policy.
func (Judge) Writable(string) bool { return false }

// Hash implements sandbox.Policy.
func (Judge) Hash() string { return "judge" }

// JudgeScript implements sandbox.Policy.
func (Judge) JudgeScript(script, _, _ string) sandbox.Verdict {
	v := sandbox.Verdict{Decision: sandbox.Allow, Span: sandbox.ScriptSpan{End: len(script), Line: 1, Column: 1}}
	switch {
	case strings.HasPrefix(script, scriptDenied):
		v.Decision, v.Rule, v.Reason = sandbox.Deny, "no", "it may not be said"
	case strings.HasPrefix(script, scriptAsked):
		v.Decision, v.Rule, v.Reason = sandbox.Ask, "perhaps", "it may be said by some"
	}
	return v
}

// Approver gives the answer.
func (b Behind) Approver() sandbox.Approver { return answering(b.Answer) }

type answering sandbox.Answer

// Approve implements sandbox.Approver.
func (a answering) Approve(ctx context.Context, _ sandbox.Question) (sandbox.Approval, error) {
	if a == "" {
		<-ctx.Done()
		return sandbox.Approval{}, ctx.Err()
	}
	return sandbox.Approval{Answer: sandbox.Answer(a), By: "suite"}, nil
}
