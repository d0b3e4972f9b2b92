package boxlink

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"syscall"

	"belljar/internal/boxinit/wire"
)

// maxStale bounds what an earlier client may have left unread.
const maxStale = 64 << 20

// read reads all answers, up to the link's end. It never waits for anything else: what is received for a
// process is bounded by what was allowed.
func (l *Link) read(from *bufio.Reader) error {
	mark := append([]byte(wire.Marker), l.nonce...)
	if err := skipTo(from, mark); err != nil {
		return err
	}
	again := make([]byte, len(mark)-wire.Header)
	var head [wire.Header]byte
	body := make([]byte, wire.MaxFrame)
	for {
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return err
		}
		if bytes.HasPrefix(mark, head[:]) { // another hello was answered, too
			if _, err := io.ReadFull(from, again); err != nil {
				return err
			}
			if !bytes.HasSuffix(mark, again) {
				return errProtocol
			}
			continue
		}
		kind, id, size, ok := wire.DecodeHeader(head[:])
		if !ok {
			return errProtocol
		}
		if _, err := io.ReadFull(from, body[:size]); err != nil {
			return err
		}
		l.heard.Add(1)
		if !l.take(kind, id, body[:size]) {
			return fmt.Errorf("%w: %q of %d bytes", errProtocol, kind, size)
		}
	}
}

// skipTo reads up to the end of the mark.
func skipTo(from *bufio.Reader, mark []byte) error {
	var last []byte
	for range maxStale {
		c, err := from.ReadByte()
		if err != nil {
			return err
		}
		if last = append(last, c); bytes.HasSuffix(last, mark) {
			return nil
		}
		if len(last) > 64*len(mark) {
			last = append(last[:0], last[len(last)-len(mark):]...)
		}
	}
	return fmt.Errorf("%w: more than %d bytes before its hello", errProtocol, maxStale)
}

// take takes an answer, and reports whether it is one.
func (l *Link) take(kind wire.Kind, id uint32, body []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil { // what was read before is known to be cut off there
		return false
	}
	if kind == wire.Garbled {
		l.failLocked(ErrGarbled)
		return true
	}
	if id == 0 || id > l.last {
		return false
	}
	switch kind {
	case wire.Welcome, wire.Done, wire.Listed:
		return l.takeAnswer(kind, id, body)
	}
	p := l.procs[id]
	if p == nil { // it was forgotten
		return kind != wire.Started && kind != wire.NotStarted
	}
	return p.take(kind, body)
}

func (l *Link) takeAnswer(kind wire.Kind, id uint32, body []byte) bool {
	c := l.calls[id]
	if c == nil {
		return false
	}
	if kind == wire.Listed {
		record, ok := wire.DecodeRecord(body)
		c.records, c.size = append(c.records, record), c.size+len(body)+perRecord
		return ok && c.size <= maxList
	}
	n, ok := wire.Uint32(body)
	c.errno = syscall.Errno(n)
	delete(l.calls, id)
	if kind == wire.Welcome {
		if ok && n != wire.Version {
			l.failLocked(ErrVersion)
			return true // to its caller the link broke
		}
		c.errno = 0
	}
	close(c.answered)
	return ok
}
