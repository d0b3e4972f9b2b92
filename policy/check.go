package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// JudgeScript implements sandbox.Policy. Without Commands every script is allowed,
// and none is judged.
func (r Rules) JudgeScript(script, dir, shell string) Verdict {
	if r.Commands == nil {
		return Verdict{Decision: Allow, Reason: "there is no command policy, so every script is allowed"}
	}
	return r.Commands.JudgeIn(shell, script, dir)
}

// Hash implements sandbox.Policy: rules with the same effect have the same hash, and
// nothing stored under it (an approval) applies to others. The location of belljar's
// own files is not part of it.
func (r Rules) Hash() string {
	said := struct {
		Env      []string    `json:"env,omitempty"`
		Mounts   []MountRule `json:"mounts,omitempty"`
		Written  []string    `json:"written,omitempty"`
		Commands string      `json:"commands,omitempty"`
	}{Env: r.Env, Mounts: r.Mounts, Written: r.Written}
	if r.Commands != nil {
		said.Commands = cmp.Or(r.Commands.hash, "none")
	}
	hash, _ := hashJSON(said) // of strings, which are always JSON
	return hash
}

func hashJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}
