package executions

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"belljar/internal/sniff"
	"belljar/sandbox"

	"github.com/go-json-experiment/json/jsontext"
)

// Record is what is known of an execution from its beginning: the journal's first line.
type Record struct {
	ID      string    `json:"id"`
	Owner   string    `json:"owner"`
	Key     string    `json:"key,omitempty"`     // the request's Idempotency-Key
	Request string    `json:"request,omitempty"` // a hash of the request with that key
	Started time.Time `json:"started"`
	Profile string    `json:"profile"`
	Session string    `json:"session,omitempty"`
	Cut     bool      `json:"cut"` // what follows its last line could not be written
}

// appendLine is its JSON, which encoding/json takes several times as long to write after a pause.
func (r Record) appendLine(line []byte) ([]byte, error) {
	line = append(line, '{')
	for _, f := range []struct {
		name, text string
		always     bool
	}{
		{"id", r.ID, true}, {"owner", r.Owner, true}, {"key", r.Key, false}, {"request", r.Request, false},
		{"started", r.Started.Format(time.RFC3339Nano), true}, {"profile", r.Profile, true}, {"session", r.Session, false},
	} {
		if f.text == "" && !f.always {
			continue
		}
		if len(line) > 1 {
			line = append(line, ',')
		}
		line = append(append(append(line, '"'), f.name...), `":`...)
		var err error
		if line, err = jsontext.AppendQuote(line, f.text); err != nil {
			return nil, err
		}
	}
	return append(line, `,"cut":false`+lineEnd...), nil
}

const (
	lineEnd = "}\n"

	// cutMark takes the place of false in the record.
	cutMark = "true "

	// endLine is the journal's last: the result's event follows it, if it is not before it.
	endLine = "end\n"

	// waitsLine is in the journal of an execution that callers knew of before it began, before its events.
	waitsLine = "waits\n"

	// beginsLine is there once a runner took the command, before its events.
	beginsLine = "begins\n"
)

// appendLine is an event as a line of the journal: events with output as
// "stdout BYTES MICROSECONDS FLAGS", the others as their JSON. The flags are b for binary
// and r for output that was made valid UTF-8. Of views and screens, which may be many, only
// the number and the time are kept.
func appendLine(line []byte, e sandbox.Event) ([]byte, error) {
	if e.Type == sandbox.EventView || e.Type == sandbox.EventScreen {
		e.Data, e.Screen = nil, nil // the next one shows all that this one does
	}
	if !isOutput(e.Type) {
		text, err := e.MarshalJSON()
		return append(append(line, text...), '\n'), err
	}
	line = fmt.Appendf(line, "%s %d %d ", e.Type, e.Size, e.Time.UnixMicro())
	if e.Binary {
		line = append(line, 'b')
	}
	if e.Encoding != "" {
		line = append(line, 'r')
	}
	return append(line, '\n'), nil
}

func isOutput(t sandbox.EventType) bool { return t == sandbox.EventStdout || t == sandbox.EventStderr }

// parseLine reads what appendLine wrote. Output has no Data yet.
func parseLine(line []byte) (e sandbox.Event, err error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if bytes.HasPrefix(line, []byte("{")) {
		return e, json.Unmarshal(line, &e)
	}
	fields := strings.Split(string(line), " ")
	if len(fields) != 4 || !isOutput(sandbox.EventType(fields[0])) {
		return e, fmt.Errorf("reading a journal: line %.80q", line)
	}
	size, err := strconv.Atoi(fields[1])
	micros, errTime := strconv.ParseInt(fields[2], 10, 64)
	e = sandbox.Event{Type: sandbox.EventType(fields[0]), Size: size, Time: time.UnixMicro(micros), Binary: strings.Contains(fields[3], "b")}
	if strings.Contains(fields[3], "r") {
		e.Encoding = sniff.UTF8Replaced // or UTF8Plain: its data says
	}
	return e, errors.Join(err, errTime)
}

// journal reads a journal's events, one after the other.
type journal struct {
	file   *os.File
	lines  *bufio.Reader
	Record Record
	next   uint64           // the number of the event that Next returns
	ended  bool             // all were read
	waited bool             // see waitsLine
	began  bool             // see beginsLine
	at     map[string]int64 // where its data begins, by stream
}

func openJournal(name string) (*journal, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	j := &journal{file: file, lines: bufio.NewReader(file), next: 1, at: map[string]int64{}}
	first, err := j.lines.ReadBytes('\n')
	if err == nil || errors.Is(err, io.EOF) {
		if err = errors.Join(err, json.Unmarshal(first, &j.Record)); err != nil {
			err = fmt.Errorf("%w: %w", errNoRecord, err)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("reading the journal %s: %w", name, err), file.Close())
	}
	j.waited = j.takes(waitsLine)
	j.began = j.takes(beginsLine)
	return j, nil
}

// takes reads the line, if it is the next one.
func (j *journal) takes(line string) bool {
	if next, _ := j.lines.Peek(len(line)); string(next) != line {
		return false
	}
	_, err := j.lines.Discard(len(line))
	return err == nil
}

// Next is the next event, and where its output begins in its stream. The error is io.EOF
// at the end, and errEnded where no more will follow.
func (j *journal) Next() (e sandbox.Event, offset int64, err error) {
	if j.ended {
		return e, 0, errEnded
	}
	line, err := j.lines.ReadBytes('\n')
	switch {
	case err != nil:
		return e, 0, err // a line that is only in part there was never sent
	case string(line) == endLine:
		j.ended = true
		return e, 0, errEnded
	}
	if e, err = parseLine(line); err != nil {
		return e, 0, err
	}
	e.Seq = j.next
	j.next++
	offset = j.at[string(e.Type)]
	j.at[string(e.Type)] += int64(e.Size)
	return e, offset, nil
}

// skip reads up to the event with that number.
func (j *journal) skip(to uint64) error {
	for j.next < to {
		if _, _, err := j.Next(); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) Close() error { return j.file.Close() }

// errNoRecord is of a file that is no journal, or not one of an execution that began.
var errNoRecord = errors.New("its first line is not whole")

// errEnded is at a journal's end.
var errEnded = errors.New("the journal ends")

// isWhole reports whether the journal ends: its server lived until the result.
func isWhole(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	end := make([]byte, len(endLine))
	if _, err := file.Seek(-int64(len(end)), io.SeekEnd); err != nil {
		return false
	}
	_, err = io.ReadFull(file, end)
	return err == nil && string(end) == endLine
}

// spareCount is how many journals are ready that no execution has yet: to make a file can take
// longer than all else that a server adds to a short command.
const spareCount = 8

const journalSuffix = ".journal"

func (b *Book) newJournal() (*os.File, error) {
	return os.OpenFile(filepath.Join(b.Dir, rand.Text()+journalSuffix), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func discard(file *os.File) { os.Remove(file.Name()); file.Close() }
