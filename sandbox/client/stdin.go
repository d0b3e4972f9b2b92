package client

import (
	"bytes"
	"context"
	"errors"
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
			if x.live.Err() != nil {
				return
			}
			if failed := x.typed(part[:n], offset-int64(n), err); failed != nil && !x.readsNoMore(failed) {
				x.ask(func(ctx context.Context) { x.endWithoutStdin(ctx, failed) })
			} else if failed == nil && err == nil {
				continue
			}
			return
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

// readsNoMore reports whether an error of what is asked is that the command ended, or at
// least needs no more of its stdin.
func (x *running) readsNoMore(err error) bool {
	of, ok := errors.AsType[*refused](err)
	return x.live.Err() != nil || ok && (of.status == http.StatusNotFound || of.status == http.StatusConflict)
}

// endWithoutStdin ends a command whose stdin cannot be sent: it would wait for the rest, or
// take what it has for all. What cannot be ended either is given up, as no one holds it.
func (x *running) endWithoutStdin(ctx context.Context, failed error) {
	x.unsaid = fmt.Errorf("sending the command's stdin: %w", failed)
	if err := x.typed(nil, 0, fmt.Errorf("the client could not send it: %w", failed)); err == nil || x.readsNoMore(err) {
		return
	}
	if err := x.send(ctx, request{method: http.MethodDelete, path: execution(x.id)}); err != nil && !x.readsNoMore(err) {
		x.giveUp(x.unsaid)
	}
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
