package policy

import (
	"strings"
	"testing"
)

// Where the default asks, a person who approves "curl" for longer did not see
// that PATH or an option had made it another program.
func TestTheDefaultDoesNotKnow(t *testing.T) {
	p := compile(t, CommandRules{Default: Ask, Env: []string{"GIT_PAGER"}, Rules: []CommandRule{
		rule("go", Ask, "go"), {Name: "cc", Commands: []string{"make"}, Decision: Ask, Env: []string{"CC"}},
	}})
	for script, want := range map[string]string{
		"curl x": "", "LC_ALL=C curl x": "", "FOO=1 curl x": "", "PAGER=cat curl x": "", "GIT_PAGER=less curl x": "", "git status": "",
		"go test": "", "CC=tcc make": "", // a rule allows these
		"PATH=/x curl x":            `what "curl" is where "PATH" is set`,
		"env LD_PRELOAD=x curl x":   `what "curl" is where "LD_PRELOAD" is set`,
		"nice git push":             `"git" runs git push, which may run hooks and more`,
		"python x.py":               `"python" runs a program in another language`,
		"hash -p /x/curl curl":      "*",
		"git -c alias.x='!evil' x":  "*",
		"GIT_SSH_COMMAND=x git log": `what "git" is where "GIT_SSH_COMMAND" is set`,
	} {
		v := p.Judge(script, "")
		var got []string
		for _, u := range v.Unknown {
			got = append(got, u.What)
		}
		if text := strings.Join(got, "; "); v.Decision != Ask || want == "*" && text == "" || want != "*" && text != want {
			t.Errorf("%q: %s, unknown %q, want %q", script, v.Decision, text, want)
		}
	}
}
