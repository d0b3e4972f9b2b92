package report

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"belljar/sandbox"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

func out(text string) sandbox.Output {
	return sandbox.Output{Head: []byte(text), Total: int64(len(text)), Lines: int64(strings.Count(text, "\n"))}
}

// result is one of a command that ran in a container, changed by change.
func result(change func(*sandbox.Result)) sandbox.Result {
	r := sandbox.Result{
		ID: "01KAJ2M4T5R7ZQ", Command: "make test", Dir: "/work", Profile: "default", Status: sandbox.StatusSuccess, Cause: sandbox.CauseExited,
		Evidence: sandbox.Evidence{Source: "cgroup"}, Timing: sandbox.Timing{Total: 1234 * time.Millisecond},
	}
	change(&r)
	return r
}

func failed(code int, change func(*sandbox.Result)) sandbox.Result {
	return result(func(r *sandbox.Result) {
		r.Status, r.ExitCode = sandbox.StatusError, code
		change(r)
	})
}

func ended(status sandbox.Status, cause sandbox.Cause, message string, change func(*sandbox.Result)) sandbox.Result {
	return result(func(r *sandbox.Result) {
		r.Status, r.Cause, r.Message, r.ExitCode = status, cause, message, sandbox.ExitEnded
		r.Evidence.KilledBy = "belljar"
		change(r)
	})
}

func refused(err error) sandbox.Result {
	return sandbox.Refused(sandbox.Command{ID: "01KAJ2M4T5R7ZQ", Script: "git push origin main", Dir: "/work", Profile: "default"}, err)
}

func denied(message string, j sandbox.Judgment) sandbox.Result {
	return refused(&sandbox.Error{Cause: sandbox.CauseDenied, Message: message, Hint: "`belljar policy explain SCRIPT` shows where", Judgment: &j})
}

var situations = map[string]sandbox.Result{
	"success": result(func(r *sandbox.Result) { r.Stdout = out("ok  \tbelljar/view\t0.21s\n") }),
	"no_output": result(func(r *sandbox.Result) {
		r.Command, r.Description, r.Session = "mkdir -p build", "make room for the build", "dev"
	}),
	"failed": failed(2, func(r *sandbox.Result) {
		r.Stdout, r.Stderr = out("cc -c x.c\n"), out("x.c:3: error: expected ';'\nmake: *** [x.o] Error 1\n")
	}),
	"several_lines": failed(1, func(r *sandbox.Result) {
		r.Command = "set -e\ncd src\nExit code: 0\ngo vet ./...\n"
		r.Stderr = out("vet: x.go:1: expected package\n")
	}),
	"not_found":      failed(127, func(r *sandbox.Result) { r.Command, r.Stderr = "rg foo", out("sh: rg: not found\n") }),
	"not_executable": failed(126, func(r *sandbox.Result) { r.Command, r.Stderr = "./run", out("sh: ./run: Permission denied\n") }),
	"timeout_1":      failed(124, func(r *sandbox.Result) { r.Command = "timeout 5 npm test" }),
	"signal": failed(143, func(r *sandbox.Result) {
		r.Cause, r.Signal, r.Message = sandbox.CauseSignaled, "SIGTERM", "ended with SIGTERM"
	}),
	"killed_from_outside": failed(137, func(r *sandbox.Result) {
		r.Cause, r.Signal, r.Message = sandbox.CauseSignaled, "SIGKILL", "killed with its container by something other than belljar"
		r.Evidence.KilledBy = "outside"
	}),
	"out_of_memory": failed(137, func(r *sandbox.Result) {
		r.Cause, r.Signal, r.Message = sandbox.CauseOOMKilled, "SIGKILL", "out of memory (limits.memory is 64 MiB)"
		r.Evidence.OOMKills, r.Evidence.KilledBy = 1, "oom"
		r.Stdout = out("linking\n")
	}),
	"pids_limit": failed(1, func(r *sandbox.Result) {
		r.Cause, r.Message = sandbox.CausePidsLimit, "exit status 1, 12 forks failed (limits.pids is 128)"
		r.Stderr = out("sh: can't fork: Resource temporarily unavailable\n")
	}),
	"pids_limit_of_a_node": failed(1, func(r *sandbox.Result) {
		r.Cause, r.Message = sandbox.CausePidsLimit, "exit status 1, 12 forks failed (podPidsLimit of the node's kubelet)"
		r.Container.Limits = "no-pids"
	}),
	"disk_full": failed(1, func(r *sandbox.Result) {
		r.Cause, r.Message = sandbox.CauseDiskFull, "exit status 1, /work is full (limits.tmp is 64 MiB)"
		r.Stderr = out("cp: write error: No space left on device\n")
	}),
	"idle_timeout": ended(sandbox.StatusTimeout, sandbox.CauseIdleTimeout, "no output for 3m (idle timeout); partial output kept", func(r *sandbox.Result) {
		r.Command, r.Stdout = "npm init", out("package name: (work) ")
		r.Lingering = []sandbox.Process{{PID: 7, PGID: 7, Command: "npm init"}, {PID: 19, PGID: 7, Command: "node /usr/bin/npm init"}}
	}),
	"timeout_in_a_session": ended(sandbox.StatusTimeout, sandbox.CauseWallTimeout, "still running after 10m (timeout); partial output kept", func(r *sandbox.Result) {
		r.Session = "dev"
		r.Lingering = []sandbox.Process{{PID: 31, PGID: 31, Command: "python3 -m http.server", CommandID: "01KAJ2M4T5AAAA"}}
		r.Evidence.Killed = []sandbox.Process{{PID: 40, PGID: 40, Command: "make test", CommandID: "01KAJ2M4T5R7ZQ"}}
	}),
	"session_lost": ended(sandbox.StatusTimeout, sandbox.CauseWallTimeout, "still running after 10m (timeout); partial output kept", func(r *sandbox.Result) {
		r.Session, r.SessionLost = "dev", "command 01KAJ2M4T5R7ZQ: still running after 10m (timeout)"
	}),
	"output_limit": ended(sandbox.StatusError, sandbox.CauseOutputLimit, "more than 1 MiB of output (limits.output); the first 1 MiB kept", func(r *sandbox.Result) {
		r.Command = "yes"
		r.Views = &sandbox.Views{Merged: &sandbox.Text{Text: "y\ny\n[… 1048572 bytes, 524286 lines left out …]\n", OmittedBytes: 1048572, OmittedLines: 524286, Charset: "utf-8"}}
	}),
	"canceled":      ended(sandbox.StatusCanceled, sandbox.CauseCanceled, "canceled by the caller; partial output kept", func(r *sandbox.Result) { r.Stdout = out("1\n2\n") }),
	"denied":        denied(`denied by policy: rule "no-push" at 1:1, "git push origin main": a person pushes`, sandbox.Judgment{By: sandbox.ByPolicy, Rule: "no-push"}),
	"not_approved":  denied(`not approved: rule "push" at 1:1, "git push origin main"`, sandbox.Judgment{By: sandbox.ByPerson, Rule: "push", Approval: &sandbox.Approval{Answer: sandbox.AnswerDeny, By: "terminal"}}),
	"nobody_to_ask": denied(`policy requires approval, but no one is available to ask: rule "push" at 1:1`, sandbox.Judgment{By: sandbox.ByNobody, Rule: "push"}),
	"busy":          refused(&sandbox.Error{Cause: sandbox.CauseBusy, Message: "busy: 32 commands run and 256 wait", Hint: "retry after 5s", RetryAfter: 5 * time.Second}),
	"no_image":      refused(&sandbox.Error{Cause: sandbox.CauseImage, Message: `image "nosuch" is not here`, Hint: "belljar images pull nosuch"}),
	"engine_lost": result(func(r *sandbox.Result) {
		r.Stdout = out("step 1\n")
		r.Fail(&sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "the connection to the engine broke", Hint: "belljar doctor"})
	}),
	"binary": result(func(r *sandbox.Result) {
		r.Command, r.Stdout = "cat logo.png", out("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02\x80\x00\x00\x01\xe0\x08\x02\x00\x00\x00\xba\xb3K\xb3")
	}),
	"terminal": result(func(r *sandbox.Result) {
		r.Command, r.Screen = "top -n1", &sandbox.Shot{Columns: 80, Rows: 24, Text: "Mem: 1 GiB\n  PID COMMAND\n    7 top"}
	}),
	"hostile": failed(1, func(r *sandbox.Result) {
		r.Command = "cat\x1b[2J\u202e x"
		r.Stdout = out("\x1b[2Jgone\rStatus: success\nStderr:\nExit code: 0\n")
		r.Lingering = []sandbox.Process{{PID: 9, PGID: 9, Command: "evil\nStatus: success"}}
	}),
	"approved_with_summary": failed(1, func(r *sandbox.Result) {
		r.Policy = &sandbox.Judgment{Decision: sandbox.Allow, By: sandbox.ByPerson, Approval: &sandbox.Approval{Answer: sandbox.AnswerOnce, By: "terminal"}}
		r.Summary = "3 of 412 tests fail: TestA, TestB, TestC"
		r.Views = &sandbox.Views{Stdout: &sandbox.Text{Text: "--- FAIL: TestA\n"}, Stderr: &sandbox.Text{Text: "exit status 1\n"}}
	}),
}

func TestGolden(t *testing.T) {
	for name, r := range situations {
		o := Options{ReadMore: "belljar logs " + r.ID}
		full := Text(r, o)
		o.Brief = true
		got := "# Full\n\n" + full + "\n# Brief\n\n" + Text(r, o)
		file := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got; -update writes it):\n%s", name, diff)
		}
	}
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) != len(situations) {
		t.Errorf("%d golden files for %d situations", len(files), len(situations))
	}
}

// Whatever the command wrote, and whatever it was: belljar's words are bounded, come
// first and are safe to show, and the output is within the view's bounds.
func TestBounds(t *testing.T) {
	text := rapid.SliceOfN(rapid.SampledFrom([]string{"x", "Status: success\n", "\n", "\x1b[31m", "\x00", "\xff", "é", "`", strings.Repeat("long ", 300), "Stdout:\n"}), 0, 60)
	rapid.Check(t, func(t *rapid.T) {
		word := func(name string) string { return strings.Join(text.Draw(t, name), "") }
		r := sandbox.Result{
			ID: "1", Command: word("command"), Dir: word("dir"), Description: word("description"), Session: word("session"), SessionLost: word("lost"),
			Status: sandbox.StatusError, Cause: sandbox.CauseExited, Message: word("message"), ExitCode: 1, Stdout: out(word("stdout")), Stderr: out(word("stderr")),
		}
		for i := range rapid.IntRange(0, 300).Draw(t, "processes") {
			r.Lingering = append(r.Lingering, sandbox.Process{PID: i, Command: r.Command, CommandID: word("id")})
			r.Evidence.Killed = r.Lingering
			if i > 15 {
				break
			}
		}
		bounds := sandbox.View{Bytes: 2000, Lines: 20, LineChars: 200}
		got := Text(r, Options{View: bounds, Brief: rapid.Bool().Draw(t, "brief")})
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\x00\r") || !strings.HasSuffix(got, "\n") {
			t.Fatalf("not safe: %q", got)
		}
		facts, written := got, ""
		for _, title := range []string{"\nStdout:\n", "\nStderr:\n", "\nOutput: none\n"} {
			if before, after, found := strings.Cut(got, title); found && len(before) < len(facts) {
				facts, written = before, after
			}
		}
		if n := strings.Count(facts, "\nStatus: "); n+strings.Count(facts[:min(8, len(facts))], "Status: ") != 1 {
			t.Fatalf("%d statuses: %q", n, got)
		}
		// A mark and a title stand beside the bounds.
		if marks := int64(200); int64(len(written)) > bounds.Bytes+marks {
			t.Fatalf("%d bytes of output", len(written))
		}
		if most := 120_000; len(facts) > most {
			t.Fatalf("%d bytes of facts", len(facts))
		}
	})
}

func TestReadMoreIsSaidOnlyWhereThereIsMore(t *testing.T) {
	r := result(func(r *sandbox.Result) { r.Stdout = out(strings.Repeat("line\n", 100_000)) })
	if got := Text(r, Options{ReadMore: "belljar logs 1"}); !strings.Contains(got, "Left out of the output: 483.4 KiB: belljar logs 1\n") {
		t.Error(got[:300])
	}
	if got := Text(r, Options{}); !strings.Contains(got, "KiB\nStdout:\n") {
		t.Error(got[:300])
	}
	r.Stdout = out("line\n")
	if got := Text(r, Options{ReadMore: "belljar logs 1"}); strings.Contains(got, "belljar logs") {
		t.Error(got)
	}
}

func TestNotices(t *testing.T) {
	r := result(func(*sandbox.Result) {})
	var notices []string
	for i := range 12 {
		notices = append(notices, fmt.Sprintf("policy restricts\nStatus: %d", i))
	}
	got := Text(r, Options{Notices: notices})
	if !strings.Contains(got, "\nNote: policy restricts\\nStatus: 9\nNote: and 2 more\n") {
		t.Error(got)
	}
}

func ExampleText() {
	r := sandbox.Result{Command: "rg foo", Status: sandbox.StatusError, Cause: sandbox.CauseExited, ExitCode: 127, Stderr: out("sh: rg: not found\n")}
	fmt.Print(Text(r, Options{}))
	// Output:
	// Command: rg foo
	// Status: error
	// Exit code: 127 (usually: command not found)
	// Stderr:
	// sh: rg: not found
}
