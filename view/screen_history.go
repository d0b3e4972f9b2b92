package view

import (
	"cmp"
	"strings"
	"unicode/utf8"

	"belljar/sandbox"
)

// The defaults for the lines that scrolled off a screen's top, of which the newest are
// kept. historySpans is a minimum, whatever the other bounds.
const (
	historyLines = 1000
	historyBytes = 256 << 10
	historySpans = 64 << 10
)

// line is a row of a screen, or of what was one.
type line struct {
	text  []byte
	spans []span
}

// span is a part of a line: it ends before a byte of the text.
type span struct {
	style style
	end   int
}

// read makes the line what a row shows, but for the blanks at its end, whatever
// their style.
func (l *line) read(row *gridRow) {
	l.text, l.spans = l.text[:0], l.spans[:0]
	cells := row.cells
	for len(cells) > 0 && (cells[len(cells)-1].r == blank || cells[len(cells)-1].r == ' ') {
		cells = cells[:len(cells)-1]
	}
	for len(cells) > 0 {
		s, n := cells[0].style, 0
		for n < len(cells) && cells[n].style == s {
			if r := cells[n].r; r > 0 && r < utf8.RuneSelf {
				l.text = append(l.text, byte(r)) // and quick: this is what most output costs
			} else {
				l.text = row.append(l.text, &cells[n])
			}
			n++
		}
		l.spans = append(l.spans, span{s, len(l.text)})
		cells = cells[n:]
	}
}

// clone is the line with memory of its own, and no more than it needs.
func (l *line) clone() line {
	return line{append([]byte(nil), l.text...), append([]span(nil), l.spans...)}
}

func (l *line) shot() []sandbox.Span {
	shot, from := make([]sandbox.Span, 0, len(l.spans)), 0
	for _, s := range l.spans {
		shot = append(shot, s.style.span(string(l.text[from:s.end])))
		from = s.end
	}
	return shot
}

// history is what scrolled off a screen's top.
type history struct {
	most struct{ lines, bytes, spans int }

	lines        queue[line]
	bytes, spans int
}

// newHistory keeps what v says. A span costs memory, too: in text that is all colors,
// the shortest have a share of what text has.
func newHistory(v sandbox.View) (h history) {
	h.most.lines = int(cmp.Or(v.Scrollback, historyLines))
	h.most.bytes = int(cmp.Or(v.ScrollbackBytes, historyBytes))
	h.most.spans = max(historySpans, h.most.bytes/16)
	return h
}

func (h *history) clear() { *h = history{most: h.most} }

// push appends a line and forgets the oldest if there are too many.
func (h *history) push(l line) {
	h.lines.push(l)
	h.bytes += len(l.text)
	h.spans += len(l.spans)
	for h.lines.n > h.most.lines || h.bytes > h.most.bytes || h.spans > h.most.spans {
		oldest := h.lines.shift()
		h.bytes -= len(oldest.text)
		h.spans -= len(oldest.spans)
	}
}

// shot makes of lines what a reader gets.
func shot(lines []line, size sandbox.TerminalSize) sandbox.Shot {
	for len(lines) > 0 && len(lines[len(lines)-1].text) == 0 {
		lines = lines[:len(lines)-1]
	}
	s := sandbox.Shot{
		Columns: size.Columns,
		Rows:    size.Rows,
		Lines:   make([][]sandbox.Span, 0, len(lines)),
	}
	var text strings.Builder
	for i := range lines {
		if i > 0 {
			text.WriteByte('\n')
		}
		text.Write(lines[i].text)
		s.Lines = append(s.Lines, lines[i].shot())
	}
	s.Text = text.String()
	return s
}
