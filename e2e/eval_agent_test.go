package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"belljar/eval/run"
	"belljar/sandbox"
)

// hostAgentScript works in its container as the task's name says, and tries what it may not.
const hostAgentScript = `#!/bin/sh
in_box() { belljar run --session "$BELLJAR_SESSION" "$@"; }
in_box "echo $(grep -c answer "$BELLJAR_INSTRUCTION") >answer; pwd; find / -name hidden.txt 2>/dev/null"
case $BELLJAR_TASK in
good)
	in_box 'sleep 4242 >/dev/null 2>&1 &'
	belljar session ls --format json | grep -o '"name": *"eval[^"]*"' | sort -u | grep -c .
	belljar run --session other true
	belljar run --session "$BELLJAR_SESSION" --image belljar/other true
	belljar session rm "$BELLJAR_SESSION"
	head -c 3000000 /dev/zero | tr '\0' x >&2
	;;
fails)
	setsid sleep 4343 &
	(setsid sh -c 'trap "" TERM; sleep 4343; :' &)
	exit 3
	;;
slow)
	trap '' TERM INT HUP
	setsid sleep 4343 & sleep 4343
	;;
esac
`

// An agent that is a program on this host works in its container and in no other. However
// it ends, nothing of it is left, and what it made is graded.
func TestEvalAgent(t *testing.T) {
	t.Parallel()
	const rest = `","instruction":"the answer is 1","answer":"answer","check":"test $(cat answer) = 1","tests":{"hidden.txt":"hidden"},"timeout":`
	e := evaluate(t, `{"id":"good`+rest+`600}`, `{"id":"fails`+rest+`600}`, `{"id":"slow`+rest+`30}`)
	e.write(t, "agent.sh", hostAgentScript)
	bin := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(bin, "belljar")); err != nil {
		t.Fatal(err)
	}
	e.env = append(e.env, "PATH="+bin+":"+os.Getenv("PATH"))
	e.run(t, 0, "run", "suite.jsonl", "--out", "out", "--jobs", "3", "--", "./agent.sh")
	if left := e.left(t, "out"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if out, _ := exec.Command("pgrep", "-af", "sleep 4343").Output(); len(out) > 0 {
		t.Errorf("processes are left: %s", out)
	}
	results := e.results(t, "out")
	for task, want := range map[string]struct {
		cause  sandbox.Cause
		notice string
	}{"good": {sandbox.CauseExited, ""}, "fails": {sandbox.CauseExited, "exit status 3, 2 of its processes still ran"}, "slow": {sandbox.CauseWallTimeout, "still running after 30s"}} {
		r := results[run.Key{Task: task, Trial: 1}]
		for _, p := range r.Phases {
			if p.Name == run.Work && p.Cause != want.cause {
				t.Errorf("%s: %s", task, p.Cause)
			}
		}
		if r.Verdict != run.Passed || !strings.Contains(strings.Join(r.Notices, "\n"), want.notice) {
			t.Errorf("%s: %s (%s), %q", task, r.Verdict, r.Message, r.Notices)
		}
		if runs := len(r.Lingering) == 1 && r.Lingering[0].Command == "sleep 4242"; runs != (task == "good") {
			t.Errorf("%s lingers: %+v", task, r.Lingering)
		}
	}
	if said := e.read(t, "out/logs/good/1/02-agent.stdout"); said != "/work\n1\n" {
		t.Errorf("the agent says %q", said)
	}
	said := e.read(t, "out/logs/good/1/02-agent.stderr")
	for _, want := range []string{"decides about the session", "decides about the image", "removes the session itself", "xxx"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in %.1000q", want, said)
		}
	}
	if len(said) > 1<<20 {
		t.Errorf("%d bytes of output are kept", len(said))
	}
}
