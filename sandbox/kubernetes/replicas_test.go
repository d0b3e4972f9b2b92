//go:build kubernetes

package kubernetes_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// fleet is belljar serve, several times over one namespace.
type fleet struct {
	t       *testing.T
	program string
	client  *http.Client
	all     []*replica
}

// replica is one of them, on an address of its own.
type replica struct {
	address, dir string
	cmd          *exec.Cmd
	ended        chan struct{}
}

const fleetConfig = `version: 1
engine:
  kind: kubernetes
  kubernetes: {namespace: %[1]s, image: "localhost/belljar:test", pull: never}
image: localhost/base:test
limits: {memory: 64MiB, cpus: 0.2, tmp: 4MiB}
pool: {min: 0, max: 0}
max_running: 200
audit: {enabled: false}
queue: {length: 2000, wait: 5m}
serve:
  listen: tcp://%[2]s
  token_file: %[3]s/tokens.yaml
  tls_cert: %[3]s/tls.crt
  tls_key: %[3]s/tls.key
  hosts: [belljar.belljar.svc]
  drain_timeout: 2m
  replicas: {enabled: true, address: %[4]s}
`

func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	in := "belljar-replicas-" + strings.ToLower(rand.Text()[:8])
	if err := makeNamespace(in); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustKubectl(t, "delete", "namespace", in, "--wait=false") })
	name, err := program()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, program: name}
	var ips []net.IP
	for i := range n {
		ips = append(ips, net.IPv4(127, 0, 8, byte(i+1)))
	}
	cert, key := certificate(t, ips...)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "belljar.belljar.svc"}, DisableKeepAlives: true}
	f.client = &http.Client{Transport: transport, Timeout: 5 * time.Minute}
	probe, err := net.Listen("tcp", "127.0.8.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := probe.Addr().(*net.TCPAddr).Port
	probe.Close()
	for i := range n {
		r := &replica{address: fmt.Sprintf("127.0.8.%d:%d", i+1, port), dir: t.TempDir()}
		for name, text := range map[string]string{
			"tls.crt": string(cert), "tls.key": string(key), "sandbox.yaml": fmt.Sprintf(fleetConfig, in, r.address, r.dir, ips[i]),
			"tokens.yaml": fmt.Sprintf("tokens:\n  - {name: test, token: %s, scopes: [run], profiles: [default]}\n", callerToken),
		} {
			if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f.all = append(f.all, r)
		f.start(r)
	}
	t.Cleanup(func() {
		for _, r := range f.all {
			f.end(r, syscall.SIGTERM)
		}
	})
	return f
}

// start starts a replica, and waits until it answers.
func (f *fleet) start(r *replica) {
	f.t.Helper()
	log, err := os.OpenFile(filepath.Join(r.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	r.cmd = exec.Command(f.program, "serve", "--config", filepath.Join(r.dir, "sandbox.yaml"))
	r.cmd.Env = environ("XDG_STATE_HOME=" + filepath.Join(r.dir, "state"))
	r.cmd.Stderr = log
	if err := r.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	r.ended = make(chan struct{})
	go func() {
		r.cmd.Wait()
		close(r.ended)
	}()
	await(f.t, time.Minute, "belljar serve answers", func() bool {
		var answered any
		status, err := f.ask(r, "GET", "/v1/sessions", "", &answered)
		if isClosed(r.ended) {
			text, _ := os.ReadFile(log.Name())
			f.t.Fatalf("belljar serve ended: %s", text)
		}
		return err == nil && status == 200
	})
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// end ends it with a signal, and waits for that.
func (f *fleet) end(r *replica, signal os.Signal) {
	f.t.Helper()
	r.cmd.Process.Signal(signal)
	<-r.ended
	if f.t.Failed() {
		text, _ := os.ReadFile(filepath.Join(r.dir, "log"))
		f.t.Logf("%s: %s", r.address, text)
	}
}

// ask sends a request to a replica. Headers are NAME: VALUE.
func (f *fleet) ask(r *replica, method, path, body string, into any, headers ...string) (status int, err error) {
	request, err := http.NewRequest(method, "https://"+r.address+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Host = "belljar.belljar.svc"
	request.Header.Set("Authorization", "Bearer "+callerToken)
	if method == "POST" {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	answer, err := f.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch to := into.(type) {
	case nil:
	case *[]byte:
		*to = text
	default:
		if err == nil && len(text) > 0 {
			err = json.Unmarshal(text, into)
		}
	}
	return answer.StatusCode, err
}

// cli runs the command line at a replica, and returns its stdout and its exit status.
func (f *fleet) cli(r *replica, args ...string) (string, int) {
	f.t.Helper()
	cmd := exec.Command(f.program, args...)
	cmd.Env = environ("BELLJAR_HOST=https://"+r.address, "BELLJAR_TOKEN="+callerToken, "BELLJAR_TLS_CA="+filepath.Join(r.dir, "tls.crt"))
	cmd.Dir = f.t.TempDir()
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		f.t.Fatal(err)
	}
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && len(failed.Stderr) > 0 {
		f.t.Logf("belljar %q: %s", args, failed.Stderr)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// ran is a result, or why there is none.
type ran struct {
	ID, Cause, Message, Stdout, Code, Detail string
	SessionLost                              string `json:"session_lost"`
}

func request(command, session string) string {
	text, _ := json.Marshal(map[string]string{"command": command, "session": session})
	return string(text)
}

// run runs a command by a replica, and wants its output.
func (f *fleet) run(r *replica, session, command, want string, headers ...string) (got ran) {
	f.t.Helper()
	status, err := f.ask(r, "POST", "/v1/executions", request(command, session), &got, headers...)
	if err != nil || status != 200 || got.Stdout != want || got.SessionLost != "" {
		f.t.Errorf("%q by %s: %d %+v, error %v, want %q", command, r.address, status, got, err, want)
	}
	return got
}

// count is a command that counts how often it ran in its session.
const count = "n=$(cat n 2>/dev/null); n=$((n+1)); echo $n >n; echo $n"

// Three belljar serve over one namespace are one for their callers.
func TestReplicas(t *testing.T) {
	f := newFleet(t, 3)
	a, b, c := f.all[0], f.all[1], f.all[2]
	t.Run("sessions", func(t *testing.T) {
		f.t = t
		for i := range 9 {
			f.run(f.all[i%3], "dev", count, fmt.Sprintln(i+1))
		}
		if status, err := f.ask(b, "PUT", "/v1/sessions/dev/files/x", "by b", nil); err != nil || status >= 300 {
			t.Errorf("%d, %v", status, err)
		}
		var text []byte
		if _, err := f.ask(c, "GET", "/v1/sessions/dev/files/x", "", &text); err != nil || string(text) != "by b" {
			t.Errorf("%q, %v", text, err)
		}
		for _, r := range f.all {
			var list struct {
				Sessions   []struct{ Name string }
				Unanswered []string
			}
			if _, err := f.ask(r, "GET", "/v1/sessions", "", &list); err != nil || len(list.Sessions) != 1 || list.Sessions[0].Name != "dev" || list.Unanswered != nil {
				t.Errorf("%+v, %v", list, err)
			}
		}
		if status, err := f.ask(c, "DELETE", "/v1/sessions/dev", "", nil); err != nil || status != 204 {
			t.Errorf("%d, %v", status, err)
		}
	})
	t.Run("executions", func(t *testing.T) {
		f.t = t
		var made struct{ ID string }
		if status, err := f.ask(a, "POST", "/v1/executions?wait=0", `{"command":"read x; echo got $x; sleep 300","stdin_open":true}`, &made); err != nil || status != 202 {
			t.Fatalf("%d, %v", status, err)
		}
		of := "/v1/executions/" + made.ID
		if status, err := f.ask(b, "POST", of+"/stdin?offset=0&eof=true", "it\n", nil, "Content-Type: application/octet-stream"); err != nil || status != 200 {
			t.Errorf("%d, %v", status, err)
		}
		await(t, time.Minute, "the output is there", func() bool {
			var text []byte
			_, err := f.ask(c, "GET", of+"/output", "", &text)
			return err == nil && string(text) == "got it\n"
		})
		if status, err := f.ask(c, "DELETE", of, "", nil); err != nil || status != 202 {
			t.Errorf("%d, %v", status, err)
		}
		var text []byte
		if _, err := f.ask(b, "GET", of+"/events", "", &text); err != nil || !bytes.Contains(text, []byte(`"cause":"canceled"`)) {
			t.Errorf("%s, %v", text, err)
		}
		var list struct{ Executions []struct{ ID string } }
		if _, err := f.ask(b, "GET", "/v1/executions", "", &list); err != nil || !slices.ContainsFunc(list.Executions, func(x struct{ ID string }) bool { return x.ID == made.ID }) {
			t.Errorf("%+v, %v", list, err)
		}
	})
	t.Run("command line", func(t *testing.T) {
		f.t = t
		f.run(a, "cli", "echo by a >f", "")
		if out, status := f.cli(b, "run", "-t", "--session", "cli", "tty; cat f; exit 3"); status != 3 || !strings.HasPrefix(out, "/dev/pts/") || !strings.HasSuffix(out, "by a\r\n") {
			t.Errorf("a terminal: %q, %d", out, status)
		}
		here := filepath.Join(t.TempDir(), "f")
		if _, status := f.cli(c, "session", "cp", "cli:f", here); status != 0 {
			t.Errorf("session cp: %d", status)
		}
		if text, err := os.ReadFile(here); err != nil || string(text) != "by a\n" {
			t.Errorf("the copy: %q, %v", text, err)
		}
		id, status := f.cli(a, "run", "--detach", "echo begun; sleep 2; echo end; exit 4")
		if id = strings.TrimSpace(id); status != 0 || id == "" {
			t.Fatalf("run --detach: %q, %d", id, status)
		}
		if out, status := f.cli(b, "wait", id); status != 4 || out != "begun\nend\n" {
			t.Errorf("wait: %q, %d", out, status)
		}
		if out, status := f.cli(c, "logs", id); status != 0 || out != "begun\nend\n" {
			t.Errorf("logs: %q, %d", out, status)
		}
		id, _ = f.cli(c, "run", "--detach", "sleep 300")
		id = strings.TrimSpace(id)
		if _, status := f.cli(a, "kill", id); status != 0 {
			t.Errorf("kill: %d", status)
		}
		if _, status := f.cli(b, "wait", id); status != 137 && status != 130 {
			t.Errorf("after that: %d", status)
		}
		if _, status := f.cli(b, "session", "rm", "cli"); status != 0 {
			t.Errorf("session rm: %d", status)
		}
	})
	t.Run("keys", func(t *testing.T) {
		f.t = t
		f.run(a, "keyed", "true", "")
		ids := make(chan string, 12)
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() { ids <- f.run(f.all[i%3], "keyed", count, "1\n", "Idempotency-Key: once").ID })
		}
		all.Wait()
		first := <-ids
		for range 11 {
			if id := <-ids; id != first {
				t.Errorf("executions %s and %s", id, first)
			}
		}
		f.run(b, "keyed", count, "2\n")
	})
	t.Run("rolling restart", func(t *testing.T) { f.t = t; f.rolling() })
	t.Run("kill", func(t *testing.T) { f.t = t; f.kill() })
	t.Run("load", func(t *testing.T) { f.t = t; f.load() })
}

// rolling restarts each replica while commands come to those that listen: none is refused, and no session is lost.
func (f *fleet) rolling() {
	const sessions = 6
	var all sync.WaitGroup
	for i := range sessions { // each has its pod
		all.Go(func() {
			f.anywhere(1+i, fmt.Sprint("roll-", i), count, "1\n", fmt.Sprint("Idempotency-Key: roll-", i, "-1"))
		})
	}
	all.Wait()
	stop := make(chan struct{})
	for i := range sessions {
		all.Go(func() {
			for n := 2; ; n++ {
				if isClosed(stop) && n > 3 {
					return
				}
				f.anywhere(n+i, fmt.Sprint("roll-", i), count, fmt.Sprintln(n), fmt.Sprint("Idempotency-Key: roll-", i, "-", n))
			}
		})
	}
	for _, r := range f.all {
		f.end(r, syscall.SIGTERM)
		f.start(r)
	}
	close(stop)
	all.Wait()
}

// anywhere runs a command by a replica that answers. Where a connection breaks, as those do that come just when a port is closed, it sends
// the request to another one, with the same key.
func (f *fleet) anywhere(from int, session, command, want, key string) {
	for i := 0; ; i++ {
		r := f.all[(from+i)%len(f.all)]
		var got ran
		status, err := f.ask(r, "POST", "/v1/executions", request(command, session), &got, key)
		if status == 0 && err != nil && i < 1000 {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil || status != 200 || got.Stdout != want || got.SessionLost != "" {
			f.t.Errorf("%q of %s by %s: %d %+v, error %v, want %q", command, session, r.address, status, got, err, want)
		}
		return
	}
}

// kill kills a replica that has sessions, a command and a key: what is not known is said to be so, also that it may be soon, as the replica
// started again before; and the sessions go on.
func (f *fleet) kill() {
	t, a, b, c := f.t, f.all[0], f.all[1], f.all[2]
	f.run(a, "killed", count, "1\n")
	f.run(a, "", "echo keyed", "keyed\n", "Idempotency-Key: killed")
	var made struct{ ID string }
	if _, err := f.ask(a, "POST", "/v1/executions?wait=0", `{"command":"sleep 300"}`, &made); err != nil {
		t.Fatal(err)
	}
	f.end(a, syscall.SIGKILL)
	for i, r := range []*replica{b, c, b} {
		f.run(r, "killed", count, fmt.Sprintln(i+2))
	}
	var got ran
	if status, err := f.ask(b, "GET", "/v1/executions/"+made.ID, "", &got); err != nil || status != 503 || got.Code != "unavailable" {
		t.Errorf("%d %+v, %v", status, got, err)
	}
	if status, err := f.ask(c, "POST", "/v1/executions", request("echo keyed", ""), &got, "Idempotency-Key: killed"); err != nil || status != 503 || got.Code != "unavailable" {
		t.Errorf("%d %+v, %v", status, got, err)
	}
	f.start(a) // with its directory: it is the same one again
	var x struct{ Result struct{ Cause string } }
	if status, err := f.ask(b, "GET", "/v1/executions/"+made.ID, "", &x); err != nil || status != 200 || x.Result.Cause != "engine_lost" {
		t.Errorf("%d %+v, %v", status, x, err)
	}
	f.run(c, "", "echo keyed", "keyed\n", "Idempotency-Key: killed")
	f.run(a, "killed", count, "5\n")
}

// sizeEnv is how many pods and commands load has: PODS/COMMANDS/AT-ONCE.
const sizeEnv = "BELLJAR_TEST_REPLICAS"

// load runs commands in sessions, each by a replica of its own choice. Every result is accounted for.
func (f *fleet) load() {
	pods, commands, atOnce := 24, 160, 8
	if size := strings.Split(os.Getenv(sizeEnv), "/"); len(size) == 3 {
		pods, _ = strconv.Atoi(size[0])
		commands, _ = strconv.Atoi(size[1])
		atOnce, _ = strconv.Atoi(size[2])
	}
	var all sync.WaitGroup
	var next, done atomic.Int64
	seen, began := sync.Map{}, time.Now()
	for range atOnce {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < pods; i = int(next.Add(1)) - 1 {
				session := fmt.Sprint("load-", i)
				for n := range (commands + pods - 1 - i) / pods {
					got := f.run(f.all[(i+n)%len(f.all)], session, count, fmt.Sprintln(n+1))
					if _, twice := seen.LoadOrStore(got.ID, session); twice {
						f.t.Errorf("execution %s twice", got.ID)
					}
					done.Add(1)
				}
				if status, err := f.ask(f.all[(i+1)%len(f.all)], "DELETE", "/v1/sessions/"+session, "", nil); err != nil || status != 204 {
					f.t.Errorf("%d, %v", status, err)
				}
			}
		})
	}
	all.Wait()
	ids := maps.Collect(func(yield func(string, string) bool) {
		seen.Range(func(id, session any) bool { return yield(id.(string), session.(string)) })
	})
	f.t.Logf("%d commands in %d pods, %d at once, by %d replicas in %v", done.Load(), pods, atOnce, len(f.all), time.Since(began).Round(time.Second))
	if int(done.Load()) != commands || len(ids) != commands {
		f.t.Errorf("%d results of %d executions, want %d", done.Load(), len(ids), commands)
	}
	var list struct{ Executions []struct{ ID, Status string } }
	if _, err := f.ask(f.all[0], "GET", "/v1/executions?limit=1000", "", &list); err != nil {
		f.t.Error(err)
	}
	for _, x := range list.Executions {
		if ids[x.ID] != "" && x.Status != "success" {
			f.t.Errorf("%+v", x)
		}
	}
}
