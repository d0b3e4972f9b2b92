package local

import (
	"fmt"

	"belljar/sandbox"
	"belljar/sandbox/internal/spool"
)

// inResult is how many bytes of both streams are in the result.
func (x *execution) inResult() int64 {
	if x.command.Streams != sandbox.StreamsFull {
		return 0
	}
	return min(x.command.Limits.Result, x.command.Limits.Output)
}

// replaceInvalid makes valid UTF-8 of the result's streams, if the command asks for it.
func (x *execution) replaceInvalid() {
	if r := &x.result; x.command.Encoding == sandbox.EncodingReplace {
		r.Stdout, r.Stderr = spool.ReplaceOutput(r.Stdout), spool.ReplaceOutput(r.Stderr)
	}
}

// leftOut is a notice of how much of the output is missing in the streams or the views
// of the result, and where it is.
func (x *execution) leftOut() (e sandbox.Event, ok bool) {
	left := x.result.Stdout.Dropped + x.result.Stderr.Dropped
	if x.command.Streams != sandbox.StreamsFull {
		left = omitted(x.result.Views)
	}
	if x.replacesViews() && x.result.Views == nil {
		left = x.result.Stdout.Total + x.result.Stderr.Total
	}
	if left == 0 {
		return e, false
	}
	s := x.output.recorder.spool
	has, err := s.Outputs(0)
	lost := has[spool.Stdout].Dropped + has[spool.Stderr].Dropped
	text := fmt.Sprintf("%d bytes of output are left out of the result", left)
	switch {
	case !x.kept() || s.Dir == "":
		text += ", and are not kept"
	case err != nil || lost >= left:
		text += ", and were not kept (raise limits.output)"
	case lost > 0:
		text += fmt.Sprintf(", and %d of them were not kept (raise limits.output); for the others see: belljar logs %s", lost, x.result.ID)
	default:
		text += "; see: belljar logs " + x.result.ID
	}
	return sandbox.Event{Type: sandbox.EventNotice, LeftOut: left, Data: []byte(text)}, true
}

// omitted is how much of the output views leave out.
func omitted(v *sandbox.Views) (bytes int64) {
	if v == nil {
		return 0
	}
	for _, text := range []*sandbox.Text{v.Stdout, v.Stderr, v.Merged} {
		if text != nil {
			bytes += text.OmittedBytes
		}
	}
	return bytes
}
