package mcpapi_test

import (
	"slices"
	"strings"
	"testing"

	"belljar/cmd/internal/mcpapi"
)

// versions are the protocols that clients may speak.
var versions = []string{"2026-07-28", "2025-11-25", "2025-06-18"}

// Every tool works, over both transports and at each protocol.
func TestTools(t *testing.T) {
	s := serve(t)
	s.listen(t)
	for _, version := range versions {
		t.Run("stdio "+version, func(t *testing.T) { everyTool(t, s.overPipes(t, version, nil), version, "one") })
		t.Run("http "+version, func(t *testing.T) { everyTool(t, s.overHTTP(t, "ann", version, nil), version, "two") })
	}
}

func everyTool(t *testing.T, c client, version, session string) {
	if got := c.InitializeResult().ProtocolVersion; got != version {
		t.Fatalf("the protocol is %s", got)
	}
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Annotations == nil || tool.InputSchema == nil || tool.OutputSchema == nil || tool.Description == "" {
			t.Errorf("%s is not described: %+v", tool.Name, tool)
		}
	}
	slices.Sort(names)
	want := []string{"file_list", "file_read", "file_write", "policy_explain", "session_end", "session_list", "shell_input", "shell_output", "shell_run", "shell_signal"}
	if !slices.Equal(names, want) {
		t.Errorf("the tools are %q", names)
	}
	runs(t, c)
	files(t, c, session)
	typed(t, c)
	explained(t, c)
}

func runs(t *testing.T, c client) {
	var r mcpapi.Ran
	got := text(c.call("shell_run", fields{"command": "echo out; echo err >&2; exit 3", "description": "to see both", "directory": "/tmp"}, &r))
	if r.State != "ended" || r.Status != "error" || r.Cause != "exited" || r.ExitCode == nil || *r.ExitCode != 3 || !strings.Contains(r.Output, "out\n") || !strings.Contains(r.Output, "err\n") || r.Directory != "/tmp" {
		t.Errorf("%+v", r)
	}
	for _, part := range []string{"Command: echo out", "Description: to see both", "Directory: /tmp", "Status: error", "Exit code: 3", "Output:\n"} {
		if !strings.Contains(got, part) {
			t.Errorf("no %q in %q", part, got)
		}
	}
	if got := c.refused("shell_run", fields{"command": "rm -rf /work"}); !strings.Contains(got, "Status: denied") || !strings.Contains(got, "files stay") || !strings.Contains(got, "Next: ") {
		t.Error(got)
	}
	if got := c.refused("shell_run", fields{"command": "ls", "cmd": "x"}); !strings.Contains(got, `"cmd"`) {
		t.Error(got)
	}
	if got := c.refused("shell_run", fields{"command": ""}); !strings.Contains(got, "Next: ") {
		t.Error(got)
	}
	if got := c.refused("shell_output", fields{"id": "none"}); !strings.Contains(got, "no execution") || !strings.Contains(got, "Next: ") {
		t.Error(got)
	}
}

func files(t *testing.T, c client, session string) {
	if got := c.refused("file_write", fields{"session": session, "path": "a/b.txt", "content": ""}); !strings.Contains(got, "mkdir -p") {
		t.Error(got)
	}
	c.call("shell_run", fields{"session": session, "command": "mkdir a"}, nil)
	c.call("file_write", fields{"session": session, "path": "a/b.txt", "content": "one\ntwo\n"}, nil)
	var read mcpapi.Content
	c.call("file_read", fields{"session": session, "path": "a/b.txt"}, &read)
	if read.Content != "one\ntwo\n" || read.Encoding != "utf-8" || read.NextOffset != 0 {
		t.Errorf("%+v", read)
	}
	c.call("file_read", fields{"session": session, "path": "a/b.txt", "offset": 4, "max_bytes": 2}, &read)
	if read.Content != "tw" || read.NextOffset != 6 {
		t.Errorf("%+v", read)
	}
	c.call("file_write", fields{"session": session, "path": "raw", "content": "/wAB", "encoding": "base64", "mode": "0600"}, nil)
	read = mcpapi.Content{}
	c.call("file_read", fields{"session": session, "path": "raw"}, &read)
	if read.Content != "/wAB" || read.Encoding != "base64" {
		t.Errorf("%+v", read)
	}
	var listed mcpapi.Entries
	c.call("file_list", fields{"session": session}, &listed)
	if len(listed.Entries) != 2 || listed.Entries[0].Name != "a" || listed.Entries[0].Type != "directory" || listed.Entries[1].Mode != "0600" {
		t.Errorf("%+v", listed)
	}
	if got := c.refused("file_read", fields{"session": session, "path": "none"}); !strings.Contains(got, "not_found") {
		t.Error(got)
	}
	var ran mcpapi.Ran
	c.call("shell_run", fields{"session": session, "command": "cat a/b.txt; sleep 1000 >/dev/null 2>&1 &"}, &ran)
	if ran.Output != "one\ntwo\n" || len(ran.Background) != 1 || !strings.Contains(ran.Background[0].Command, "sleep 1000") {
		t.Errorf("%+v", ran)
	}
	var sessions mcpapi.Listed
	c.call("session_list", fields{}, &sessions)
	if len(sessions.Sessions) != 1 || sessions.Sessions[0].Name != session || len(sessions.Sessions[0].Running) == 0 {
		t.Errorf("%+v", sessions)
	}
	c.call("session_end", fields{"session": session}, nil)
	c.call("session_list", fields{}, &sessions)
	if len(sessions.Sessions) != 0 {
		t.Errorf("%+v", sessions)
	}
}

// typed talks to a program by its stdin.
func typed(t *testing.T, c client) {
	var r mcpapi.Ran
	c.call("shell_run", fields{"command": "trap 'echo caught; exit 5' TERM; while read -r line; do echo got $line; done; while :; do sleep 0.05; done", "stdin_open": true, "yield_seconds": 0}, &r)
	if r.ID == "" || r.State == "ended" {
		t.Fatalf("%+v", r)
	}
	eventually(t, "it runs", func() bool {
		c.call("shell_output", fields{"id": r.ID}, &r)
		return r.State == "running"
	})
	var silent fields
	if c.call("shell_output", fields{"id": r.ID}, &silent); silent["next_offset"] != 0.0 {
		t.Errorf("there is no offset to go on from: %v", silent)
	}
	for range 2 { // the second is a retry
		var typed mcpapi.Typed
		c.call("shell_input", fields{"id": r.ID, "text": "hello\n", "offset": 0}, &typed)
		if typed.Offset != 6 {
			t.Errorf("%+v", typed)
		}
	}
	c.call("shell_input", fields{"id": r.ID, "text": "", "offset": 6, "eof": true}, nil)
	eventually(t, "the line is read", func() bool {
		c.call("shell_output", fields{"id": r.ID}, &r)
		return r.Output == "got hello\n"
	})
	c.call("shell_signal", fields{"id": r.ID, "signal": "TERM"}, nil)
	var end mcpapi.Ran
	c.call("shell_output", fields{"id": r.ID, "offset": r.NextOffset, "wait_seconds": 60}, &end)
	r = end
	if r.State != "ended" || !strings.Contains(r.Output, "caught\n") || *r.ExitCode != 5 {
		t.Errorf("%+v", r)
	}
}

func explained(t *testing.T, c client) {
	var v mcpapi.Verdict
	c.call("policy_explain", fields{"command": "ls; rm x"}, &v)
	if v.Decision != "deny" || v.Rule != "no-rm" || v.Reason != "files stay" || v.Part != "rm x" || len(v.Commands) != 2 {
		t.Errorf("%+v", v)
	}
}
