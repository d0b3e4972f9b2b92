package view

import "unicode/utf8"

// end ends the line with a line end.
func (l *lineReader) end(w weight) {
	l.flush()
	w.add(l.carry)
	if w == (weight{1, 1}) {
		l.keep.plain(lineEnd)
	} else {
		l.keep.atom(lineEnd, w)
	}
	l.reset()
}

// cutOff ends the line where the stream ends, or bytes are missing.
func (l *lineReader) cutOff() {
	l.flush()
	if l.carry != (weight{}) {
		l.keep.atom(nil, l.carry)
	}
	l.reset()
}

// flush passes on the line, without its line end.
func (l *lineReader) flush() {
	if !l.celled {
		l.flushText()
		return
	}
	if l.redrawn {
		l.trim()
	}
	for i := range l.row.head {
		l.emit(&l.row.head[i])
	}
	l.emitted()
	if l.row.lost > 0 {
		l.keep.cut(cutMark(int64(l.row.lost)), l.row.cut)
	} else {
		l.carry.add(l.row.cut) // what was erased later
	}
	for i := range l.row.tail.n {
		l.emit(l.row.tail.at(i))
	}
	l.emitted()
}

func (l *lineReader) flushText() {
	at := 0
	for _, s := range l.seams {
		_, size := utf8.DecodeRune(l.text[s.at:])
		l.keep.plain(l.text[at:s.at])
		at = s.at + size
		l.keep.atom(l.text[s.at:at], s.w)
	}
	l.keep.plain(l.text[at:])
	if l.cr {
		l.carry.bytes++
	}
}

// trim removes blanks from the end of a line, with which programs erase what
// they drew.
func (l *lineReader) trim() {
	n := l.row.width()
	for n > 0 {
		if at := l.row.at(n - 1); at == nil || at.base != ' ' || at.marks[0] != 0 {
			break
		}
		n--
	}
	l.carry.add(l.row.truncate(n))
}

// emit collects cells that show their own bytes.
func (l *lineReader) emit(c *cell) {
	n := len(l.out)
	l.out = c.append(l.out)
	if c.w != (weight{bytes: int64(len(l.out) - n)}) {
		text := l.out[n:]
		l.out = l.out[:n]
		l.emitted()
		l.keep.atom(text, c.w)
	}
}

func (l *lineReader) emitted() {
	if len(l.out) > 0 {
		l.keep.plain(l.out)
		l.out = l.out[:0]
	}
}

func (l *lineReader) reset() {
	l.text, l.seams, l.chars, l.cr = l.text[:0], l.seams[:0], 0, false
	l.row.reset()
	l.celled, l.redrawn, l.column, l.before, l.carry = false, false, 0, 0, weight{}
	l.sequence.state = inText
}
