package view

import (
	"strings"

	"belljar/sandbox"
)

// What a screen keeps of what scrolled off its top: the newest.
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

// add appends text, which is not empty.
func (l *line) add(s style, text []byte) {
	l.text = append(l.text, text...)
	if n := len(l.spans); n > 0 && l.spans[n-1].style == s {
		l.spans[n-1].end = len(l.text)
	} else {
		l.spans = append(l.spans, span{s, len(l.text)})
	}
}

// trim cuts the blanks at the end, whatever their style.
func (l *line) trim() {
	end := len(l.text)
	for end > 0 && l.text[end-1] == ' ' {
		end--
	}
	l.text = l.text[:end]
	n := len(l.spans)
	for n > 0 && (n > 1 && l.spans[n-2].end >= end || end == 0) {
		n--
	}
	if l.spans = l.spans[:n]; n > 0 {
		l.spans[n-1].end = end
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
	lines        []line
	bytes, spans int
}

// push appends a line and forgets the oldest if there are too many.
func (h *history) push(l line) {
	l.trim()
	l = l.clone()
	h.lines = append(h.lines, l)
	h.bytes += len(l.text)
	h.spans += len(l.spans)
	for len(h.lines) > historyLines || h.bytes > historyBytes || h.spans > historySpans {
		h.bytes -= len(h.lines[0].text)
		h.spans -= len(h.lines[0].spans)
		h.lines[0] = line{}
		h.lines = h.lines[1:]
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
