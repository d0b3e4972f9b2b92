package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"belljar/sandbox"
)

// dial is a connection to the server, which the test closes.
func (s *attacked) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial(s.network, s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// A12: a client that does not read its events is cut off; the command goes on, and the
// others do not notice.
func TestSidecarWithAReaderThatStalls(t *testing.T) {
	t.Parallel()
	s := besiege(t, "")
	body := asJSON(object{"command": "yes", "timeout_seconds": 3000, "id": s.unique + "-flood"})
	holding := s.dial()
	fmt.Fprintf(holding, "POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	output := "/v1/executions/" + s.unique + "-flood/output"
	eventually(t, "the flood is there", func() bool {
		status, _ := s.ask(http.MethodGet, output, "")
		return status == http.StatusOK
	})
	resumed := s.dial()
	fmt.Fprintf(resumed, "GET /v1/executions/%s-flood/events HTTP/1.1\r\nHost: localhost\r\n\r\n", s.unique)
	var all sync.WaitGroup
	for _, conn := range []net.Conn{holding, resumed} {
		all.Go(func() {
			if err := hungUp(conn, patience); err != nil {
				t.Errorf("the server keeps the connection: %v", err)
			}
		})
	}
	for range 20 {
		if r := s.runs(object{"command": "echo unharmed"}); string(r.Stdout.Bytes()) != "unharmed\n" {
			t.Errorf("%+v", r)
		}
	}
	all.Wait()
	eventually(t, "the flood goes on", func() bool {
		answer, err := s.send(t.Context(), http.MethodGet, output+"?offset=50000000", "")
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		n, _ := io.CopyN(io.Discard, answer.Body, 1)
		return n > 0
	})
	s.want(http.StatusAccepted, nil, http.MethodDelete, "/v1/executions/"+s.unique+"-flood", "")
	if r := s.end(s.unique + "-flood").Result; r.Cause != sandbox.CauseCanceled {
		t.Errorf("%s: %s", r.Cause, r.Message)
	}
	if most := s.peak(); most > 256<<20 {
		t.Errorf("it had %d MiB", most>>20)
	}
}

// hungUp waits until the other end of the connection is closed, without reading from it.
func hungUp(conn net.Conn, most time.Duration) error {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	n, deadline := 0, time.Now().Add(most)
	failed := raw.Control(func(fd uintptr) {
		for {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}, int(time.Until(deadline).Milliseconds()))
			if err != unix.EINTR { //nolint:errorlint // an Errno
				return
			}
		}
	})
	if err = errors.Join(failed, err); err == nil && n == 0 {
		err = fmt.Errorf("after %s", most)
	}
	return err
}

// A5: bodies of a GB are refused, and cost little memory, however many come.
func TestSidecarWithLargeBodies(t *testing.T) {
	t.Parallel()
	s := besiege(t, "", "pool: {min: 0, max: 0}")
	var all sync.WaitGroup
	for i, path := range slices.Repeat([]string{"/v1/executions", "/v1/sessions", "/v1/policy/check", "/v1/approvals/none", "/v1/executions/none/signal", "/v1/executions"}, 4) {
		all.Go(func() {
			conn := s.dial()
			head := "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
			all.Go(func() {
				if i%2 == 0 {
					io.WriteString(conn, head+"Content-Length: 1073741824\r\n\r\n")
					io.CopyN(conn, zeros{}, 1<<30) // until it is closed
					return
				}
				io.WriteString(conn, head+"Transfer-Encoding: chunked\r\n\r\n")
				io.CopyN(httputil.NewChunkedWriter(conn), zeros{}, 1<<30)
			})
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %s", path, answer.Status)
			}
		})
	}
	all.Wait()
	if most := s.peak(); most > 512<<20 {
		t.Errorf("it had %d MiB", most>>20)
	}
	s.runs(object{"command": "true"})
}

// A5, the other way: large results that a client asks for and does not read do not fill the memory.
func TestSidecarWithUnreadResults(t *testing.T) {
	t.Parallel()
	s := besiege(t, "", "pool: {min: 0, max: 0}")
	id := s.accepts(object{"command": "head -c 12000000 /dev/zero | tr '\\0' a"}, "Idempotency-Key", "large")
	if r := s.end(id).Result; len(r.Stdout.Bytes()) != 12_000_000 {
		t.Fatalf("%d bytes: %s", len(r.Stdout.Bytes()), r.Message)
	}
	again := asJSON(object{"command": "head -c 12000000 /dev/zero | tr '\\0' a"})
	for i := range 80 {
		fmt.Fprint(s.dial(), []string{
			"GET /v1/executions/" + id + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
			"GET /v1/executions/" + id + "/events?after=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
			fmt.Sprintf("POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: large\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(again), again),
		}[i%3])
	}
	for range 10 {
		if r := s.runs(object{"command": "echo unharmed"}); string(r.Stdout.Bytes()) != "unharmed\n" {
			t.Errorf("%+v", r)
		}
	}
	if most := s.peak(); most > 768<<20 {
		t.Errorf("it had %d MiB", most>>20)
	}
}

// A6: a client that sends its header or its body slowly is cut off.
func TestSidecarWithSlowClients(t *testing.T) {
	t.Parallel()
	s := besiege(t, "", "pool: {min: 0, max: 0}")
	begin := time.Now()
	var all sync.WaitGroup
	for _, first := range slices.Repeat([]string{
		"", "G", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
		"POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"POST /v1/executions/none/stdin HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n",
	}, 20) {
		conn := s.dial()
		all.Go(func() {
			io.WriteString(conn, first)
			drip := time.NewTicker(500 * time.Millisecond)
			defer drip.Stop()
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				io.Copy(io.Discard, conn)
			}()
			for {
				select {
				case <-closed:
					return
				case <-drip.C:
					if first != "" {
						io.WriteString(conn, "1")
					}
				case <-t.Context().Done():
					return
				}
			}
		})
	}
	for range 5 {
		s.runs(object{"command": "true"})
	}
	all.Wait()
	if took := time.Since(begin); took > patience {
		t.Errorf("the last one was cut after %s", took)
	}
}

// 10,000 idle connections do not keep the next one out.
func TestSidecarWithIdleConnections(t *testing.T) {
	t.Parallel()
	s := besiege(t, "", "pool: {min: 0, max: 0}")
	s.runs(object{"command": "true"})
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	before := s.descriptors()
	idle := make([]net.Conn, 0, 10000)
	defer func() {
		for _, conn := range idle {
			conn.Close()
		}
	}()
	for i := range min(10000, int(limit.Cur)-2000) {
		conn, err := net.Dial(s.network, s.address)
		if err != nil { // the server has not accepted the others yet
			eventually(t, "it is connected", func() bool {
				conn, err = net.Dial(s.network, s.address)
				return err == nil
			})
		}
		if i%2 == 0 { // kept alive
			io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
		idle = append(idle, conn)
		if i%1000 == 999 {
			if r := s.runs(object{"command": "echo unharmed"}, "Idempotency-Key", fmt.Sprint(i)); strings.TrimSpace(string(r.Stdout.Bytes())) != "unharmed" {
				t.Errorf("%+v", r)
			}
		}
	}
	if open := s.descriptors(); open > 2048+100 {
		t.Errorf("it has %d open files", open)
	}
	if most := s.peak(); most > 256<<20 {
		t.Errorf("it had %d MiB", most>>20)
	}
	for _, conn := range idle {
		conn.Close()
	}
	eventually(t, "they are closed", func() bool {
		s.client.CloseIdleConnections()
		return s.descriptors() <= before
	})
}
