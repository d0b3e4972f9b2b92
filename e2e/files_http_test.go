package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// remoteFiles is a session of a sidecar, seen over HTTP.
type remoteFiles struct {
	t      *testing.T
	name   string
	socket string
	client *http.Client
}

func newRemoteFiles(t *testing.T) *remoteFiles {
	t.Helper()
	needEngine(t)
	s := &remoteFiles{t: t, name: fmt.Sprintf("e2e-%d", time.Now().UnixNano()), socket: filepath.Join(socketDir(t), "s")}
	state, _ := ownState(t)
	server := exec.Command(binary, "serve")
	server.Env = append(os.Environ(), stateIn(t, state), "BELLJAR_SERVE_LISTEN=unix://"+s.socket)
	var log bytes.Buffer
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
	}
	s.client = &http.Client{Transport: &http.Transport{DialContext: dial}}
	t.Cleanup(func() {
		removeSession(s.name)
		s.client.CloseIdleConnections()
		server.Process.Signal(syscall.SIGTERM)
		if err := server.Wait(); err != nil {
			t.Errorf("the sidecar ended with %v: %s", err, &log)
		}
		if strings.Contains(log.String(), "panic") {
			t.Errorf("the sidecar says: %s", &log)
		}
	})
	eventually(t, "the sidecar answers", func() bool {
		answer, err := s.client.Get("http://localhost/healthz")
		if err == nil {
			answer.Body.Close()
		}
		return err == nil
	})
	s.want(http.StatusCreated, http.MethodPost, "/v1/sessions", strings.NewReader(`{"name":"`+s.name+`"}`))
	return s
}

// ask is one request; path is below the session's files, unless it is absolute.
func (s *remoteFiles) ask(method, path string, body io.Reader) (status int, text string, err error) {
	s.t.Helper()
	if !strings.HasPrefix(path, "/") {
		path = "/v1/sessions/" + s.name + "/files/" + path
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://localhost"+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(all), err
}

func (s *remoteFiles) want(status int, method, path string, body io.Reader) string {
	s.t.Helper()
	got, text, err := s.ask(method, path, body)
	if got != status || err != nil {
		s.t.Errorf("%s %s: %d instead of %d, %v: %.300s", method, path, got, status, err, text)
	}
	return text
}

// sh is what a command in the session writes.
func (s *remoteFiles) sh(script string) string {
	s.t.Helper()
	out, err := inside(containersOf(s.name)[0], script)
	if err != nil {
		s.t.Errorf("%s: %v: %s", script, err, out)
	}
	return out
}

// archived is a tar archive.
func archived(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		w.Write(make([]byte, h.Size))
	}
	w.Close()
	return &b
}

func TestFilesHTTP(t *testing.T) {
	t.Parallel()
	s := newRemoteFiles(t)
	s.want(204, "PUT", "f?mode=0640", strings.NewReader("text"))
	if got := s.want(200, "GET", "%2Fwork%2Ff", nil); got != "text" {
		t.Errorf("read %q", got)
	}
	if got := s.sh("stat -c '%a %u %n' *; mkdir d; echo x >d/d; mkfifo p"); got != "640 65534 f\n" {
		t.Errorf("in the session: %s", got)
	}
	if got := s.want(200, "GET", "d", nil); !strings.Contains(got, `{"entries":[{"name":"d","type":"file"`) {
		t.Errorf("a directory with a file of its name is %s", got)
	}
	in := archived(t, tar.Header{Name: "a/b", Size: 3, Mode: 0o600})
	s.want(204, "PUT", "d?tar=1", in)
	names := ""
	for r := tar.NewReader(strings.NewReader(s.want(200, "GET", "d?tar=1", nil))); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		names += h.Name + " "
	}
	if !strings.Contains(names, "d/a/b ") || !strings.Contains(names, "d/d ") {
		t.Errorf("the archive has %s", names)
	}
	s.want(204, "DELETE", "d", nil)
	s.want(404, "GET", "d", nil)
	s.want(422, "DELETE", "", nil)
	s.want(422, "GET", "p?tar=1", nil)

	// No path leads out of the workspace, however it is written.
	for _, path := range []string{
		"%2e%2e", "%2E%2E%2Fetc%2Fpasswd", "a%2F..%2F..%2Fetc%2Fpasswd", "a/%2e%2e/%2e%2e/etc", "%2Fetc%2Fpasswd", "%2Fwork%2F..%2Fetc%2Fpasswd", "%2Fworkshop",
		"%2F%2Fetc%2Fpasswd", "f%00", "%00", "%FF", "%2F", strings.Repeat("x", 5000),
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			for _, query := range []string{"", "?tar=1", "?list=1"} {
				status, text, err := s.ask(method, path+query, strings.NewReader(""))
				if err != nil || status != 422 {
					t.Errorf("%s %.60s%s: %d, %v: %.200s", method, path, query, status, err, text)
				}
			}
		}
	}
	for _, path := range []string{"/v1/sessions/" + s.name + "/files/../files/f", "/v1/sessions/%2e%2e/files/f", "/v1/sessions//files/f", "/v1/sessions/" + s.name + "%2Ffiles/f/../f"} {
		if status, text, err := s.ask("GET", path, nil); err != nil || status != 404 && text != "text" {
			t.Errorf("%s: %d, %v: %.200s", path, status, err, text)
		}
	}
	if got := s.sh("ls -A"); got != "f\np\n" {
		t.Errorf("left: %s", got)
	}
}

func TestFilesHTTPHostileArchives(t *testing.T) {
	t.Parallel()
	s := newRemoteFiles(t)
	for name, h := range map[string]tar.Header{
		"up":        {Name: "../x", Size: 1},
		"inner up":  {Name: "a/../../x", Size: 1},
		"absolute":  {Name: "/etc/x", Size: 1},
		"link":      {Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc"},
		"hard link": {Name: "l", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"},
		"device":    {Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8},
		"tty":       {Name: "tty", Typeflag: tar.TypeChar, Devmajor: 5},
		"fifo":      {Name: "p", Typeflag: tar.TypeFifo},
	} {
		if got := s.want(422, "PUT", "?tar=1", archived(t, tar.Header{Name: "good", Size: 1, Mode: 0o600}, h)); !strings.Contains(got, "invalid_command") {
			t.Errorf("%s: %s", name, got)
		}
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	io.CopyN(z, zeros{}, 64<<20)
	z.Close()
	s.want(422, "PUT", "?tar=1", &bomb)
	s.want(422, "PUT", "?tar=1", strings.NewReader("no archive"))
	s.want(422, "PUT", "?tar=1", bytes.NewReader(archived(t, tar.Header{Name: "f", Size: 4096}).Bytes()[:2000]))

	// A million entries are refused when there are too many, not when all are there.
	from, to := io.Pipe()
	sent := make(chan int, 1)
	go func() {
		w, n := tar.NewWriter(to), 0
		for ; n < 1_000_000; n++ {
			if w.WriteHeader(&tar.Header{Name: fmt.Sprint(n), Mode: 0o600}) != nil {
				break
			}
		}
		to.Close()
		sent <- n
	}()
	if status, text, err := s.ask("PUT", "?tar=1", from); err == nil && status != 422 {
		t.Errorf("%d: %s", status, text)
	}
	from.Close()
	if n := <-sent; n > 200_000 {
		t.Errorf("%d entries were taken", n)
	}
	if got := s.sh("ls -A"); got != "" {
		t.Errorf("left: %.200s", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A command of the sidecar takes files of the client's, and its files come back to the client.
func TestRunFilesRemote(t *testing.T) {
	t.Parallel()
	s := newRemoteFiles(t)
	dir := t.TempDir()
	os.WriteFile(dir+"/f", []byte("\x00\xff"), 0o750)
	for _, flags := range [][]string{nil, {"--session", s.name}} {
		args := append([]string{"-H", "unix://" + s.socket, "run", "--file", "f:d/f", "--collect", "**", "--collect-to", "to"}, flags...)
		cmd := exec.Command(binary, append(args, "stat -c %a d/f; cp d/f g; echo text >h")...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "750\n" {
			t.Errorf("%v: %s", err, out)
		}
		for name, want := range map[string]string{"d/f": "\x00\xff", "g": "\x00\xff", "h": "text\n"} {
			if got, err := os.ReadFile(dir + "/to/" + name); string(got) != want {
				t.Errorf("%s has %q, %v", name, got, err)
			}
		}
		os.RemoveAll(dir + "/to")
	}
	const body = `{"command":"cat f","files":[{"path":"f","content":"aGk=","encoding":"base64","mode":"0600"}],"collect":["f"]}`
	if got := s.want(200, "POST", "/v1/executions", strings.NewReader(body)); !strings.Contains(got, `"stdout":"hi"`) || !strings.Contains(got, `"files":[{"path":"f","size":2,"mode":"0600","content":"hi","encoding":"utf-8"}]`) {
		t.Errorf("%s", got)
	}
	for says, body := range map[string]string{
		"is not base64": `{"command":"x","files":[{"path":"f","content":"?","encoding":"base64"}]}`,
		"mode":          `{"command":"x","files":[{"path":"f","content":"","mode":"4755"}]}`,
		"has a":         `{"command":"x","files":[{"path":"../f","content":""}]}`,
		"not a pattern": `{"command":"x","collect":["["]}`,
	} {
		if got := s.want(422, "POST", "/v1/executions", strings.NewReader(body)); !strings.Contains(got, says) {
			t.Errorf("%s: %s", body, got)
		}
	}
}

// What is cut changes nothing, and does not seem whole.
func TestFilesHTTPCut(t *testing.T) {
	t.Parallel()
	s := newRemoteFiles(t)
	s.want(204, "PUT", "f", strings.NewReader("old"))
	for _, path := range []string{"f", "?tar=1"} {
		c, err := net.Dial("unix", s.socket)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "PUT /v1/sessions/%s/files/%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n", s.name, path)
		io.Copy(c, io.LimitReader(archived(t, tar.Header{Name: "f", Size: 5_000_000}), 1_000_000))
		eventually(t, "some has arrived", func() bool { return strings.TrimSpace(s.sh("find . -name '.belljar*'")) != "" })
		c.Close()
		eventually(t, "nothing is left", func() bool { return s.sh("ls -A; cat f") == "f\nold" })
	}
	s.want(411, "PUT", "f", struct{ io.Reader }{strings.NewReader("of unknown size")})
	if got := s.want(200, "GET", "f", nil); got != "old" {
		t.Errorf("the file has %q", got)
	}
	for _, path := range []string{"big", "big?tar=1"} {
		s.sh("dd if=/dev/zero of=big bs=1M count=50 2>&1; sync")
		answer, err := s.client.Get("http://localhost/v1/sessions/" + s.name + "/files/" + path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(answer.Body, make([]byte, 1000)); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%d, %v", answer.StatusCode, err)
		}
		kill(containersOf(s.name)[0])
		eventually(t, "it is gone", func() bool { return len(containersOf(s.name)) == 0 })
		n, err := io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if err == nil {
			t.Errorf("%s: %d bytes of a killed container seem whole", path, n)
		}
		s.want(http.StatusCreated, "POST", "/v1/sessions", strings.NewReader(`{"name":"`+s.name+`"}`))
	}
}

func TestFilesHTTPParallel(t *testing.T) {
	t.Parallel()
	s := newRemoteFiles(t)
	var all sync.WaitGroup
	for i := range 20 {
		text := strings.Repeat(fmt.Sprintf("%02d", i), 100_000)
		all.Go(func() {
			s.want(204, "PUT", fmt.Sprintf("f%d", i), strings.NewReader(text))
			s.want(204, "PUT", "same", strings.NewReader(text))
			if got := s.want(200, "GET", fmt.Sprintf("f%d", i), nil); got != text {
				t.Errorf("file %d has %d bytes: %.20s", i, len(got), got)
			}
		})
	}
	all.Wait()
	if got := s.want(200, "GET", "same", nil); len(got) != 200_000 || strings.Trim(got, got[:2]) != "" && strings.ReplaceAll(got, got[:2], "") != "" {
		t.Errorf("%d bytes of several uploads: %.20s", len(got), got)
	}

	// A directory that becomes a link to another, again and again.
	s.sh("mkdir real; echo inside >real/f; echo real >/tmp/f; cp -r real d; (while [ ! -e stop ]; do rm -rf d; ln -s /tmp d; rm d; ln -s /etc d; rm d; cp -r real d; done >/dev/null 2>&1 &)")
	for range 15 {
		method, path := []string{"GET", "PUT", "GET"}[rand.N(3)], []string{"d/f", "d/passwd", "d%2Ff?list=1", "d?tar=1"}[rand.N(4)]
		status, text, err := s.ask(method, path, strings.NewReader("mine"))
		if err != nil && method != "GET" || status >= 500 && status != 502 || strings.Contains(text, "root:") {
			t.Errorf("%s %s: %d, %v: %.300s", method, path, status, err, text)
		}
	}
	s.sh("touch stop")
}

// Changes come as lines, until the session ends: then the connection breaks.
func TestFilesHTTPWatch(t *testing.T) {
	t.Parallel()
	s := newRemoteFiles(t)
	s.want(204, "PUT", "old", strings.NewReader("x"))
	answer, err := s.client.Get("http://localhost/v1/sessions/" + s.name + "/files/?watch=1")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	s.sh(`rm old; echo abc >"n
l"`)
	var got bytes.Buffer
	for _, want := range []string{`{"type":"removed","path":"old"`, `{"type":"created","path":"n\nl"`, `"path":"n\nl","size":4,`} { // which it has when written
		for !strings.Contains(got.String(), want) {
			if _, err := io.CopyN(&got, answer.Body, 1); err != nil {
				t.Fatalf("%v, after %s", err, &got)
			}
		}
	}
	s.want(204, "DELETE", "/v1/sessions/"+s.name, nil)
	if _, err := io.Copy(io.Discard, answer.Body); err == nil {
		t.Error("the end of the session seems to be no more changes")
	}
}
