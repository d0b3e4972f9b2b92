package sandbox

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// Check is all that is wrong with a grant, each with the field that is meant.
// Which secrets there are is not known here.
func (g Grant) Check() (wrong []error) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	for _, t := range []struct {
		name string
		d    time.Duration
	}{{"timeout", g.Timeout}, {"idle_timeout", g.IdleTimeout}} {
		if t.d != 0 && t.d < MinTimeout {
			bad("%s: %v is too short: write at least %v", t.name, t.d, MinTimeout)
		}
	}
	for _, l := range g.Limits.each() {
		if l.value != 0 && l.tooLow() {
			bad("limits.%s: %s is below the least of %s%s", l.name, decimal(l.value), decimal(l.least), l.unit)
		}
	}
	if g.Network != "" && g.Network != "none" {
		bad("network: %q: a rule can only take it away: write none", g.Network)
	}
	if g.Mounts != "" && g.Mounts != NoMounts && g.Mounts != ReadOnlyMounts {
		bad("mounts: %q: write ro or none", g.Mounts)
	}
	return wrong
}

// grantJSON is a grant's JSON. Sizes are bytes.
type grantJSON struct {
	Timeout     float64     `json:"timeout_ms,omitempty"`
	IdleTimeout float64     `json:"idle_timeout_ms,omitempty"`
	Limits      *limitsJSON `json:"limits,omitempty"`
	Network     string      `json:"network,omitempty"`
	Mounts      MountGrant  `json:"mounts,omitempty"`
	Secrets     []string    `json:"secrets,omitempty"`
}

// limitsJSON has tags that Limits must not have: by its JSON a session's
// container is told from one with other limits.
type limitsJSON struct {
	Memory int64   `json:"memory,omitempty"`
	CPUs   float64 `json:"cpus,omitempty"`
	Pids   int64   `json:"pids,omitempty"`
	Output int64   `json:"output,omitempty"`
	Tmp    int64   `json:"tmp,omitempty"`
	Files  int64   `json:"files,omitempty"`
}

// MarshalJSON leaves out what the grant says nothing of.
func (g Grant) MarshalJSON() ([]byte, error) {
	out := grantJSON{Timeout: ms(g.Timeout), IdleTimeout: ms(g.IdleTimeout), Network: g.Network, Mounts: g.Mounts, Secrets: g.Secrets}
	if g.Limits != (Limits{}) {
		limits := limitsJSON(g.Limits)
		out.Limits = &limits
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (g *Grant) UnmarshalJSON(text []byte) error {
	var in grantJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*g = Grant{Timeout: fromMS(in.Timeout), IdleTimeout: fromMS(in.IdleTimeout), Network: in.Network, Mounts: in.Mounts, Secrets: in.Secrets}
	if in.Limits != nil {
		g.Limits = Limits(*in.Limits)
	}
	return nil
}

func fromMS(ms float64) time.Duration { return time.Duration(math.Round(ms * 1e6)) }
