package local

import (
	"errors"

	"belljar/sandbox"
)

// narrowed is the policy with a command's own rules, which only take away.
func narrowed(p sandbox.Policy, by sandbox.Rules) (sandbox.Policy, error) {
	if len(by.Allow) == 0 && len(by.Deny) == 0 && by.Set == "" {
		return p, nil
	}
	n, ok := p.(sandbox.Narrower)
	if !ok {
		return nil, sandbox.Invalid("leave them out, or give the profile a policy", "a command has rules of its own, but its profile has no policy that they can narrow")
	}
	return n.Narrow(by)
}

// judgment is a verdict for the result, and what was answered where it asks.
func judgment(v sandbox.Verdict, a *sandbox.Approval) *sandbox.Judgment {
	j := &sandbox.Judgment{Decision: v.Decision, By: sandbox.ByPolicy, Rule: v.Rule, Reason: v.Reason}
	switch {
	case a == nil:
	case a.By == nobody.By:
		j.By = sandbox.ByNobody
	default:
		j.By, j.Approval = sandbox.ByPerson, a
	}
	return j
}

// judged is a refusal with the judgment behind it, if it is a denial.
func judged(refusal error, v sandbox.Verdict, a *sandbox.Approval) error {
	e, ok := errors.AsType[*sandbox.Error](refusal)
	if !ok || e.Cause != sandbox.CauseDenied {
		return refusal
	}
	with := *e
	with.Judgment = judgment(v, a)
	return &with
}
