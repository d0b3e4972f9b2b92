package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// project is a directory that commands may write, with these files.
func project(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() != 0 {
		return dir
	}
	for _, name := range append([]string{"."}, keys(files)...) { // commands never run as root
		if err := os.Chown(filepath.Join(dir, name), 1234, 1234); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func keys(m map[string]string) (list []string) {
	for k := range m {
		list = append(list, k)
	}
	return list
}

// mcpServer is belljar mcp, without any configuration of this machine's user.
func mcpServer(t *testing.T, dir string, flags ...string) *exec.Cmd {
	t.Helper()
	needEachEngine(t)
	cmd := exec.Command(watched, append([]string{"mcp", "--dir", dir}, flags...)...)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	cmd.Dir = t.TempDir()
	return cmd
}

// agent is a client that does what a model would ask it to. Every text that it gets is in the
// test's log, with its size.
type agent struct {
	t       *testing.T
	session *mcp.ClientSession
	asked   []string // questions for the person
	approve func(message string) bool
	bytes   int
}

func startAgent(t *testing.T, server *exec.Cmd) *agent {
	t.Helper()
	a := &agent{t: t, approve: func(string) bool { return false }}
	server.Stderr = t.Output()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			a.asked = append(a.asked, r.Params.Message)
			t.Logf("the person is asked:\n%s", r.Params.Message)
			if !a.approve(r.Params.Message) {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: firstChoices(t, r.Params.RequestedSchema)}, nil
		},
	})
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: server, TerminateDuration: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a.session = session
	t.Cleanup(func() { session.Close() })
	return a
}

// firstChoices fills in a form: the first choice of each field.
func firstChoices(t *testing.T, schema any) map[string]any {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var form struct {
		Properties map[string]struct {
			Enum  []any `json:"enum"`
			OneOf []struct {
				Const any `json:"const"`
			} `json:"oneOf"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		t.Fatal(err)
	}
	content := map[string]any{}
	for name, field := range form.Properties {
		switch {
		case len(field.Enum) > 0:
			content[name] = field.Enum[0]
		case len(field.OneOf) > 0:
			content[name] = field.OneOf[0].Const
		}
	}
	return content
}

// answered is what a tool answered.
type answered struct {
	text  string
	data  map[string]any
	wrong bool
	bytes int // of everything, as the client's model may get it
}

func (a *agent) call(tool string, arguments map[string]any) answered {
	a.t.Helper()
	r, err := a.session.CallTool(a.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		a.t.Fatalf("%s %v: %v", tool, arguments, err)
	}
	whole, err := json.Marshal(r)
	if err != nil {
		a.t.Fatal(err)
	}
	got := answered{wrong: r.IsError, bytes: len(whole)}
	got.data, _ = r.StructuredContent.(map[string]any)
	for _, c := range r.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			got.text += text.Text
		}
	}
	a.bytes += got.bytes
	shown := got.text
	if len(shown) > 3000 {
		shown = shown[:1500] + "\n[…]\n" + shown[len(shown)-500:]
	}
	a.t.Logf("%s %v: error %v, %d bytes of text, %d in all\n%s", tool, arguments, got.wrong, len(got.text), got.bytes, shown)
	return got
}

func (a *agent) run(script string, more ...any) answered {
	a.t.Helper()
	arguments := map[string]any{"command": script}
	for i := 0; i < len(more); i += 2 {
		arguments[more[i].(string)] = more[i+1]
	}
	return a.call("shell_run", arguments)
}

// says fails unless the text has all of the words, and is an error as expected.
func (a *agent) says(got answered, wrong bool, words ...string) {
	a.t.Helper()
	for _, w := range words {
		if !strings.Contains(got.text, w) {
			a.t.Errorf("the answer does not say %q:\n%.2000s", w, got.text)
		}
	}
	if got.wrong != wrong {
		a.t.Errorf("isError is %v, want %v:\n%.2000s", got.wrong, wrong, got.text)
	}
}

// mostTokens is what 100 MB of output may cost, at four bytes each.
const mostTokens = 10000

// An agent fixes a program whose test fails, by the tools alone. It is denied once, a person is
// asked twice, and it sees a timeout with what was still running.
func TestAgent(t *testing.T) {
	needEngine(t)
	t.Parallel()
	dir := project(t, map[string]string{
		"add.sh":  "add() { echo $(($1 - $2)); }\n",
		"test.sh": ". ./add.sh\ngot=$(add 2 3)\n[ \"$got\" = 5 ] || { echo \"FAIL: add 2 3 is $got, want 5\"; exit 1; }\necho PASS\n",
	})
	server := mcpServer(t, dir, "--write")
	a := startAgent(t, server)
	list, err := a.session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tools, _ := json.Marshal(list)
	t.Logf("%d tools take %d bytes", len(list.Tools), len(tools))
	for _, tool := range list.Tools {
		if tool.Name == "shell_run" && !strings.Contains(tool.Description, "/work is the host's "+dir+" (writable") {
			t.Errorf("shell_run does not say what is mounted:\n%s", tool.Description)
		}
	}

	a.says(a.run("sh test.sh"), false, "Status: error", "Exit code: 1", "FAIL: add 2 3 is -1, want 5")
	a.says(a.call("file_read", map[string]any{"session": "fix", "path": "add.sh"}), false, "echo $(($1 - $2))")
	a.says(a.call("file_write", map[string]any{"session": "fix", "path": "add.sh", "content": "add() { echo $(($1 + $2)); }\n"}), false, "add.sh")
	a.says(a.run("sh test.sh"), false, "Status: success", "PASS")
	if text, err := os.ReadFile(filepath.Join(dir, "add.sh")); err != nil || !strings.Contains(string(text), "$1 + $2") {
		t.Errorf("the file of the project is %q, error %v", text, err)
	}

	a.says(a.run("git push --receive-pack=evil origin"), true, "denied", "git push", "Next: ")
	a.says(a.run("chown 1 add.sh"), true, "denied")
	if len(a.asked) != 1 || !strings.Contains(a.asked[0], "chown 1 add.sh") {
		t.Errorf("asked %q", a.asked)
	}
	a.approve = func(string) bool { return true }
	a.says(a.run("usleep 1 && echo slept"), false, "Status: success", "slept")
	if len(a.asked) != 2 {
		t.Errorf("asked %q", a.asked)
	}
	a.says(a.run("echo began; sleep 100 & sleep 200", "timeout_seconds", 5), false, "Status: timeout", "began", "sleep 100", "sleep 200", "Next: ")
	big := a.run("yes 0123456789 | head -c 100000000", "yield_seconds", 600)
	a.says(big, false, "Status: success", "0123456789", "shell_output")
	if big.bytes > 4*mostTokens {
		t.Errorf("100 MB of output are %d bytes in the answer, over %d", big.bytes, 4*mostTokens)
	}
	slow := a.run("echo one; sleep 20; echo two", "yield_seconds", 8)
	a.says(slow, false, "Status: running", "one", "shell_output")
	a.says(a.call("shell_output", map[string]any{"id": slow.data["id"], "offset": slow.data["next_offset"], "wait_seconds": 300}), false, "Status: success", "two")
	a.says(a.call("policy_explain", map[string]any{"command": "make && chown 1 x"}), false, "Decision: ask", "chown 1 x")
	a.says(a.call("session_list", nil), false, "fix")
	t.Logf("everything took %d bytes", a.bytes)

	if err := a.session.Close(); err != nil {
		t.Error(err)
	}
	if left := owned(server.Process.Pid); left != "" {
		t.Errorf("left are %s", left)
	}
}

// Whatever ends the server, nothing that it ran is left, and no file of its own.
func TestMCPEnds(t *testing.T) {
	needEngine(t)
	t.Parallel()
	for name, end := range map[string]func(server *exec.Cmd, stop func() error) error{
		"end of stdin": func(_ *exec.Cmd, stop func() error) error { return stop() },
		"SIGTERM":      func(s *exec.Cmd, _ func() error) error { return s.Process.Signal(syscall.SIGTERM) },
		"SIGINT":       func(s *exec.Cmd, _ func() error) error { return s.Process.Signal(syscall.SIGINT) },
		"SIGKILL":      func(s *exec.Cmd, _ func() error) error { return s.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			server := mcpServer(t, project(t, nil))
			server.Env = append(server.Env, stateIn(t, state))
			stdin, err := server.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := server.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			server.Stderr = t.Output()
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { server.Process.Kill() })
			client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: stdout, Writer: stdin}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, arguments := range []map[string]any{
				{"command": "sleep 1000 & echo", "session": "one"},
				{"command": "sleep 1000", "yield_seconds": 0.1},
				{"command": "sleep 1000", "session": "two", "yield_seconds": 0.1},
			} {
				if r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "shell_run", Arguments: arguments}); err != nil || r.IsError {
					t.Fatalf("%v: %+v, error %v", arguments, r, err)
				}
			}
			if err := end(server, stdin.Close); err != nil {
				t.Fatal(err)
			}
			err = server.Wait()
			if killed := name == "SIGKILL"; (err != nil) != killed {
				t.Errorf("it ended with %v", err)
			}
			if name != "SIGKILL" {
				if left := owned(server.Process.Pid); left != "" {
					t.Errorf("left are %s", left)
				}
			}
			eventually(t, "no container is left", func() bool { return owned(server.Process.Pid) == "" })
			session.Close()

			again := mcpServer(t, project(t, nil)) // removes what a killed one left
			again.Env = append(again.Env, stateIn(t, state))
			if out, err := again.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
			if left, err := filepath.Glob(filepath.Join(state, "belljar", "mcp", "[0-9]*")); err != nil || len(left) > 0 {
				t.Errorf("left are %q, error %v", left, err)
			}
		})
	}
}

// A client that cannot ask gets a denial at once, which says what to do.
func TestMCPWithoutElicitation(t *testing.T) {
	needEngine(t)
	t.Parallel()
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: mcpServer(t, project(t, nil)), TerminateDuration: time.Minute}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	a := &agent{t: t, session: session}
	a.says(a.run("chown 1 x"), true, "no one is available to ask: the client cannot show the question", "Next: ", "a command that needs no approval")
}

// Agents do not meet: each has sessions of its own, also with the same names.
func TestAgentsAreApart(t *testing.T) {
	needEngine(t)
	t.Parallel()
	one, two := startAgent(t, mcpServer(t, project(t, nil))), startAgent(t, mcpServer(t, project(t, nil)))
	one.says(one.run("echo one >/tmp/who", "session", "dev"), false, "Status: success")
	two.says(two.run("cat /tmp/who", "session", "dev"), false, "No such file")
	one.says(one.run("cat /tmp/who", "session", "dev"), false, "one")
	two.says(two.call("session_end", map[string]any{"session": "dev"}), false, "ended")
	one.says(one.run("cat /tmp/who", "session", "dev"), false, "one")
	one.says(one.run("touch new"), false, "Read-only file system")
}

// A user who is not root: what commands make in the project is that user's.
func TestMCPOfAUser(t *testing.T) {
	t.Parallel()
	needDocker(t) // who may use its socket
	needRoot(t, "to be another user")
	socket, err := os.Stat("/var/run/docker.sock")
	if err != nil {
		t.Fatal(err)
	}
	const uid = 4712
	// Where that user may go: the test's own directory is root's.
	dir, err := os.MkdirTemp("", "belljar-mcp-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	work := filepath.Join(dir, "project")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "belljar")
	tool(t, "cp", watched, program)
	for _, name := range []string{dir, work} {
		if err := os.Chown(name, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	server := exec.Command(program, "mcp", "--write")
	asUser(uid, socket.Sys().(*syscall.Stat_t).Gid)(server)
	server.Dir, server.Env = work, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	a := startAgent(t, server)
	a.says(a.run("id -u; echo new >new; stat -c %u new"), false, "Output:\n4712\n4712\n")
	if about, err := os.Stat(filepath.Join(work, "new")); err != nil || about.Sys().(*syscall.Stat_t).Uid != uid {
		t.Errorf("%+v, error %v", about, err)
	}
	if err := a.session.Close(); err != nil {
		t.Error(err)
	}
}
