package e2e

import (
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// Characters that chunks cut are whole in events.
func TestTextStaysText(t *testing.T) {
	needEngine(t)
	t.Parallel()
	all := ""
	for _, e := range eventsOf(t, "yes 你好 | head -5000") {
		if e.Encoding != "" {
			t.Errorf("%s: %.40q", e.Encoding, e.Data)
		}
		if e.Type == "stdout" {
			all += e.Data
		}
	}
	same(t, "stdout", []byte(all), []byte(strings.Repeat("你好\n", 5000)))
}

// What is not UTF-8 is base64, or replaced.
func TestEncodings(t *testing.T) {
	needEngine(t)
	t.Parallel()
	const script = `printf 'caf\351 \0 \344\275'`
	for encoding, want := range map[string][2]string{
		"exact":   {base64.StdEncoding.EncodeToString([]byte("caf\xe9 \x00 \xe4\xbd")), "base64"},
		"replace": {"caf\ufffd \x00 \ufffd", "utf-8-replaced"},
	} {
		out, err := exec.Command(binary, "run", "--format", "json", "--encoding", encoding, script).Output()
		var r struct {
			Stdout   string
			Encoding string `json:"stdout_encoding"`
			Bytes    int    `json:"stdout_bytes"`
			Method   string
		}
		if err != nil || json.Unmarshal(out, &r) != nil || r.Stdout != want[0] || r.Encoding != want[1] || r.Bytes != 9 || r.Method != "pipe" {
			t.Errorf("%s: %v: %s", encoding, err, out)
		}
	}
	all := ""
	for _, e := range eventsOf(t, "--encoding", "replace", "head -c 100000 /dev/urandom; echo") {
		if e.Type == "stdout" {
			all += e.Data
			if e.Encoding != "utf-8-replaced" && e.Encoding != "utf-8" {
				t.Errorf("encoding %q", e.Encoding)
			}
		}
	}
	if !utf8.ValidString(all) || strings.Count(all, "\ufffd") < 10_000 {
		t.Errorf("%d bytes", len(all))
	}
}

// A result is as large as what it is to have.
func TestStreamsInResult(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for _, test := range []struct {
		flags   string
		streams string
		most    int
	}{
		{"--view merged", "view", 10_000},
		{"--streams none", "none", 2_000},
		{"--max-result 4KiB", "", 7_000},
		{"--view merged --streams full", "", 10_000_000},
	} {
		_, use := ownState(t)
		cmd := exec.Command(binary, append(append([]string{"run", "--format", "json"}, strings.Fields(test.flags)...), "seq 1000000")...)
		use(cmd)
		out, err := cmd.Output()
		var r struct {
			Stdout  *string
			Streams string
			ID      string
			Bytes   int `json:"stdout_bytes"`
		}
		if err != nil || json.Unmarshal(out, &r) != nil || r.Streams != test.streams || (r.Stdout == nil) != (test.streams != "") || r.Bytes != 6_888_896 || len(out) > test.most {
			t.Errorf("%s: %v: %d bytes: %.300s", test.flags, err, len(out), out)
		}
		if got := merged(t, use, r.ID); len(got) != 6_888_896 {
			t.Errorf("%s: %d bytes are kept", test.flags, len(got))
		}
	}
}

// In text, a view is shown instead of the output.
func TestViewInText(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd := exec.Command(binary, "run", "--view", "separate", "--view-lines", "2", "seq 1000; echo err >&2; exit 3")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code := exitCode(t, err); code != 3 || string(out) != "1\n[… 3886 bytes, 998 lines left out …]\n1000\n" || !strings.HasPrefix(stderr.String(), "err\nbelljar: ") && !strings.HasPrefix(stderr.String(), "belljar: 3886 bytes") {
		t.Errorf("exit %d, %q, %q", code, out, stderr.String())
	}
}

// A program can drive a terminal: its size, its keys, and what it shows.
func TestTerminalOfPrograms(t *testing.T) {
	needEngine(t)
	t.Parallel()
	cmd := exec.Command(binary, "run", "-i", "-t", "--force-tty", "--tty-size", "120x40", "stty size; cat; exit 7")
	cmd.Stdin = strings.NewReader("typed\n")
	out, err := cmd.Output()
	if code := exitCode(t, err); code != 7 || !strings.Contains(string(out), "40 120") || strings.Count(string(out), "typed") != 2 {
		t.Errorf("exit %d, %q", code, out)
	}
	out, err = exec.Command(binary, "run", "-t", "--format", "ndjson", "--live", "view", "--live-every", "200ms", "--view-scrollback", "10", `seq 100; printf '\033[1mbold\033[m'; sleep 1; exit 0`).Output()
	if err != nil || !strings.Contains(string(out), `"type":"screen"`) || !strings.Contains(string(out), `[{"text":"bold","bold":true}]`) || !strings.Contains(string(out), `"method":"pty"`) || strings.Contains(string(out), `"type":"view"`) {
		t.Errorf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	var last struct {
		Result struct{ Screen struct{ Lines []any } }
	}
	if json.Unmarshal([]byte(lines[len(lines)-1]), &last) != nil || len(last.Result.Screen.Lines) != 10+24 {
		t.Errorf("%d lines in the result's screen", len(last.Result.Screen.Lines))
	}
}
