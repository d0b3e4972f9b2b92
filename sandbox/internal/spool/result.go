package spool

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"belljar/sandbox"
)

// The file of a command's result, and of one that is being written.
const (
	resultName = "result.json"
	newResult  = "result.new"
)

// Ending is how a command ended, as its caller learned it.
type Ending struct {
	Result  sandbox.Result
	Replace bool // its streams are to be valid UTF-8, which what is kept need not be
	Notices []string
}

// endingFile is an Ending without what its result has of the streams. That is in the
// segments: so many bytes of each beginning and each end.
type endingFile struct {
	Ending
	Kept [2]struct{ Head, Tail int }
}

func outputOf(r *sandbox.Result, which Stream) *sandbox.Output {
	if which == Stderr {
		return &r.Stderr
	}
	return &r.Stdout
}

// Keep writes down how the command ended, after End and before Close. It is there
// whole, or not at all.
func (s *Spool) Keep(e Ending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Dir == "" {
		return nil
	}
	f := endingFile{Ending: e}
	for i := range f.Kept {
		o := outputOf(&f.Result, Stream(i))
		f.Kept[i].Head, f.Kept[i].Tail = len(o.Head), len(o.Tail)
		o.Head, o.Tail = nil, nil
	}
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	s.resultSize = int64(len(text))
	err = os.WriteFile(filepath.Join(s.Dir, newResult), text, 0o600)
	if err == nil {
		err = os.Rename(filepath.Join(s.Dir, newResult), filepath.Join(s.Dir, resultName))
	}
	if err != nil {
		os.Remove(filepath.Join(s.Dir, newResult))
	}
	return err
}

// Ending is how a command ended. No one writes its spool any more.
func (s Store) Ending(id string) (Ending, error) {
	text, err := os.ReadFile(filepath.Join(s.Path(id), resultName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(s.Path(id), noteName)); err != nil {
			return Ending{}, errGone
		}
		return Ending{Result: s.unreported(id)}, nil
	}
	var f endingFile
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return Ending{}, err
	}
	for i, kept := range f.Kept {
		o := outputOf(&f.Result, Stream(i))
		var failed error
		if o.Head, failed = readBytes(s.FileSource(id), Stream(i), 0, int64(kept.Head)); failed == nil {
			o.Tail, failed = readBytes(s.FileSource(id), Stream(i), o.Total-int64(kept.Tail), o.Total)
		}
		if failed != nil {
			o.Dropped = o.Total - int64(len(o.Head)+len(o.Tail))
			f.Result.Evidence.OutputError = "output that was stored could not be read: " + failed.Error()
		}
		if f.Replace {
			*o = ReplaceOutput(*o)
		}
	}
	return f.Ending, nil
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
