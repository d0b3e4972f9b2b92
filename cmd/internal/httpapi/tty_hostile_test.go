package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"belljar/sandbox/sandboxtest"

	"github.com/coder/websocket"
)

// echo repeats what is typed, up to a q.
func echo(p *sandboxtest.Proc) int {
	key := make([]byte, 1)
	for {
		if _, err := p.Stdin.Read(key); err != nil || key[0] == 'q' {
			return 0
		}
		p.Stdout.Write(key)
	}
}

// A client that breaks the rules loses its connection, and no one else anything.
func TestTerminalHostile(t *testing.T) {
	s := newSidecar(t, echo)
	of := s.begin(t, nil)
	good := s.sit(t, of, &onScreen{})
	for name, test := range map[string]struct {
		kind   websocket.MessageType
		text   string
		status websocket.StatusCode
	}{
		"huge input":      {websocket.MessageBinary, strings.Repeat("x", 20<<20), websocket.StatusMessageTooBig},
		"huge control":    {websocket.MessageText, strings.Repeat("{", 64<<10+1), websocket.StatusMessageTooBig},
		"no JSON":         {websocket.MessageText, "resize", websocket.StatusPolicyViolation},
		"nothing":         {websocket.MessageText, "", websocket.StatusPolicyViolation},
		"null":            {websocket.MessageText, "null", websocket.StatusPolicyViolation},
		"a list":          {websocket.MessageText, "[]", websocket.StatusPolicyViolation},
		"deep":            {websocket.MessageText, strings.Repeat(`{"type":`, 5000), websocket.StatusPolicyViolation},
		"two":             {websocket.MessageText, `{"type":"eof"}{"type":"eof"}`, websocket.StatusPolicyViolation},
		"a field twice":   {websocket.MessageText, `{"type":"eof","type":"resize"}`, websocket.StatusPolicyViolation},
		"not UTF-8":       {websocket.MessageText, "{\"type\":\"signal\",\"signal\":\"\xff\"}", websocket.StatusPolicyViolation},
		"unknown type":    {websocket.MessageText, `{"type":"result"}`, websocket.StatusPolicyViolation},
		"unknown field":   {websocket.MessageText, `{"type":"eof","now":true}`, websocket.StatusPolicyViolation},
		"wrong field":     {websocket.MessageText, `{"type":"resize","rows":"10"}`, websocket.StatusPolicyViolation},
		"negative size":   {websocket.MessageText, `{"type":"resize","rows":-1,"cols":1}`, websocket.StatusPolicyViolation},
		"enormous size":   {websocket.MessageText, `{"type":"resize","rows":1,"cols":65536}`, websocket.StatusPolicyViolation},
		"not even a size": {websocket.MessageText, `{"type":"resize","rows":1e99}`, websocket.StatusPolicyViolation},
	} {
		bad := s.sit(t, of, &onScreen{offset: good.offset})
		_ = bad.Write(t.Context(), test.kind, []byte(test.text)) // it may be cut before it wrote all
		if err := bad.next(); websocket.CloseStatus(err) != test.status {
			t.Errorf("%s: %v", name, err)
		}
	}
	good.types("still here")
	good.sees("still here")
	good.types("q")
	good.ends(websocket.StatusNormalClosure)
}

// raw makes a WebSocket by hand.
func (s *sidecar) raw(t *testing.T, of string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s/tty HTTP/1.1\r\nHost: x\r\nCaller: ann\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: belljar.tty.v1\r\n\r\n", of)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // it has none
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", response, err)
	}
	return conn
}

// Frames that no library sends, and connections that end in the middle of one.
func TestTerminalFrames(t *testing.T) {
	s := newSidecar(t, echo)
	of := s.begin(t, nil)
	for name, frame := range map[string]string{
		"no mask":             "\x82\x01a",
		"half a header":       "\x82",
		"half a frame":        "\x82\x85\x00\x00\x00\x00ab",
		"endless length":      "\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00ab",
		"negative length":     "\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00ab",
		"unknown opcode":      "\x83\x80\x00\x00\x00\x00",
		"reserved bits":       "\xf2\x80\x00\x00\x00\x00",
		"continues nothing":   "\x80\x80\x00\x00\x00\x00",
		"long ping":           "\x89\xfe\x00\xff\x00\x00\x00\x00",
		"fragmented ping":     "\x09\x80\x00\x00\x00\x00",
		"short close":         "\x88\x81\x00\x00\x00\x00a",
		"unfinished":          "\x02\x81\x00\x00\x00\x00a",
		"unfinished and next": "\x02\x81\x00\x00\x00\x00a\x82\x81\x00\x00\x00\x00a",
	} {
		conn := s.raw(t, of)
		if _, err := io.WriteString(conn, frame); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		conn.(*net.TCPConn).CloseWrite()
		io.ReadAll(conn) // until it is cut
		conn.Close()
	}
	good := s.sit(t, of, &onScreen{})
	good.types("still here")
	good.sees("still here")
	good.types("q")
	good.ends(websocket.StatusNormalClosure)
}

// One types what the command does not read. Others still see and control it, and it takes
// what they type once it reads.
func TestTerminalFlood(t *testing.T) {
	read := make(chan struct{})
	s := newSidecar(t, func(p *sandboxtest.Proc) int {
		_, resized := p.Sizes()
		got := p.Trap("SIGUSR1")
		io.WriteString(p.Stdout, "ready")
		<-resized
		io.WriteString(p.Stdout, "resized")
		<-got
		io.WriteString(p.Stdout, "signalled")
		<-read
		io.Copy(io.Discard, io.LimitReader(p.Stdin, 1<<20))
		return echo(p)
	})
	of := s.begin(t, nil)
	good, flood := s.sit(t, of, &onScreen{}), s.sit(t, of, &onScreen{})
	ctx, cancel := context.WithCancel(t.Context())
	flooded := make(chan int)
	go func() {
		n := 0
		for flood.Write(ctx, websocket.MessageBinary, make([]byte, 64<<10)) == nil {
			n++
		}
		flooded <- n
	}()
	good.sees("ready")
	good.control(`{"type":"resize","rows":30,"cols":100}`)
	good.sees("resized")
	good.control(`{"type":"signal","signal":"SIGUSR1"}`)
	good.sees("signalled")
	waits := s.sit(t, of, &onScreen{offset: good.offset})
	waits.types("behind the flood")
	waits.CloseNow() // while its message waits for its turn
	close(read)
	for !strings.Contains(string(good.shown), "\x00") {
		if err := good.next(); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if n := <-flooded; n < 16 {
		t.Errorf("%d messages", n)
	}
	good.types("q")
	good.ends(websocket.StatusNormalClosure)
}
