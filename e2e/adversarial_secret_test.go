package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// secretValues are three secrets by name, one of each source.
var secretValues = map[string]string{
	"API_KEY": "s3cr3t/of+S8 & the=environment?",
	"FILED":   "-----BEGIN KEY-----\nc2VjcmV0IG9mIGEgZmlsZQ/+\n-----END KEY-----",
	"TOLD":    "told-by-'a'-program-\"$HOME\"-\\n",
}

// withSecrets are flags, and an environment, with which commands of the rule
// deploy have three secrets, and others none.
func withSecrets(t *testing.T, more ...string) (flags []string, use func(*exec.Cmd)) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"filed": secretValues["FILED"] + "\n", "told": "#!/bin/sh\necho noise >&2\ncat <<'END'\n" + secretValues["TOLD"] + "\nEND\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	config := configured(t, append(more, "secrets:", "  - {name: API_KEY, from: env, variable: E2E_KEY}", "  - {name: FILED, from: file, file: "+dir+"/filed}", "  - {name: TOLD, from: command, command: ["+dir+"/told]}",
		"policy:", "  rules:",
		"    - {name: deploy, commands: [cat, tr, echo, base64, printf, sha256sum, sleep, sh, read, break, \"true\", \":\"], decision: allow, allow: [runs, writes], allow_unknown: true, secrets: [API_KEY, FILED, TOLD]}")...)
	return []string{"--config", config}, func(c *exec.Cmd) { c.Env = append(c.Environ(), "E2E_KEY="+secretValues["API_KEY"]) }
}

// recordedEngine records the engine's API traffic through another socket, except for the
// stdins of commands.
func recordedEngine(t *testing.T) (use func(*exec.Cmd), said func() string) {
	t.Helper()
	if !onDocker() { // a library, or an API server by TLS; what it keeps is all that it is told
		return func(*exec.Cmd) {}, func() string { return "" }
	}
	dir, err := os.MkdirTemp("", "belljar-heard-*") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var mu sync.Mutex
	var all []*listening
	socket := proxiedBy(t, dir, nil, func(client net.Conn) net.Conn {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, &listening{Conn: client})
		return all[len(all)-1]
	})
	said = func() string {
		mu.Lock()
		defer mu.Unlock()
		var text strings.Builder
		for _, c := range all {
			text.WriteString(c.requests())
		}
		return text.String()
	}
	return func(c *exec.Cmd) { c.Env = append(c.Environ(), "DOCKER_HOST=unix://"+socket) }, said
}

// listening records the data of a connection.
type listening struct {
	net.Conn
	mu   sync.Mutex
	kept bytes.Buffer
}

func (l *listening) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.Write(p[:n])
	return n, err
}

// requests are all requests, up to the point where the connection becomes a stream.
func (l *listening) requests() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	in, text := bufio.NewReader(bytes.NewReader(l.kept.Bytes())), ""
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return text
		}
		body, _ := io.ReadAll(request.Body)
		text += fmt.Sprintf("%s %s %v %s\n", request.Method, request.URL, request.Header, body)
		if request.Header.Get("Upgrade") != "" {
			return text
		}
	}
}

// leaks reports which secrets a text contains, in which form.
func leaks(t *testing.T, where, text string) {
	t.Helper()
	plain := strings.NewReplacer("\n", "", "\r", "", "\\n", "").Replace(text)
	for name, value := range secretValues {
		quoted, _ := json.Marshal(value)
		for _, form := range []string{value, string(quoted[1 : len(quoted)-1]), url.QueryEscape(value), url.PathEscape(value), value[:20], value[len(value)-12:]} {
			if strings.Contains(text, form) && !strings.HasPrefix(form, "-----") && !strings.HasSuffix(form, "-----") {
				t.Errorf("%s has %s as %q", where, name, form)
			}
		}
		for before := range 3 {
			encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + value))
			if part := encoded[4 : len(encoded)-4]; strings.Contains(plain, part) {
				t.Errorf("%s has %s in base64", where, name)
			}
		}
	}
}

// filesIn are all files below a directory, as one text.
func filesIn(t *testing.T, dir string) (text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		text += path + "\n" + string(content)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return text
}

// S8, for a rule's secret: only the command gets it.
func grantedSecretStaysInside(t *testing.T) {
	flags, use := withSecrets(t)
	var sums []string
	for _, name := range []string{"API_KEY", "FILED", "TOLD"} {
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256([]byte(secretValues[name]))))
	}
	const script = `for v in "$API_KEY" "$FILED" "$TOLD"; do printf %s "$v" | sha256sum; done
echo "$API_KEY" "$FILED" "$TOLD"; echo "$API_KEY" >&2; printf %s "user:$API_KEY$FILED$TOLD" | base64
cat /proc/self/environ /proc/1/environ /proc/*/cmdline 2>/dev/null | tr '\000' '\n'
sh -c 'echo rea""dy; sleep 100; :' "$API_KEY" & wait`
	session := fmt.Sprintf("e2e-%d", time.Now().UnixNano())
	t.Cleanup(func() { removeSession(session) }) // its cancellation did
	for name, more := range map[string][]string{"alone": nil, "session": {"--session", session}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listen, said := recordedEngine(t)
			state := t.TempDir()
			args := append([]string{"run", "--format", "ndjson", "--view", "merged", "--streams", "full"}, flags...)
			cmd := exec.Command(binary, append(append(args, more...), script)...)
			inState(t, state)(cmd)
			use(cmd)
			listen(cmd)
			var stderr bytes.Buffer
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill() })
			shown := ""
			lines := bufio.NewScanner(out)
			for lines.Scan() && !strings.Contains(lines.Text(), "ready") {
				shown += lines.Text() + "\n"
			}
			shown += lines.Text() + "\n"
			id, _, _ := strings.Cut(containers("label=dev.belljar.session="+session), " ")
			if name == "alone" {
				id = container(t, cmd.Process.Pid)
			}
			leaks(t, "what the engine keeps", known(t, id))
			cmd.Process.Signal(syscall.SIGTERM)
			for lines.Scan() {
				shown += lines.Text() + "\n"
			}
			if code := exitCode(t, cmd.Wait()); code != exitCanceled {
				t.Errorf("exit status %d", code)
			}
			for _, sum := range sums {
				if !strings.Contains(shown, sum) {
					t.Errorf("the command did not have the secret with sum %s", sum)
				}
			}
			if !strings.Contains(shown, `"masked":`) || !strings.Contains(shown, `sh -c echo rea\"\"dy; sleep 100; : ***`) || onDocker() && !strings.Contains(said(), "POST") {
				t.Errorf("told %s", shown)
			}
			leaks(t, "ndjson", shown)
			leaks(t, "stderr", stderr.String())
			leaks(t, "the state", filesIn(t, state))
			leaks(t, "what the engine is told", said())
			logs := exec.Command(binary, "logs")
			inState(t, state)(logs)
			text, err := logs.CombinedOutput()
			if err != nil || len(text) == 0 {
				t.Errorf("logs: %v", err)
			}
			leaks(t, "logs", string(text))
		})
	}
}

// execsOf are a container's, as the engine shows them. It shows none where an init of ours
// starts commands.
func execsOf(t *testing.T, id string) (all string) {
	t.Helper()
	client := http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", engineSocket(t))
		},
	}}
	for _, exec := range strings.Fields(strings.Trim(tool(t, "docker", "inspect", "--format", "{{.ExecIDs}}", id), "[]")) {
		answer, err := client.Get("http://engine/exec/" + exec + "/json")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Error(err)
		}
		all += string(text)
	}
	init := strings.Contains(tool(t, "docker", "inspect", "--format", "{{.Path}}", id), "belljar-init")
	if init == strings.Contains(all, "entrypoint") {
		t.Errorf("an init of ours: %v; the execs that are shown: %q", init, all)
	}
	return all
}

// S11: only a rule can grant a secret, in one way.
func secretIsGivenByItsRule(t *testing.T) {
	flags, use := withSecrets(t)
	has := func(script string, more ...string) answer {
		a := askAs(t, use, append(append(flags, more...), script)...)
		leaks(t, script, string(a.json))
		return a
	}
	has(`echo "${API_KEY-none}"`).says(t, `\*\*\*\n`)
	// A secret split by a highlighter is whole again in a view.
	torn := has(`k=$API_KEY; while :; do r=${k#????}; printf '%s\033[1m' "${k%$r}"; case $r in "$k") break;; esac; k=$r; done; echo "$r"`, "--view", "merged")
	if !strings.Contains(string(torn.json), `"text":"***\n"`) {
		t.Errorf("%s", torn.json)
	}
	// Encodings by real programs, none of which belljar's encoders wrote.
	for script, want := range map[string]string{
		`printf %s "$API_KEY" | base64`:                                               "***",
		`printf %s "$FILED" | base64 -w 20`:                                           "***",
		`printf %s "$FILED" | base64 -w 20 | while read -r l; do echo "    $l"; done`: "***",
		`echo 's3cr3t\/of\u002BS8 \u0026 the=environment?'; : "$API_KEY"`:             "***\n",
		`echo 's3cr3t/of+S8 &amp; the=environment?'; : "$API_KEY"`:                    "***\n",
		`echo 'czNjcjN0L29mK1M4ICYgdGhlPWVudmlyb25tZW50Pw=='; : "$API_KEY"`:           "***",
		`echo 'czNjcjN0L29mK1M4ICYgdGhlPWVudmlyb25tZW50Pw%3D'; : "$API_KEY"`:          "***",
	} {
		a := askAs(t, use, append(flags, script)...)
		if !strings.Contains(a.Stdout+a.Stderr, want) {
			t.Errorf("%s: %s", script, a.json)
		}
		leaks(t, script, a.Stdout+a.Stderr) // the script itself is stored unchanged
	}
	for _, script := range []string{`env; echo "${API_KEY-none}"`, `ls; echo "${API_KEY-none}"`, `awk 'BEGIN { print ENVIRON["API_KEY"] "none" }'`} {
		if a := has(script); !strings.Contains(a.Stdout, "none") || strings.Contains(a.Stdout, "***") {
			t.Errorf("%s: %s", script, a.json)
		}
	}
	has("echo", "-e", "API_KEY=x").ended(t, 125, "invalid_command")
	has("echo", "-e", "API_KEY").ended(t, 125, "invalid_command")
	has("echo", "-e", "E2E_KEY").ended(t, 126, "denied")
	has("echo", "-t").ended(t, 125, "invalid_command")
	has("echo", "-w", "/nowhere").ended(t, 125, "invalid_command")
	has("echo $API_KEY >&2; sleep 10", "--timeout", "1s").ended(t, 124, "wall_timeout")
	if a := askAs(t, within(), append(flags, "echo")...); a.code != 125 || !strings.Contains(string(a.json), `variable \"E2E_KEY\" is not set`) {
		t.Errorf("%s", a.json)
	}
}
