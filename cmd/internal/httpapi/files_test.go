package httpapi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"belljar/cmd/internal/access"
	"belljar/cmd/internal/executions"
	"belljar/cmd/internal/problem"
	"belljar/sandbox"

	"github.com/google/go-cmp/cmp"
)

// fakeFiles is a session s with a file f and a directory d.
type fakeFiles struct {
	sandbox.Files
	mu    sync.Mutex
	list  []fs.FileInfo // of d
	read  func(to io.Writer) error
	calls []string
	first int // lists that are not asked for again
}

type info struct {
	name string
	mode fs.FileMode
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.mode }
func (i info) ModTime() time.Time { return time.Unix(1, 0).UTC() }
func (i info) IsDir() bool        { return i.mode.IsDir() }
func (i info) Sys() any           { return nil }

func (f *fakeFiles) call(what string, at sandbox.SessionPath) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, fmt.Sprintf("%s %s %q by %s", what, at.Session, at.Path, at.Caller.Token))
}

func (f *fakeFiles) Sessions(context.Context) ([]sandbox.SessionInfo, error) {
	return []sandbox.SessionInfo{{Name: "s"}}, nil
}

func (f *fakeFiles) RemoveSession(context.Context, string) error { return nil }

func (f *fakeFiles) ReadFile(_ context.Context, at sandbox.SessionPath, to io.Writer) error {
	f.call("read", at)
	if at.Path == "twin" {
		return sandbox.Invalid("", "it is not a regular file")
	}
	return f.send(to)
}

func (f *fakeFiles) send(to io.Writer) error {
	f.mu.Lock()
	read := f.read
	f.mu.Unlock()
	return read(to)
}

// sends sets what is read.
func (f *fakeFiles) sends(read func(to io.Writer) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = read
}

func (f *fakeFiles) ReadTar(_ context.Context, at sandbox.SessionPath, to io.Writer) error {
	f.call("read tar", at)
	return f.send(to)
}

func (f *fakeFiles) WriteFile(_ context.Context, at sandbox.SessionPath, mode fs.FileMode, size int64, from io.Reader) error {
	text := make([]byte, size)
	_, err := io.ReadFull(from, text)
	if at.Path == "given up" {
		from.(interface{ SetReadDeadline(time.Time) error }).SetReadDeadline(time.Now())
		time.Sleep(20 * time.Millisecond)
	}
	f.call(fmt.Sprintf("write %o, %d, %q to", mode, size, text), at)
	return err
}

func (f *fakeFiles) WriteTar(_ context.Context, at sandbox.SessionPath, from io.Reader) error {
	text, err := io.ReadAll(from)
	f.call(fmt.Sprintf("unpack %q to", text), at)
	return err
}

func (f *fakeFiles) RemoveFile(ctx context.Context, at sandbox.SessionPath) error {
	f.call("remove", at)
	return ctx.Err()
}

func (f *fakeFiles) ListFiles(_ context.Context, at sandbox.SessionPath) ([]fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !at.Again {
		f.first++
	}
	switch at.Path {
	case "f":
		return []fs.FileInfo{info{"f", 0o4640, 4}}, nil
	case "twin", "twin/.":
		return []fs.FileInfo{info{"twin", 0o644, 4}}, nil
	case "d", "":
		return f.list, nil
	}
	return nil, &sandbox.Error{Cause: sandbox.CauseInvalid, Message: "it", Err: fs.ErrNotExist}
}

// filesServer serves fake files to ann, who owns the session, bob and an admin: as the
// request's header says.
func filesServer(t *testing.T, f *fakeFiles) *httptest.Server {
	t.Helper()
	owners := &executions.Owners{Dir: t.TempDir()}
	if _, err := owners.Claim("s", "ann"); err != nil {
		t.Fatal(err)
	}
	api, _ := (&Server{Owners: owners, Sessions: f, Files: f}).Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := access.Identity{Name: r.Header.Get("Who"), Scopes: []access.Scope{access.Scope(r.Header.Get("Scope"))}}
		api.ServeHTTP(w, r.WithContext(access.With(r.Context(), who)))
	}))
	t.Cleanup(server.Close)
	return server
}

// ask is a request of someone.
func ask(t *testing.T, server *httptest.Server, who, scope, method, path string, body io.Reader) (status int, text string, header http.Header, err error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/v1/sessions/"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Who", who)
	r.Header.Set("Scope", scope)
	answer, err := server.Client().Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer answer.Body.Close()
	all, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(all), answer.Header, err
}

func writes(text string) func(io.Writer) error {
	return func(to io.Writer) error {
		_, err := io.WriteString(to, text)
		return err
	}
}

func TestFilesOverHTTP(t *testing.T) {
	f := &fakeFiles{read: writes("four"), list: []fs.FileInfo{info{"a", fs.ModeDir | 0o755, 0}, info{"b", fs.ModeSymlink | 0o777, 1}}}
	server := filesServer(t, f)
	const entry = `{"entries":[{"name":"f","type":"file","size":4,"mode":"0640","modified":"1970-01-01T00:00:01Z"}]}`
	for _, c := range []struct {
		who, scope, method, path, body string
		status                         int
		text                           string // is in the answer
	}{
		{"ann", "read", "GET", "s/files/f", "", 200, "four"},
		{"ann", "read", "GET", "s/files/f?list=1", "", 200, entry},
		{"ann", "read", "GET", "s/files/d", "", 200, `{"name":"b","type":"link"`},
		{"ann", "read", "GET", "s/files/", "", 200, `{"name":"a","type":"directory"`},
		{"ann", "read", "GET", "s/files/twin", "", 200, `{"name":"twin","type":"file"`},
		{"ann", "read", "GET", "s/files/f?tar=1", "", 200, "four"},
		{"ann", "read", "HEAD", "s/files/f", "", 200, ""},
		{"ann", "read", "GET", "s/files/none", "", 404, `"not_found"`},
		{"ann", "read", "GET", "s/files/f?tar=yes", "", 422, "tar"},
		{"ann", "read", "GET", "s/files/f?what=1", "", 422, "what"},
		{"ann", "read", "PUT", "s/files/f", "x", 403, "forbidden"},
		{"ann", "read", "DELETE", "s/files/f", "", 403, "forbidden"},
		{"ann", "run", "PUT", "s/files/%2fwork%2ff?mode=0600", "text", 204, ""},
		{"ann", "run", "PUT", "s/files/a%2F..%2Fb", "", 204, ""},
		{"ann", "run", "PUT", "s/files/f?mode=4755", "x", 422, "mode"},
		{"ann", "run", "PUT", "s/files/f?mode=rw", "x", 422, "mode"},
		{"ann", "run", "PUT", "s/files/d?tar=1", "a tar", 204, ""},
		{"ann", "run", "DELETE", "s/files/d", "", 204, ""},
		{"bob", "run", "GET", "s/files/f", "", 404, `no session \"s\"`},
		{"bob", "run", "PUT", "s/files/f", "x", 404, `no session \"s\"`},
		{"bob", "run", "DELETE", "s/files/f", "", 404, `no session \"s\"`},
		{"bob", "run", "GET", "t/files/f", "", 404, `no session \"t\"`},
		{"admin", "admin", "GET", "s/files/f", "", 200, "four"},
		{"", "", "GET", "s/files/f", "", 403, "forbidden"},
		{"ann", "read", "POST", "s/files/f", "", 405, "not_allowed"},
	} {
		status, text, header, err := ask(t, server, c.who, c.scope, c.method, c.path, strings.NewReader(c.body))
		if err != nil || status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s: %s %s: %d, %v: %s", c.who, c.method, c.path, status, err, text)
		}
		if mode := header.Get("Belljar-Mode"); (mode == "0640") != (c.status == 200 && strings.HasSuffix(c.path, "files/f")) {
			t.Errorf("%s %s has mode %q", c.method, c.path, mode)
		}
	}
	want := []string{`read s "f" by ann`, `read s "twin" by ann`, `read tar s "f" by ann`, `write 600, 4, "text" to s "/work/f" by ann`, `write 644, 0, "" to s "a/../b" by ann`, `unpack "a tar" to s "d" by ann`, `remove s "d" by ann`, `read s "f" by admin`}
	if diff := cmp.Diff(want, f.calls); diff != "" {
		t.Error(diff)
	}
}

// A failure before the first byte is a problem; after it, the connection breaks.
func TestFilesAreNotCutSilently(t *testing.T) {
	broken := &sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "the session ended meanwhile"}
	f := &fakeFiles{}
	server := filesServer(t, f)
	for _, path := range []string{"s/files/f", "s/files/d?tar=1"} {
		f.sends(func(io.Writer) error { return broken })
		if status, text, _, err := ask(t, server, "ann", "read", "GET", path, nil); err != nil || status != 502 || !strings.Contains(text, `"engine_lost"`) {
			t.Errorf("%s: %d, %s, %v", path, status, text, err)
		}
		f.sends(func(to io.Writer) error { return errors.Join(writes(strings.Repeat("x", 1<<20))(to), broken) })
		if _, text, _, err := ask(t, server, "ann", "read", "GET", path, nil); err == nil {
			t.Errorf("%s: %d bytes seem whole", path, len(text))
		}
		f.sends(func(to io.Writer) error { return errors.Join(writes("a few")(to), broken) }) // which are not sent yet
		if _, text, _, err := ask(t, server, "ann", "read", "GET", path, nil); err == nil {
			t.Errorf("%s: %d bytes seem whole", path, len(text))
		}
	}
}

func TestUploadsAreBounded(t *testing.T) {
	f := &fakeFiles{}
	server := filesServer(t, f)
	raw := func(request string) string {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, strings.ReplaceAll(request, "\n", "\r\n"))
		c.(*net.TCPConn).CloseWrite()
		answer, _ := bufio.NewReader(c).ReadString('\n')
		return strings.TrimSpace(answer)
	}
	const head = "PUT /v1/sessions/s/files/f HTTP/1.1\nHost: h\nWho: ann\nScope: run\n"
	for request, want := range map[string]string{
		head + "Transfer-Encoding: chunked\n\n1\nx\n0\n\n":                 "411",
		head + "Content-Length: 1073741825\n\nx":                           "413",
		head + "Content-Length: -1\n\nx":                                   "400",
		head + "Content-Length: 4\nContent-Encoding: gzip\n\nabcd":         "415",
		head + "Content-Length: 5\n\nabcd":                                 "422",
		head + "Content-Length: 0\n\n":                                     "204",
		strings.Replace(head, "/f ", "/%00 ", 1) + "Content-Length: 0\n\n": "204", // the session's to refuse
	} {
		if answer := raw(request); !strings.Contains(answer, want) {
			t.Errorf("%q: %s, want %s", request, answer, want)
		}
	}
}

// Once a bug: by HTTP/1.0, as nginx asks by default, a download that was cut looked whole.
func TestDownloadsByHTTP10(t *testing.T) {
	f := &fakeFiles{read: func(to io.Writer) error {
		io.WriteString(to, strings.Repeat("half", 10_000))
		return errors.New("it is cut")
	}, list: []fs.FileInfo{info{"a", 0o644, 1}}}
	server := filesServer(t, f)
	for path, want := range map[string]string{"f": "426", "f?tar=1": "426", "d?list=1": "200", "d": "200"} {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET /v1/sessions/s/files/%s HTTP/1.0\r\nWho: ann\r\nScope: read\r\n\r\n", path)
		answer, err := io.ReadAll(c)
		if c.Close(); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 "+want) || strings.Contains(string(answer), "half") {
			t.Errorf("%s: %v: %.200s", path, err, answer)
		}
	}
}

// Once a bug: an upload that came too slowly was told that its body ended early.
func TestSlowUpload(t *testing.T) {
	server := filesServer(t, &fakeFiles{})
	plain := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("a few"), iotest.ErrReader(fmt.Errorf("reading: %w", problem.New(problem.Timeout, "it is slow", "send it faster")))))
		plain.ServeHTTP(w, r)
	})
	for _, path := range []string{"s/files/f", "s/files/d?tar=1"} {
		status, text, _, err := ask(t, server, "ann", "run", "PUT", path, strings.NewReader("more than a few"))
		if err != nil || status != http.StatusRequestTimeout || !strings.Contains(text, "it is slow") {
			t.Errorf("%s: %d, %v: %s", path, status, err, text)
		}
	}
}

// Once a bug: once an engine wanted no more of an upload, all later requests on its connection were canceled.
func TestUploadThatIsGivenUp(t *testing.T) {
	server := filesServer(t, &fakeFiles{})
	for _, body := range []string{"", "text", strings.Repeat("x", 1<<20)} {
		for _, request := range []struct{ method, path string }{{"PUT", "s/files/given%20up"}, {"DELETE", "s/files/f"}} {
			status, text, _, err := ask(t, server, "ann", "run", request.method, request.path, strings.NewReader(body))
			if err != nil || status != http.StatusNoContent {
				t.Errorf("%s after %d bytes: %d, %v: %s", request.method, len(body), status, err, text)
			}
		}
	}
}

func TestWatch(t *testing.T) {
	f := &fakeFiles{list: []fs.FileInfo{info{"old", 0o644, 1}, info{"same", 0o644, 1}, info{"grows", 0o644, 1}}}
	server := filesServer(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1/sessions/s/files/d?watch=1", nil)
	r.Header.Set("Who", "ann")
	r.Header.Set("Scope", "read")
	answer, err := server.Client().Do(r) // it answers when it has the first list
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	f.mu.Lock()
	f.list = []fs.FileInfo{info{"same", 0o644, 1}, info{"grows", 0o644, 2}, info{"new\n", 0o644, 3}}
	f.mu.Unlock()
	lines := bufio.NewScanner(answer.Body)
	var got []string
	for len(got) < 3 && lines.Scan() {
		var c change
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		got = append(got, fmt.Sprintf("%s %q %d", c.Type, c.Path, c.Size))
	}
	if diff := cmp.Diff([]string{`changed "d/grows" 2`, `created "d/new\n" 3`, `removed "d/old" 1`}, got); diff != "" {
		t.Error(diff)
	}
	f.mu.Lock()
	if f.first != 1 {
		t.Errorf("the audit log would have %d lists of one watch", f.first)
	}
	f.list = make([]fs.FileInfo, maxWatched+1)
	for i := range f.list {
		f.list[i] = info{name: fmt.Sprint(i)}
	}
	f.mu.Unlock()
	if lines.Scan() || lines.Err() == nil {
		t.Errorf("too many entries: %s, %v", lines.Text(), lines.Err())
	}
	if status, text, _, _ := ask(t, server, "ann", "read", "GET", "s/files/d?watch=1", nil); status != 422 || !strings.Contains(text, "10001 entries") {
		t.Errorf("%d: %s", status, text)
	}
}
