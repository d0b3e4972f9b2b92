package client

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"belljar/internal/input"
)

// stdinPart is how much of stdin is sent at once.
const stdinPart = 256 << 10

// stdin sends a command's input. Each part has an offset, with which the sidecar
// knows what it has already.
type stdin struct {
	from io.Reader
	done chan struct{}
}

// sendStdin begins to, if the command has any.
func (x *running) sendStdin() *stdin {
	if x.command.Stdin == nil {
		return nil
	}
	s := &stdin{from: x.command.Stdin, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		part := make([]byte, stdinPart)
		for offset := int64(0); ; {
			n, err := s.from.Read(part)
			offset += int64(n)
			if x.live.Err() != nil || x.typed(part[:n], offset-int64(n), err) != nil || err != nil {
				return // a command that ended reads no more
			}
		}
	}()
	return s
}

// typed sends one part, at the end with eof, and with why where that is not the end.
func (x *running) typed(part []byte, offset int64, end error) error {
	if len(part) == 0 && end == nil {
		return nil
	}
	query := url.Values{"offset": {strconv.FormatInt(offset, 10)}}
	if end != nil {
		query.Set("eof", "1")
	}
	if input.Broken(end) {
		query.Set("failed", strings.ToValidUTF8(fmt.Sprintf("%.500s", end.Error()), "?"))
	}
	return x.send(x.live, request{
		method: http.MethodPost, path: execution(x.id) + "/stdin", query: query,
		header: http.Header{"Content-Type": {"application/octet-stream"}}, body: bytes.Clone(part),
	})
}

// stop ends it after the command's end. A blocked Read can be ended only if it supports
// a deadline; any other is abandoned.
func (s *stdin) stop() {
	if s == nil {
		return
	}
	deadline, ok := s.from.(interface{ SetReadDeadline(time.Time) error })
	if ok && deadline.SetReadDeadline(time.Now()) == nil {
		<-s.done
		deadline.SetReadDeadline(time.Time{})
	}
}
