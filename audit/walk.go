package audit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func (v *verifier) bad(f Finding) {
	v.Bad++
	v.report(f)
}

func (v *verifier) warn(f Finding) {
	f.Warning = true
	v.Warnings++
	v.report(f)
}

// walk reads the lines of a file, up to that size: others may append.
func (v *verifier) walk(f *os.File, size int64) error {
	in := newLines(io.LimitReader(f, size))
	at := Finding{File: filepath.Base(f.Name())}
	for offset := int64(0); ; offset += in.size {
		err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at.Line++
		v.take(in, at, offset)
	}
}

// take takes one line.
func (v *verifier) take(in *lines, at Finding, offset int64) {
	m, ok := parse(in.line)
	if !ok || in.long || !in.ended {
		if !v.chain.torn.any() {
			v.torn, v.offset = at, offset
		}
		v.chain.torn.add(in.line, in.ended, v.chain.sum)
		return
	}
	at.Seq = m.Seq
	if v.Records == 0 {
		v.begin(m, at)
	}
	if !v.chain.follows(m, in.line) {
		v.reportUnmarked()
		if before := m.before(); before.seq > v.chain.seq && before.seq < v.floor {
			v.chain, v.floor = before, 0 // earlier records were removed by rotation in the meantime
		}
		if !v.chain.follows(m, in.line) {
			v.explain(m, in.line, at)
			v.chain.seq, v.chain.sum = m.Seq, digest(in.line)
		}
	} else if m.TornBytes > 0 {
		at := v.torn
		v.warn(Finding{File: at.File, Line: at.Line, Text: fmt.Sprintf("%d bytes of an incomplete record; record %d confirms this", m.TornBytes, m.Seq)})
	}
	if m.Lost > 0 {
		v.bad(Finding{File: at.File, Line: at.Line, Seq: at.Seq, Text: fmt.Sprintf("the %d records before it are missing: the machine stopped before they reached its disk, or someone removed them", m.Lost)})
	}
	v.Records++
	v.at = at
	v.matchTargets()
}

// matchTargets records whether this is the noted record or the one in the head.
func (v *verifier) matchTargets() {
	v.seen = v.seen || v.chain.sum == v.noted
	v.met = v.met || v.chain.sum == v.head.SHA256
}

// begin accepts the first record, unless another one is expected.
func (v *verifier) begin(m mark, at Finding) {
	torn := v.chain.torn
	v.chain = m.before()
	v.chain.torn = torn
	v.First = v.chain.seq + 1
	if v.chain.seq == 0 {
		v.chain.sum = none
	}
	if v.known && v.First > max(v.head.First, v.floor) {
		at.Text = missing(v.head.First, v.chain.seq) + " before it"
		v.bad(at)
	}
	v.floor = 0
}

func missing(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("record %d is missing", from)
	}
	return fmt.Sprintf("records %d to %d are missing", from, to)
}

// explain says why a record does not follow the one before it.
func (v *verifier) explain(m mark, line []byte, at Finding) {
	switch last := v.chain.seq; {
	case m.Seq == last+1 && v.at.Line > 0:
		at = v.at
		at.Text = fmt.Sprintf("it was changed: its SHA-256 does not match record %d", m.Seq)
	case m.Seq == last+1:
		at.Text = "it was changed: it refers to a record before it, but it is the first"
	case m.Seq > last+1:
		at.Text = missing(last+1, m.Seq-1) + " before it"
	case digest(line) == v.chain.sum:
		at.Text = "it appears twice"
	default:
		at.Text = fmt.Sprintf("it is out of order: it follows record %d", last)
	}
	v.bad(at)
}

// reportUnmarked reports lines that are no records, and that no mark covers.
func (v *verifier) reportUnmarked() {
	if !v.chain.torn.any() {
		return
	}
	at, t := v.torn, v.chain.torn
	size := v.offset + t.bytes
	if t.ended {
		size++
	}
	known := v.chain.seq == v.head.Seq || v.head.rebooted() // no record is written before the rest is repaired
	if v.met && known && !t.foreign && at.File == v.name && size == v.size {
		at.Text = "an incomplete record; the next record will confirm this"
		v.warn(at)
	} else {
		at.Text = "it is not a valid record"
		v.bad(at)
	}
	v.chain.torn = torn{}
}

// end compares the end of the chain with the head.
func (v *verifier) end() {
	at := v.at
	at.File = cmp.Or(at.File, filepath.Base(v.file))
	last := v.chain.seq
	switch h := v.head; {
	case !v.known && h.file != nil && v.Records == 0: // the process that created it was killed
	case !v.known && v.noted != "" && v.chain.sum == v.noted:
	case !v.known:
		v.bad(Finding{File: filepath.Base(headName(v.file)), Text: "it is missing, so belljar cannot tell whether the last records are missing"})
	case h.SHA256 == "": // already reported
	case h.Seq == last && h.SHA256 == v.chain.sum:
	case h.Seq == last:
		at.Text = "it was changed: its SHA-256 does not match the head"
		v.bad(at)
	case h.Seq > last:
		at.Seq = 0
		at.Text = missing(last+1, h.Seq) + " after it"
		v.bad(at)
	case v.met && (last == h.Seq+1 || h.rebooted()):
		at.Text = "the head does not include it: its belljar was killed"
		v.warn(at)
	default:
		at.Text = fmt.Sprintf("it was not written by belljar: the head says that record %d is the last", h.Seq)
		v.bad(at)
	}
	if v.noted != "" && !v.seen {
		v.bad(Finding{File: filepath.Base(v.file), Text: fmt.Sprintf("no record has the SHA-256 %s: that record was changed, removed or rotated away, or it is from another audit log", v.noted)})
	}
}
