package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"belljar/sandbox"

	"github.com/coder/websocket"
)

// remoteTerminal is a terminal over a WebSocket.
type remoteTerminal struct {
	*websocket.Conn
	t      *testing.T
	shown  []byte // that no one waited for yet
	offset int
	result *sandbox.Result
}

// opens opens an execution's terminal.
func (s *attacked) opens(id string, offset int) *remoteTerminal {
	s.t.Helper()
	conn, _, err := websocket.Dial(s.t.Context(), fmt.Sprintf("http://localhost/v1/executions/%s/tty?offset=%d", id, offset), &websocket.DialOptions{HTTPClient: s.client, Subprotocols: []string{"belljar.tty.v1"}}) //nolint:bodyclose // Dial closes it
	if err != nil {
		s.t.Fatal(err)
	}
	conn.SetReadLimit(-1)
	s.t.Cleanup(func() { conn.CloseNow() })
	return &remoteTerminal{Conn: conn, t: s.t, offset: offset}
}

// reads reads a message.
func (r *remoteTerminal) reads() error {
	kind, data, err := r.Read(r.t.Context())
	if err != nil {
		return err
	}
	if kind == websocket.MessageBinary {
		r.shown = append(r.shown, data...)
		r.offset += len(data)
		return nil
	}
	var e sandbox.Event
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	r.result = e.Result
	return nil
}

func (r *remoteTerminal) sees(text string) {
	r.t.Helper()
	for {
		if _, rest, found := bytes.Cut(r.shown, []byte(text)); found {
			r.shown = rest
			return
		}
		if err := r.reads(); err != nil {
			r.t.Fatalf("waiting for %q, the screen has %q: %v", text, r.shown, err)
		}
	}
}

func (r *remoteTerminal) sends(kind websocket.MessageType, text string) {
	r.t.Helper()
	if err := r.Write(r.t.Context(), kind, []byte(text)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *remoteTerminal) types(text string) { r.sends(websocket.MessageBinary, text) }

// ends reads to the end, and is the result.
func (r *remoteTerminal) ends() sandbox.Result {
	r.t.Helper()
	var err error
	for err == nil {
		err = r.reads()
	}
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure || r.result == nil {
		r.t.Fatalf("it ends with %v; the screen has %q", err, r.shown)
	}
	return *r.result
}

var remoteShell = object{"command": "exec sh", "env": object{"PS1": "prompt> "}, "tty": object{"rows": 33, "cols": 101}, "stdin_open": true}

// A person's shell over the WebSocket: all that a terminal of one's own does.
func TestSidecarTerminal(t *testing.T) {
	t.Parallel()
	s := besiege(t, "")
	id := s.accepts(remoteShell)
	a := s.opens(id, 0)
	a.sees("prompt> ")
	a.types("stty size\r")
	a.sees("33 101\r\n")
	a.sends(websocket.MessageText, `{"type":"resize","rows":20,"cols":60}`)
	a.types("until [ \"$(stty size)\" = '20 60' ]; do sleep 0.1; done; echo re''sized\r")
	a.sees("resized\r\n")
	a.types("sh -c 'echo beg\"\"un; exec sleep 1000'; echo interrup''ted\r")
	a.sees("begun\r\n")
	a.types("\x03")
	a.sees("prompt> ")

	a.CloseNow()
	b, watcher := s.opens(id, a.offset), s.opens(id, 0)
	b.types("echo a''gain\r")
	b.sees("again\r\n")
	watcher.sees("resized\r\n")
	watcher.sees("again\r\n")
	watcher.Close(websocket.StatusNormalClosure, "")
	b.types("sh -c 'echo beg\"\"un; exec sleep 1000'\r")
	b.sees("begun\r\n")
	b.sends(websocket.MessageText, `{"type":"signal","signal":"SIGTERM"}`) // which an interactive shell ignores
	b.sees("prompt> ")
	b.types("exit 3\r")
	if r := b.ends(); r.ExitCode != 3 || r.Cause != sandbox.CauseExited || r.Method != "pty" {
		t.Errorf("%+v", r)
	}
	if r := s.opens(id, 0).ends(); r.ExitCode != 3 {
		t.Errorf("after the end: %+v", r)
	}
}

// A sidecar that stops tells those who have a terminal how the command ended.
func TestSidecarStopsTerminals(t *testing.T) {
	t.Parallel()
	s := besiege(t, ", drain_timeout: 1s")
	a := s.opens(s.accepts(remoteShell), 0)
	a.sees("prompt> ")
	s.cmd.Process.Signal(syscall.SIGTERM)
	if r := a.ends(); r.Cause != sandbox.CauseCanceled || !strings.Contains(r.Message, "shutting down") {
		t.Errorf("%+v", r)
	}
	s.stop(0)
}
