package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"belljar/internal/ownfile"
	"belljar/sandbox"
)

// resultAt is where the result begins in a spool's note, whose page it follows: a file of
// its own would take longer to make than all the rest takes to write.
const resultAt = ownfile.Page

// Ending is how a command ended, as its caller learned it.
type Ending struct {
	Result  sandbox.Result
	Replace bool // its streams are to be valid UTF-8, which what is kept need not be
	Notices []string
}

// endingHead is the first line of an Ending. The second is the result without its
// streams. They are in the segments: so many bytes of each beginning and each end.
type endingHead struct {
	Kept    [2]struct{ Head, Tail int }
	Replace bool
	Notices []string
}

func outputOf(r *sandbox.Result, which Stream) *sandbox.Output {
	if which == Stderr {
		return &r.Stderr
	}
	return &r.Stdout
}

// Keep writes down how the command ended, after End and before Close. Others read it
// after Close: a file that is not whole is from a belljar that was killed before that.
func (s *Spool) Keep(e Ending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.note == nil {
		return nil
	}
	head := endingHead{Replace: e.Replace, Notices: e.Notices}
	for i := range head.Kept {
		o := outputOf(&e.Result, Stream(i))
		head.Kept[i].Head, head.Kept[i].Tail = len(o.Head), len(o.Tail)
		o.Head, o.Tail = nil, nil
	}
	var text bytes.Buffer
	err := errors.Join(json.NewEncoder(&text).Encode(head), e.Result.WriteJSON(&text))
	if err != nil {
		return err
	}
	s.resultSize = int64(text.Len())
	if _, err = s.note.file.WriteAt(text.Bytes(), resultAt); err != nil {
		s.note.file.Truncate(resultAt) // what is there in part is not read in any case
	}
	return err
}

// read reads what Keep wrote.
func (e *Ending) read(text []byte) (kept endingHead, err error) {
	first, second, _ := bytes.Cut(text, []byte("\n"))
	if err = errors.Join(json.Unmarshal(first, &kept), json.Unmarshal(second, &e.Result)); err == nil {
		e.Replace, e.Notices = kept.Replace, kept.Notices
	}
	return kept, err
}

// Ending is how a command ended. No one writes its spool any more.
func (s Store) Ending(id string) (Ending, error) {
	text, err := os.ReadFile(filepath.Join(s.Path(id), noteName))
	if errors.Is(err, fs.ErrNotExist) {
		return Ending{}, errGone
	}
	if err != nil {
		return Ending{}, err
	}
	var e Ending
	head, err := e.read(text[min(len(text), resultAt):])
	if err != nil {
		return Ending{Result: s.unreported(id)}, nil //nolint:nilerr // it is not whole: its belljar was killed
	}
	for i, kept := range head.Kept {
		o := outputOf(&e.Result, Stream(i))
		var failed error
		if o.Head, failed = readBytes(s.FileSource(id), Stream(i), 0, int64(kept.Head)); failed == nil {
			o.Tail, failed = readBytes(s.FileSource(id), Stream(i), o.Total-int64(kept.Tail), o.Total)
		}
		if failed != nil {
			o.Dropped = o.Total - int64(len(o.Head)+len(o.Tail))
			e.Result.Evidence.OutputError = "output that was stored could not be read: " + failed.Error()
		}
		if e.Replace {
			*o = ReplaceOutput(*o)
		}
	}
	return e, nil
}

// unreported is what is known of a command whose result was not written.
func (s Store) unreported(id string) sandbox.Result {
	info := s.Find(id).LogInfo
	r := sandbox.Result{ID: info.ID, Command: info.Command, Description: info.Description, Profile: info.Profile, Session: info.Session}
	if e := info.LogEnd; e == nil {
		hint := "the exit status is unknown: run the command again if that is safe"
		if info.Session != "" {
			hint = "the exit status is unknown, and processes of the command may still be running in the session: belljar session ls"
		}
		r.Fail(&sandbox.Error{Cause: sandbox.CauseEngineLost, Message: "the belljar that ran the command died; partial output kept", Hint: hint})
	} else {
		r.Status, r.Cause, r.ExitCode, r.Message = e.Status, e.Cause, e.ExitCode, "the rest of the result was not stored: the disk was full, or belljar was killed"
		if r.Status == sandbox.StatusFatal || r.Status == sandbox.StatusDenied {
			r.Error = &sandbox.Error{Cause: r.Cause, Message: r.Message}
		}
	}
	for which := range Stream(2) {
		s.readAll(id, which, outputOf(&r, which))
		if e := info.LogEnd; e != nil {
			of := [2]sandbox.LogStream{e.Stdout, e.Stderr}[which]
			outputOf(&r, which).SHA256 = of.SHA256
		}
	}
	return r
}

// readAll reads what is kept of a stream: its beginning, and its end if the middle is
// gone.
func (s Store) readAll(id string, which Stream, o *sandbox.Output) {
	r, err := NewReader(s.FileSource(id), which.Name(), 0)
	if err != nil {
		return
	}
	defer r.Close()
	defer func() {
		if o.Dropped > 0 {
			*o = trimmed(*o)
		}
	}()
	for {
		c, err := r.Ready(context.Background())
		if err != nil {
			return
		}
		if c.Missed > 0 {
			o.Head, o.Tail = append(o.Head, o.Tail...), nil
		}
		o.Dropped += c.Missed
		o.Total += c.Missed + int64(len(c.Data))
		o.Lines += countLines(c.Data)
		if o.Dropped > 0 {
			o.Tail = append(o.Tail, c.Data...)
		} else {
			o.Head = append(o.Head, c.Data...)
		}
	}
}
