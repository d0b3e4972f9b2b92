package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"time"

	"belljar/sandbox"
)

// maxLine bounds a line, without its newline. A script of sandbox.MaxArgument fits,
// with each byte escaped.
const maxLine = 1 << 20

// none is the hash before the first record.
var none = strings.Repeat("0", 2*sha256.Size)

// place is the position of a record in the chain.
type place struct {
	Seq  uint64 `json:"seq"`
	Prev string `json:"prev"` // hash of the previous line
}

// maxPlace bounds a place in JSON.
const maxPlace = 128

// record is a line without its place.
type record struct {
	sandbox.AuditRecord
	Cut map[string]int `json:"cut,omitempty"` // of a record that was too long for a line: the fields that are cut, and how many items (of a list) or bytes (of a text) they had
}

// The types of a mark.
const (
	typeTorn = "torn" // the bytes before it are the rest of a line that was not written completely
	typeLost = "lost" // records before it did not reach the disk, when the machine stopped, or were removed
)

// mark is a line by the log itself: it says what is wrong before it.
type mark struct {
	place
	Type       string    `json:"type"`
	Time       time.Time `json:"time"`
	Lost       uint64    `json:"lost,omitempty"` // records
	TornBytes  int64     `json:"torn_bytes,omitempty"`
	TornSHA256 string    `json:"torn_sha256,omitempty"`
}

func digest(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// encode makes a line without its place. A record that is too long for one is cut
// more and more, until it fits with each byte escaped.
func encode(r sandbox.AuditRecord) ([]byte, error) {
	text, err := sandbox.JSON(record{AuditRecord: r})
	for limit := 64 << 10; err == nil && len(text) > maxLine-maxPlace && limit > 0; limit /= 4 {
		short, was := shorten(r, limit)
		text, err = sandbox.JSON(record{AuditRecord: short, Cut: was})
	}
	if err != nil {
		return nil, fmt.Errorf("encoding an audit record: %w", err)
	}
	return text, nil
}

// line is a record at its place, without its newline.
func (p place) line(record []byte) []byte {
	line := fmt.Appendf(make([]byte, 0, maxPlace+len(record)), `{"seq":%d,"prev":%q,`, p.Seq, p.Prev)
	return append(line, record[1:]...)
}

// parse reads the chain's fields of a line, and reports whether it is a record
// at all. Of an ordinary record that is its beginning: the rest only has to be JSON,
// which the rest of a partly written line is not.
func parse(line []byte) (m mark, ok bool) {
	rest, ok1 := bytes.CutPrefix(line, []byte(`{"seq":`))
	number, rest, ok2 := bytes.Cut(rest, []byte(`,"prev":"`))
	if !ok1 || !ok2 || len(rest) < len(none)+1 || rest[len(none)] != '"' || !json.Valid(line) {
		return mark{}, false
	}
	after := rest[len(none)+1:]
	for _, kind := range []string{typeTorn, typeLost} {
		if bytes.HasPrefix(after, []byte(`,"type":"`+kind+`"`)) && json.Unmarshal(line, &m) != nil {
			return mark{}, false
		}
	}
	seq, err := strconv.ParseUint(string(number), 10, 64)
	m.Seq, m.Prev = seq, string(rest[:len(none)])
	return m, err == nil && m.Lost < m.Seq
}

func seqOf(line []byte) uint64 {
	m, _ := parse(line)
	return m.Seq
}

// chain is the state of reading a log's lines in order.
type chain struct {
	seq  uint64 // of the last record
	sum  string // hash of its line
	torn torn   // the lines after it
}

func newChain() chain { return chain{sum: none} }

// follows accepts a record that continues the chain. It ignores any other.
func (c *chain) follows(m mark, line []byte) bool {
	if m.Prev != c.sum || m.Seq != c.seq+1+m.Lost || !c.torn.is(m) {
		return false
	}
	c.seq, c.sum, c.torn = m.Seq, digest(line), torn{}
	return true
}

// before is the state of the chain before a line, according to that line.
func (m mark) before() chain { return chain{seq: m.Seq - 1 - m.Lost, sum: m.Prev} }

// torn are lines that are no records.
type torn struct {
	hash    hash.Hash // of them, without the newline of the last
	bytes   int64
	ended   bool // the last has a newline, too
	foreign bool // one that has a newline is nothing that a killed process leaves
}

// add adds a line that precedes the record with that hash. A killed process leaves the
// beginning of a record, and one killed while repairing that, its newline.
func (t *torn) add(line []byte, ended bool, sum string) {
	t.ended = ended
	t.foreign = t.foreign || ended && !begins(line, sum)
	if t.hash == nil {
		t.hash = sha256.New()
	} else {
		t.hash.Write([]byte("\n"))
		t.bytes++
	}
	t.hash.Write(line)
	t.bytes += int64(len(line))
}

// begins reports whether a line is the beginning of a record after the one with that
// hash. Bytes that did not reach the disk are NULs.
func begins(line []byte, sum string) bool {
	const first = `{"seq":`
	text := bytes.TrimRight(line, "\x00")
	rest, ok := bytes.CutPrefix(text, []byte(first))
	if !ok {
		return len(line) > 0 && strings.HasPrefix(first, string(text))
	}
	rest = bytes.TrimLeft(rest, "0123456789")
	then := []byte(`,"prev":"` + sum + `"`)
	return bytes.HasPrefix(rest, then) || bytes.HasPrefix(then, rest)
}

func (t *torn) any() bool { return t.hash != nil }

func (t *torn) sum() string {
	if t.hash == nil {
		return ""
	}
	return hex.EncodeToString(t.hash.Sum(nil))
}

// is reports whether m is the mark of these bytes, or an ordinary record if
// there are none.
func (t *torn) is(m mark) bool { return m.TornBytes == t.bytes && m.TornSHA256 == t.sum() }

// lines reads a file line by line, with memory for one.
type lines struct {
	in    *bufio.Reader
	line  []byte // without its newline; empty for one that is too long
	size  int64  // its bytes, with the newline
	ended bool
	long  bool
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, 64<<10)} }

// next reads a line; io.EOF says that there is none.
func (l *lines) next() error {
	l.line, l.size, l.ended, l.long = l.line[:0], 0, false, false
	for {
		part, err := l.in.ReadSlice('\n')
		l.size += int64(len(part))
		l.ended = err == nil
		if l.long = l.long || l.size > maxLine+1; l.long {
			l.line = l.line[:0]
		} else {
			l.line = append(l.line, bytes.TrimSuffix(part, []byte("\n"))...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && l.size > 0:
			return nil
		default:
			return err
		}
	}
}
