package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

// resultJSON is a result's JSON as it is read.
type resultJSON struct {
	resultHead
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	resultTail
}

// UnmarshalJSON reads what WriteJSON writes, with its precision: times to the
// microsecond, and the fields of processes that JSON has.
func (r *Result) UnmarshalJSON(text []byte) error {
	var j resultJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	return j.read(r)
}

func (j *resultJSON) read(r *Result) (err error) {
	*r = Result{
		ID: j.ID, Command: j.Command, Dir: j.Dir, Shell: j.Shell, Description: j.Description, Profile: j.Profile, Session: j.Session, User: User{Name: j.UserName}, SessionLost: j.Lost,
		Status: j.Status, Cause: j.Cause, Message: j.Message, ExitCode: j.ExitCode, Signal: j.Signal, Method: j.Method, Error: j.Error, Policy: j.Policy,
		Stdout:  Output{Total: j.StdoutBytes, Lines: j.StdoutLines, SHA256: j.StdoutSHA256},
		Stderr:  Output{Total: j.StderrBytes, Lines: j.StderrLines, SHA256: j.StderrSHA256},
		Streams: j.Streams, Views: j.View, Screen: j.Screen, Files: j.Files, Summary: j.Summary, Masked: j.Masked,
		Lingering: j.Lingering, Evidence: j.Evidence, Resources: j.Resources,
		Timing:    Timing{duration(j.Timing.Queued), duration(j.Timing.Start), duration(j.Timing.FirstOutput), duration(j.Timing.Total)},
		Container: j.Container,
	}
	if j.User != "" {
		_, err = fmt.Sscanf(j.User, "%d:%d", &r.User.UID, &r.User.GID)
	}
	return errors.Join(err, r.Stdout.keep(j.Stdout, j.StdoutEncoding, j.StdoutGap), r.Stderr.keep(j.Stderr, j.StderrEncoding, j.StderrGap))
}

func duration(ms float64) time.Duration {
	return time.Duration(math.Round(ms*1000)) * time.Microsecond
}

// keep fills o with the kept bytes of a stream.
func (o *Output) keep(text, encoding string, g *gap) error {
	read, err := decoded(text, encoding)
	if o.Head, o.Encoding = read.Head, read.Encoding; err != nil || g == nil {
		return err
	}
	if g.Offset < 0 || g.Offset > len(o.Head) {
		return fmt.Errorf("reading a result: a gap at %d of %d bytes", g.Offset, len(o.Head))
	}
	o.Head, o.Tail, o.Dropped = o.Head[:g.Offset:g.Offset], o.Head[g.Offset:], g.Bytes
	return nil
}

// decoded is a text of JSON that has that encoding.
func decoded(text, encoding string) (o Output, err error) {
	if encoding == "base64" {
		o.Head, err = base64.StdEncoding.DecodeString(text)
		return o, err
	}
	if o.Head = []byte(text); encoding == "utf-8-replaced" || encoding == "utf-8" && !o.IsText() {
		o.Encoding = encoding
	}
	return o, nil
}
