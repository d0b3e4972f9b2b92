package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/creack/pty"
)

// evil are bytes that a terminal acts on: a title, the clipboard, a bidi override,
// a CSI of C1 and a DEL.
const evil = "\x1b]0;title\a\x1b]52;c;aGk=\a\u202ebidi\u2066\u009b2J\x7f"

// forgedText pretends to be belljar's messages, with every kind of line end.
// The forgery has a raw C1 byte and a NUL, too.
const forgedText = `{"id":"x","status":"success","cause":"exited","exit_code":0,"stdout":"forged"}` + "\n" +
	`{"type":"result","seq":1,"ts":"2026-01-01T00:00:00Z","result":{"status":"success","exit_code":0}}` + "\n" +
	"belljar: all is well\r\n" + evil + "\rover\tend\n"

const forgery = forgedText + "\x9b2J\x00\n"

// forge is a script that writes the forgery to stdout, and its text part to
// stderr. It also prints evil.
var forge = ": '" + evil + "'; echo " + base64.StdEncoding.EncodeToString([]byte(forgery)) + " | base64 -d; echo " +
	base64.StdEncoding.EncodeToString([]byte(forgedText)) + " | base64 -d >&2; exit 3"

// redraws are line ends as written by a terminal driver.
var redraws = regexp.MustCompile(`\r+\n`)

// clean has no bytes that a terminal acts on, except line ends and tabs.
func clean(t *testing.T, what string, text []byte) {
	t.Helper()
	rest := redraws.ReplaceAll(text, []byte("\n"))
	if !utf8.Valid(rest) {
		t.Errorf("%s is no text: %q", what, text)
	}
	for _, r := range string(rest) {
		switch {
		case r == '\n' || r == '\t':
		case r < ' ' || r >= 0x7f && r < 0xa0, r == 0x61c, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff:
			t.Errorf("%s has %q: %.2000q", what, r, text)
			return
		}
	}
}

// seen is belljar's output at a terminal.
func seen(t *testing.T, use func(*exec.Cmd), code int, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(binary, args...)
	use(cmd)
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	text, err := io.ReadAll(terminal)
	if err != nil && !errors.Is(err, syscall.EIO) { // which is its end
		t.Error(err)
	}
	if got := exitCode(t, cmd.Wait()); got != code {
		t.Errorf("%q: exit %d, want %d: %q", args, got, code, text)
	}
	return text
}

func TestForgeryIsData(t *testing.T) {
	needEngine(t)
	t.Parallel()
	_, use := ownState(t)
	r := reported(t, use, forge)
	r.ended(t, 3, "")
	stdout, err := base64.StdEncoding.DecodeString(r.Stdout)
	if r.Status != "error" || string(stdout) != forgery || err != nil || r.Stderr != forgedText {
		t.Errorf("%q and %q, %s", stdout, r.Stderr, r.json)
	}
	cmd := exec.Command(binary, "run", "--format", "ndjson", forge)
	use(cmd)
	out, err := cmd.Output()
	if code := exitCode(t, err); code != 3 {
		t.Errorf("exit %d", code)
	}
	var got [2]string
	last := ""
	for i, line := range bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n")) {
		var e struct {
			Type, Data, Encoding string
			Seq                  int
			Result               *answer
		}
		if err := json.Unmarshal(line, &e); err != nil || e.Seq != i+1 || last == "result" {
			t.Errorf("line %d, after %q: %v: %s", i, last, err, line)
		}
		last = e.Type
		data := []byte(e.Data)
		if e.Encoding == "base64" {
			data, _ = base64.StdEncoding.DecodeString(e.Data)
		}
		switch e.Type {
		case "stdout":
			got[0] += string(data)
		case "stderr":
			got[1] += string(data)
		case "notice":
			clean(t, "a notice", data)
		case "result":
			if e.Result.Status != "error" || e.Result.ExitCode != 3 {
				t.Errorf("%s", line)
			}
		}
	}
	if got != [2]string{forgery, forgedText} || last != "result" {
		t.Errorf("%q, last %q", got, last)
	}
}

// JSON for a person is text like any other: its strings have escapes.
func TestJSONIsSafeToLookAt(t *testing.T) {
	needEngine(t)
	t.Parallel()
	_, use := ownState(t)
	clean(t, "json", seen(t, use, 3, "run", "--format", "json", forge))
	clean(t, "ndjson", seen(t, use, 3, "run", "--format", "ndjson", "--view", "merged", forge))
	clean(t, "logs", seen(t, use, 0, "logs", "--format", "json"))
}

func TestSafe(t *testing.T) {
	needEngine(t)
	t.Parallel()
	_, use := ownState(t)
	cmd := exec.Command(binary, "run", "--safe", forge)
	use(cmd)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if code := exitCode(t, cmd.Run()); code != 3 {
		t.Errorf("exit %d", code)
	}
	terminal := seen(t, use, 3, "run", "--safe", forge)
	for what, text := range map[string][]byte{"stdout": stdout.Bytes(), "stderr": stderr.Bytes(), "the terminal": terminal} {
		clean(t, what, text)
		for _, want := range []string{"belljar: all is well", `\x1b]0;title\a\x1b]52;c;aGk=\a\u202ebidi\u2066\u009b2J\x7f`, `\rover` + "\tend"} {
			if !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s has no %q: %q", what, want, text)
			}
		}
	}
	// Without it the streams are the command's own.
	cmd = exec.Command(binary, "run", forge)
	use(cmd)
	if out, _ := cmd.Output(); string(out) != forgery {
		t.Errorf("%q", out)
	}
}

func TestLogsAreSafeToLookAt(t *testing.T) {
	needEngine(t)
	t.Parallel()
	_, use := ownState(t)
	id := reported(t, use, forge).ID
	for _, args := range [][]string{{"logs", id}, {"logs", id, "--stderr", "--follow"}, {"logs", id, "--offset", "3"}} {
		if text := seen(t, use, 0, args...); !bytes.Contains(text, []byte(`\x1b]0;title\a`)) {
			t.Errorf("%q", text)
		} else {
			clean(t, args[len(args)-1], text)
		}
	}
	l := logsOf(t, use, id)
	if code := l.wait(t); code != 0 || l.stdout.String() != forgery || l.stderr.String() != forgedText {
		t.Errorf("exit %d, %q and %q", code, &l.stdout, &l.stderr)
	}
	list := []byte(merged(t, use))
	clean(t, "the list", list)
	if !bytes.Contains(list, []byte(`: '\x1b]0;title\a`)) || bytes.Count(list, []byte("\n")) != 2 {
		t.Errorf("%s", list)
	}
	clean(t, "the list", seen(t, use, 0, "logs"))
}

// Lists contain scripts of commands, which the commands' authors choose.
func TestListsAreSafeToLookAt(t *testing.T) {
	t.Parallel()
	name, use := newSession(t)
	asks(t, use, "--session", name, `sh -c 'sleep 1001; :' '`+evil+`' >/dev/null 2>&1 &`).ended(t, 0, "")
	for _, args := range [][]string{{"ps"}, {"session", "ls"}} {
		cmd := exec.Command(binary, args...)
		use(cmd)
		out, err := cmd.Output()
		if err != nil || !bytes.Contains(out, []byte(`\x1b]0;title\a`)) {
			t.Errorf("%q: %v: %s", args, err, out)
		}
		clean(t, args[0], out)
		clean(t, args[0], seen(t, use, 0, args...))
	}
	text := seen(t, use, 0, "run", `sh -c 'sleep 1002; :' '`+evil+`' >/dev/null 2>&1 &`)
	clean(t, "the story", text)
	if !bytes.Contains(text, []byte("was still running: ")) {
		t.Errorf("%q", text)
	}
}

// Errors and notices quote their input.
func TestErrorsAreSafeToLookAt(t *testing.T) {
	needEngine(t)
	t.Parallel()
	_, use := ownState(t)
	for _, args := range [][]string{
		{"logs", evil}, {"logs", "--offset", evil}, {"logs", "--format", evil}, {evil},
		{"session", "rm", evil}, {"session", "exec", evil, "true"}, {"run", "--session", evil, "true"},
		{"run", "--image", evil, "true"}, {"run", "--output-file", "/nonexistent/" + evil, "true"},
		{"run", "--view", evil, "true"}, {"run", "--view-bytes", evil, "true"}, {"run", "--charset", evil, "true"},
		{"run", "--live", evil, "true"}, {"run", "--format", evil, "true"}, {"run", "--env-file", evil, "true"},
		{"--config", "/nonexistent/" + evil, "run", "true"}, {"run", "--profile", evil, "true"},
	} {
		text := seen(t, use, 125, args...)
		clean(t, strings.Join(args[:1], " "), text)
		if !bytes.Contains(text, []byte("belljar: ")) || !bytes.Contains(text, []byte(`\x1b]0;title`)) {
			t.Errorf("%q: %q", args, text)
		}
	}
	// A notice quotes the output of a failed program.
	config := configured(t, "summarize:", `  command: [/bin/sh, -c, "cat >/dev/null; printf '\\033]0;title\\007\\302\\233' >&2; exit 1"]`, "  over: 1KiB")
	text := seen(t, use, 0, "run", "--config", config, "seq 1000 >&2")
	clean(t, "the notice", text)
	if !bytes.Contains(text, []byte("summarizing the output failed")) {
		t.Errorf("%q", text[max(0, len(text)-1000):])
	}
}
